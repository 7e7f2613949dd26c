"""The Trainer that chooses: one draw a step, rewards that disturb nothing, and every way to resume."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from transformers import TrainerCallback  # noqa: E402

import metasched as ms  # noqa: E402
import tiny_trainer as tiny  # noqa: E402
from metasched.errors import ConfigError, RunError  # noqa: E402
from metasched.transformers import ScheduledTrainer, ScheduleMixin  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # of other packages, whose they are
NAMES = list(tiny.SOURCES)


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


class Interrupt(TrainerCallback):
    """Break off in the middle, as a user does."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


class Seen:
    """A collator that remembers what it was given, and draws by chance as one that masks does."""

    def __init__(self):
        self.batches = []

    def __call__(self, rows):
        ids = torch.stack([row["input_ids"] for row in rows])
        self.batches.append((ids, [set(row) for row in rows]))
        masked = torch.where(torch.rand(ids.shape) < 0.1, -100, ids)
        return {"input_ids": ids, "labels": masked}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody interrupts, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    trainer = tiny.build(folder, data_collator=Seen())
    trainer.train()
    return folder, trainer


@pytest.mark.parametrize("ignore_data_skip", [False, True])
@pytest.mark.parametrize("latest", [False, True])
def test_every_way_to_resume_is_the_same_run(whole, tmp_path, latest, ignore_data_skip):
    broken_off = tiny.build(tmp_path, data_collator=Seen(), callbacks=[Interrupt(7)])
    with pytest.raises(KeyboardInterrupt):
        broken_off.train()
    resumed = tiny.build(tmp_path, data_collator=Seen(), ignore_data_skip=ignore_data_skip)
    resumed.train(resume_from_checkpoint=True if latest else str(tmp_path / "checkpoint-5"))
    assert tiny.told(resumed) == tiny.told(whole[1])


def test_a_step_is_one_draw_split_into_its_micro_batches(whole):
    trainer = whole[1]
    history = trainer.chooser.history()
    assert len(history["id"]) == trainer.state.global_step == 12
    assert set(history["task"]) == {0, 1, 2}
    trained = [batch for batch in trainer.data_collator.batches if not is_target(batch[0])]
    assert len(trained) == 24
    again = ms.Chooser(
        "thompson", {name: len(rows) for name, rows in tiny.SOURCES.items()}, 8, seed=42, batching="per_source"
    )
    for step, reward in enumerate(history["reward"]):
        draw = again.ask()
        expected = [tiny.SOURCES[draw.source].rows[row] for row in draw.rows]
        assert torch.cat([ids for ids, _ in trained[2 * step : 2 * step + 2]]).tolist() == expected
        again.tell(draw, reward)


def is_target(ids):
    return ids[0].tolist() in tiny.TARGET.rows


def test_columns_that_no_model_takes_are_gone_before_the_collator(whole):
    assert {frozenset(row) for _, rows in whole[1].data_collator.batches for row in rows} == {
        frozenset({"input_ids", "labels"})
    }


def test_shares_and_mean_rewards_are_logged_beside_the_loss(tmp_path):
    trainer = tiny.build(tmp_path, logging_steps=4, max_steps=8)
    trainer.train()
    first, second, _ = trainer.state.log_history
    tasks, rewards, _ = tiny.told(trainer)
    for line, steps in ((first, slice(0, 4)), (second, slice(4, 8))):
        for number, name in enumerate(NAMES):
            mine = [reward for task, reward in zip(tasks[steps], rewards[steps], strict=True) if task == number]
            assert line[f"share/{name}"] == len(mine) / 4
            assert line.get(f"reward/{name}") == (pytest.approx(np.mean(mine)) if mine else None)


def test_the_reward_is_how_fast_the_target_loss_falls_along_the_gradient(tmp_path):
    trainer = tiny.build(tmp_path, max_steps=1, dropout=0.0, target_batch_size=20)
    before = tiny.model(0.0).double()
    trainer.train()
    draw = ms.Chooser(
        "thompson", {name: len(rows) for name, rows in tiny.SOURCES.items()}, 8, seed=42, batching="per_source"
    ).ask()

    def loss(rows):
        ids = torch.tensor(rows)
        return before(input_ids=ids, labels=ids).loss

    def gradient(rows):
        return torch.autograd.grad(loss(rows), list(before.parameters()))

    step = gradient([tiny.SOURCES[draw.source].rows[row] for row in draw.rows])
    length = torch.cat([part.flatten() for part in gradient(tiny.TARGET.rows)]).norm()
    losses = []
    for size in (1e-3, -2e-3):
        with torch.no_grad():
            for one, part in zip(before.parameters(), step, strict=True):
                one.sub_(size * part)
        losses.append(loss(tiny.TARGET.rows).item())
    expected = (losses[1] - losses[0]) / 2e-3 / length.item()
    assert tiny.told(trainer)[1][0] == pytest.approx(expected, rel=1e-3)


