"""The callback for Lightning: every batch with its draw, logs, and checkpoints from which a run goes on exactly."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")

from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset  # noqa: E402

import metasched as ms  # noqa: E402
from metasched.errors import ConfigError  # noqa: E402
from metasched.torch import BatchSampler, RowTransfer, Transfer  # noqa: E402
from metasched.torch.lightning import ScheduleCallback  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # of other packages, whose they are
SIZES = {"web": 40, "books": 30, "code": 50}
TARGET = torch.randn(12, 4, generator=torch.manual_seed(1)), torch.arange(12) % 3


class Rows(TensorDataset):
    def __init__(self, task, size):
        random = torch.manual_seed(task)
        super().__init__(
            torch.full((size,), task),
            torch.arange(size),
            torch.randn(size, 4, generator=random),
            torch.arange(size) % 3,
        )


class Module(lightning.LightningModule):
    def __init__(self, reward="rows"):
        super().__init__()
        torch.manual_seed(0)
        self.network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        self.rows = RowTransfer(self.network, TARGET, every=2, refresh=3) if reward == "rows" else None
        self.seen, self.costs = [], []

    def training_step(self, batch, number):
        tasks, rows, inputs, labels = batch
        losses = cross_entropy(self.network(inputs), labels, reduction="none")
        self.seen.append((tasks.tolist(), rows.tolist()))
        self.costs.append(losses.tolist())
        if self.rows is not None:
            self.rows.rows(losses)
        return {"loss": losses.mean(), "losses": losses.detach()}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def built(reward="rows", workers=0, batches=7, **settings):
    batching = "per_source" if reward == "batch" else "mixed"
    chooser = ms.Chooser("thompson" if reward else "uniform", SIZES, 6, seed=3, batching=batching)
    sampler, module = BatchSampler(chooser, batches), Module(reward)
    data = ConcatDataset([Rows(task, size) for task, size in enumerate(SIZES.values())])
    measure = Transfer(module.network)

    def of_batch(draw, batch):
        return measure(target_batch=TARGET)

    of_batch.state_dict, of_batch.load_state_dict = measure.state_dict, measure.load_state_dict
    given = {"rows": module.rows, "batch": of_batch, None: None}[reward]
    callback = ScheduleCallback(sampler, given)
    more = settings.pop("callbacks", [])
    settings = {
        "max_epochs": 3,
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    } | settings
    trainer = lightning.Trainer(accelerator="cpu", callbacks=[callback, *more], **settings)
    return trainer, module, callback, DataLoader(data, batch_sampler=sampler, num_workers=workers)


def told(callback):
    history = callback._sampler.chooser.history()
    return {name: str(column.tolist()) for name, column in history.items()}


@pytest.mark.parametrize("reward", ["rows", "batch", None])
@pytest.mark.parametrize(("steps", "workers"), [(5, 0), (7, 0), (11, 0), (11, 1)])
def test_a_run_from_a_checkpoint_is_the_run_that_was_never_interrupted(tmp_path, reward, steps, workers):
    kept = {"enable_checkpointing": False}
    trainer, whole, callback, loader = built(reward, **kept)
    trainer.fit(whole, loader)
    assert len(whole.seen) == 21
    saving = lightning.pytorch.callbacks.ModelCheckpoint(
        tmp_path, filename="half", every_n_train_steps=steps, save_top_k=1
    )

    class Stop(lightning.Callback):
        def on_train_batch_end(self, trainer, *others):
            if trainer.global_step == steps + 1:
                raise KeyboardInterrupt

    trainer, first, _, loader = built(reward, workers, callbacks=[saving, Stop()])
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        trainer.fit(first, loader)
    trainer, second, again, loader = built(reward, workers, **kept)
    trainer.fit(second, loader, ckpt_path=str(tmp_path / "half.ckpt"))
    if not workers or reward is None:  # workers draw ahead, before the rewards
        assert second.seen == whole.seen[steps:]
        assert second.costs == whole.costs[steps:]
        assert told(again) == told(callback)
    assert len(second.seen) == 21 - steps
    assert again._sampler.chooser.open() == ()


def test_batches_are_those_of_their_draws_and_logs_have_every_source(tmp_path):
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path)
    trainer, module, callback, loader = built(None, logger=logger, log_every_n_steps=7, enable_checkpointing=False)
    trainer.fit(module, loader)
    history = callback._sampler.chooser.history()
    assert history["task"].tolist() == [task for tasks, _ in module.seen for task in tasks]
    with (tmp_path / "lightning_logs" / "version_0" / "metrics.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [int(line["step"]) for line in lines] == [7, 14, 21]
    tasks = history["task"].reshape(3, 42)
    costs = np.array(module.costs).reshape(3, 42)
    for line, mine, cost in zip(lines, tasks, costs, strict=True):
        for number, name in enumerate(SIZES):
            assert float(line[f"share/{name}"]) == pytest.approx((mine == number).mean())
            assert float(line[f"loss/{name}"]) == pytest.approx(cost[mine == number].mean(), rel=1e-4)


def test_unusable_arguments_and_loaders_are_refused():
    with pytest.raises(ConfigError, match=r"the sampler is int; give a metasched\.torch\.BatchSampler"):
        ScheduleCallback(3)
    sampler = BatchSampler(ms.Chooser("uniform", SIZES, 6), 7)
    with pytest.raises(ConfigError, match="the reward is 'luck'; give a function of a draw and its batch"):
        ScheduleCallback(sampler, "luck")
    with pytest.raises(ConfigError, match="there is no batch that was not delivered yet"):
        sampler.delivered()
    trainer, module, callback, loader = built(enable_checkpointing=False)
    with pytest.raises(ConfigError, match="the trainer's loader has another batch sampler"):
        trainer.fit(module, DataLoader(loader.dataset, batch_size=6))
    for state in ({}, {"sampler": {}}, None):
        with pytest.raises(ConfigError, match="the checkpoint has no state of this callback"):
            callback.load_state_dict(state)


RANK = """
import json
import sys
import lightning
sys.path.insert(0, sys.argv[1])
from test_lightning import built

trainer, module, callback, loader = built(
    devices=2, strategy="ddp", use_distributed_sampler=False, enable_checkpointing=False, max_epochs=1
)
trainer.fit(module, loader)
chooser = callback._sampler.chooser
with open(f"{sys.argv[2]}/{trainer.global_rank}.json", "w") as file:
    json.dump([module.seen, chooser.history()["task"].tolist(), str(chooser.history()["reward"].tolist())], file)
"""


@pytest.mark.slow
def test_two_processes_share_the_rows_of_a_draw(tmp_path):
    from pathlib import Path

    script = tmp_path / "rank.py"
    script.write_text(RANK)
    given = [sys.executable, str(script), str(Path(__file__).parent), str(tmp_path)]
    subprocess.run(given, check=True, capture_output=True, timeout=600)
    (one, tasks, rewards), (other, _, _) = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    drawn = np.array(tasks).reshape(7, 6)
    assert [tasks for tasks, _ in one] == drawn[:, ::2].tolist()
    assert [tasks for tasks, _ in other] == drawn[:, 1::2].tolist()
    assert np.isfinite(np.array(json.loads(rewards.replace("nan", "NaN"))).reshape(7, 6)[::2]).all()