def test_measuring_disturbs_neither_gradients_nor_dropout(tmp_path):
    cyclic = ms.schedulers.cyclic(3)
    measured = tiny.build(tmp_path / "a", scheduler=cyclic._replace(family="active"), max_steps=6, target_every=1)
    measured.train()
    plain = tiny.build(tmp_path / "b", scheduler=cyclic, max_steps=6, target=None, batching="per_source")
    plain.train()
    assert tiny.told(measured)[2] == tiny.told(plain)[2]
    assert any(tiny.told(measured)[1])
    assert not any(tiny.told(plain)[1])


def test_evaluation_changes_nothing(tmp_path):
    plain = tiny.build(tmp_path / "a", dropout=0.0, max_steps=6)
    plain.train()
    evaluated = {"eval_strategy": "steps", "eval_steps": 2, "eval_dataset": tiny.TARGET}
    trainer = tiny.build(tmp_path / "b", dropout=0.0, max_steps=6, **evaluated)
    trainer.train()
    assert tiny.told(trainer) == tiny.told(plain)
    assert sum("eval_loss" in line for line in trainer.state.log_history) == 3


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_of_either_kind_gives_the_same_rewards(tmp_path, reentrant):
    def rewards(folder, **changes):
        trainer = tiny.build(folder, max_steps=3, dropout=0.0, **changes)
        trainer.train()
        return tiny.told(trainer)[1]

    kind = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": reentrant}}
    assert rewards(tmp_path / "a", **kind) == pytest.approx(rewards(tmp_path / "b"), rel=1e-4)


def test_rewards_may_look_at_a_part_of_the_parameters_and_autocast_is_kept(tmp_path):
    trainer = tiny.build(tmp_path, max_steps=4, bf16=True, reward="alignment", reward_parameters=["h.1"])
    trainer.train()
    rewards = tiny.told(trainer)[1]
    assert max(map(abs, rewards)) <= 1.001
    assert len(set(rewards)) == 4


def test_the_target_gradient_is_kept_for_as_many_steps_as_said(tmp_path):
    reads = {}
    for every in (1, 4):
        seen = Seen()
        trainer = tiny.build(tmp_path / str(every), max_steps=8, save_steps=6, target_every=every, data_collator=seen)
        trainer.train()
        reads[every] = sum(is_target(ids) for ids, _ in seen.batches)
    assert reads == {1: 8, 4: 3}  # steps 1 and 5, and 7, because a checkpoint has no gradient in it


def test_after_a_training_that_was_broken_off_no_draw_stays_open(tmp_path):
    class Breaks(Seen):
        def __call__(self, rows):
            if len(self.batches) == 5:
                raise KeyboardInterrupt
            return super().__call__(rows)

    trainer = tiny.build(tmp_path, max_steps=4, scheduler="auto", data_collator=Breaks())
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert len(trainer.chooser.open()) == 1
    trainer.data_collator = Seen()
    trainer.train()
    assert trainer.chooser.open() == ()


def test_a_reward_of_ones_own(tmp_path):
    def worth(trainer):
        return trainer.draw.sources[trainer.positions] == "other"

    trainer = tiny.build(tmp_path, max_steps=10, target=None, reward=worth)
    trainer.train()
    tasks, rewards, _ = tiny.told(trainer)
    assert len(tasks) == 10 * 8
    assert rewards == [float(task == 2) for task in tasks]
    assert tasks[-16:].count(2) > 8


def test_a_reward_of_ones_own_may_be_a_tensor_and_must_fit_the_rows(tmp_path):
    trainer = tiny.build(tmp_path / "a", max_steps=2, target=None, reward=lambda trainer: torch.arange(8.0))
    trainer.train()
    assert tiny.told(trainer)[1] == [*range(8), *range(8)]
    wrong = tiny.build(tmp_path / "b", max_steps=2, target=None, reward=lambda trainer: [1.0, 2.0])
    with pytest.raises(ConfigError, match=r"the reward has shape \(2,\); give one number for each of the 8 rows"):
        wrong.train()


def test_rows_are_mixed_where_the_scheduler_is_static_and_resume_is_exact(tmp_path):
    def build(folder, **others):
        return tiny.build(folder, scheduler="uniform", target=None, data_collator=Seen(), **others)

    trainer = build(tmp_path / "a")
    trainer.train()
    assert trainer.chooser.batching == "mixed"
    again = ms.Chooser("uniform", {name: len(rows) for name, rows in tiny.SOURCES.items()}, 8, seed=42)
    for step in range(12):
        draw = again.ask()
        expected = [tiny.SOURCES[source].rows[row] for source, row in zip(draw.sources, draw.rows, strict=True)]
        assert (
            torch.cat([ids for ids, _ in trainer.data_collator.batches[2 * step : 2 * step + 2]]).tolist() == expected
        )
    resumed = build(tmp_path / "a")
    resumed.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-5"))
    assert str(tiny.told(resumed)) == str(tiny.told(trainer))


def test_a_kill_while_saving_leaves_the_checkpoint_before_it(whole, tmp_path, monkeypatch):
    broken_off = tiny.build(tmp_path, data_collator=Seen())
    saving = ScheduledTrainer._save_optimizer_and_scheduler

    def dies(self, folder):
        if folder.endswith("-10"):
            raise KeyboardInterrupt
        saving(self, folder)

    monkeypatch.setattr(ScheduledTrainer, "_save_optimizer_and_scheduler", dies)
    with pytest.raises(KeyboardInterrupt):
        broken_off.train()
    monkeypatch.undo()
    assert (tmp_path / "checkpoint-10" / "schedule.safetensors").exists()
    resumed = tiny.build(tmp_path, data_collator=Seen())
    with pytest.warns(UserWarning, match="checkpoint-10 is not whole and is passed over"):
        resumed.train(resume_from_checkpoint=True)
    assert tiny.told(resumed) == tiny.told(whole[1])


def test_the_page_runs(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "transformers.md"
    block = page.read_text().split("```python\n")[1].split("```")[0].replace("resume_from_checkpoint=True", "")
    rows = dict(zip(("wiki", "code", "mine"), tiny.SOURCES.values(), strict=True))
    names = {**rows, "held_out": tiny.TARGET, "model": tiny.model(), "args": tiny.arguments(tmp_path, max_steps=4)}
    exec(block, names)
    assert len(names["trainer"].chooser.history()["id"]) == 4


SCRIPT = [sys.executable, tiny.__file__]


@pytest.mark.slow
def test_killed_at_random_and_resumed_it_is_the_same_run(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*SCRIPT, str(whole), "begin", "14"], check=True, capture_output=True, timeout=600)
    stop, lines = random.randint(6, 12), 0
    with subprocess.Popen([*SCRIPT, str(killed), "begin", "14"], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            lines += "'loss'" in line
            if lines == stop:
                time.sleep(random.random() / 20)
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    subprocess.run([*SCRIPT, str(killed), "resume", "14"], check=True, capture_output=True, timeout=600)
    told = [json.loads((folder / "told-0.json").read_text())[:3] for folder in (whole, killed)]
    assert told[0] == told[1], f"killed after {stop}"


@pytest.mark.slow
def test_two_processes_draw_alike_and_go_on_alike(tmp_path):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", tiny.__file__]

    def told(folder, how, steps):
        subprocess.run([*launch, str(folder), how, str(steps)], check=True, capture_output=True, timeout=600)
        return [json.loads((folder / f"told-{rank}.json").read_text()) for rank in range(2)]

    whole = told(tmp_path / "whole", "begin", 9)
    assert whole[0][:2] == whole[1][:2]
    assert len(whole[0][0]) == 9
    draw = ms.Chooser(
        "thompson", {name: len(rows) for name, rows in tiny.SOURCES.items()}, 16, seed=42, batching="per_source"
    ).ask()
    trained = [row for *_, seen in whole for batch in seen[:2] for row in batch]
    assert sorted(trained) == sorted(tiny.SOURCES[draw.source].rows[row] for row in draw.rows)
    (tmp_path / "again").mkdir()
    (tmp_path / "whole" / "checkpoint-5").rename(tmp_path / "again" / "checkpoint-5")
    again = told(tmp_path / "again", "resume", 9)
    assert [rank[:3] for rank in again] == [rank[:3] for rank in whole]


@pytest.mark.slow
def test_accelerate_launch_on_two_cpu_processes_draws_alike(tmp_path):
    flags = ["--cpu", "--num_processes=1", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no"]
    told = [sys.executable, "-m", "accelerate.commands.launch", *flags, tiny.__file__, str(tmp_path), "begin", "4"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    together = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    both = [
        subprocess.Popen(told, env={**os.environ, **together, "RANK": rank, "LOCAL_RANK": rank}) for rank in ("0", "1")
    ]
    assert [one.wait(timeout=600) for one in both] == [0, 0]
    first, second = (json.loads((tmp_path / f"told-{rank}.json").read_text()) for rank in range(2))
    assert first[:2] == second[:2]
    assert first[3] != second[3]  # rows of their own


class TestBadInput:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"sources": {}}, "give sources="),
            ({"sources": {"the target": tiny.TARGET}}, "a source is called 'the target'"),
            ({"train_dataset": tiny.TARGET}, "in place of train_dataset"),
            ({"target": None}, "reward 'transfer' needs a target"),
            ({"target": tiny.Texts("x", 0)}, "'the target' has no rows"),
            ({"sources": {"a": iter([1])}}, "'a' has no length or row numbers"),
            ({"reward": "luck"}, "unknown reward 'luck'"),
            ({"batching": "mixt"}, "unknown batching 'mixt'; did you mean 'mixed'"),
            ({"scheduler": "tompson"}, "did you mean 'thompson'"),
            ({"reward_parameters": ["head"]}, "no parameter that learns has a name with 'head': transformer.wte"),
            ({"target_every": 0}, "target_every is 0"),
            ({"scheduler_options": {"abstain": True}}, "loss_weights and abstain"),
            ({"auto_find_batch_size": True}, "auto_find_batch_size"),
        ],
    )
    def test_is_one_clear_line(self, tmp_path, change, said):
        with pytest.raises(ConfigError, match=said):
            tiny.build(tmp_path, **change)

    def test_a_gradient_that_is_not_finite_names_the_step_and_the_source(self, tmp_path):
        trainer = tiny.build(tmp_path, max_steps=3)
        with torch.no_grad():
            trainer.model.transformer.wte.weight[0] = float("nan")
            trainer.model.transformer.ln_f.weight[0] = float("nan")
        with pytest.raises(RunError, match="step 1: the reward of rows of 'same' is not finite"):
            trainer.train()

    def test_a_checkpoint_of_another_trainer_or_a_damaged_one(self, whole, tmp_path):
        with pytest.raises(RunError, match="no whole checkpoint in it"):
            tiny.build(tmp_path).train(resume_from_checkpoint=True)
        with pytest.raises(RunError, match=r"no schedule.safetensors in it"):
            tiny.build(tmp_path).train(resume_from_checkpoint=str(tmp_path))
        (tmp_path / "schedule.safetensors").write_bytes(b"\0" * 40)
        with pytest.raises(RunError, match="damaged; go on from an older checkpoint"):
            tiny.build(tmp_path).train(resume_from_checkpoint=str(tmp_path))
        other = tiny.build(tmp_path, scheduler="ucb")
        with pytest.raises(ConfigError, match="the state has scheduler"):
            other.train(resume_from_checkpoint=str(whole[0] / "checkpoint-5"))


def test_the_mixin_works_in_other_trainers(tmp_path):
    trl = pytest.importorskip("trl")
    arrow = pytest.importorskip("datasets.arrow_dataset")
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast

    class ScheduledSFTTrainer(ScheduleMixin, trl.SFTTrainer):
        pass

    def rows(texts):
        return arrow.Dataset.from_dict({"text": [bytes(row).decode() for row in texts.rows]})

    def train(folder, **changes):
        settings = {**tiny.arguments(folder).to_dict(), "max_length": None, **changes}
        return ScheduledSFTTrainer(
            tiny.model(),
            trl.SFTConfig(**settings),
            sources={name: rows(texts) for name, texts in tiny.SOURCES.items()},
            target=rows(tiny.TARGET),
            processing_class=words,
        )

    letters = {chr(number): number for number in range(256)}
    model = tokenizers.models.WordLevel(letters, unk_token="\xff")
    splitting = tokenizers.Tokenizer(model)
    splitting.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    words = PreTrainedTokenizerFast(tokenizer_object=splitting, eos_token="~", pad_token="~")
    trainer = train(tmp_path / "a")
    trainer.train()
    history = trainer.chooser.history()
    assert history["told"].tolist() == list(range(12))
    assert len(set(history["reward"])) == 12
    lines = [line for line in trainer.state.log_history if "loss" in line]
    assert {"mean_token_accuracy", "share/same", "loss"} <= set(lines[0])
    resumed = train(tmp_path / "a")
    resumed.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-5"))
    assert tiny.told(resumed)[:2] == tiny.told(trainer)[:2]
    with pytest.raises(ConfigError, match="turn packing and filtering off"):
        train(tmp_path / "b", packing=True, max_length=64)
