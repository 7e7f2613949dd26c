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

from safetensors import safe_open  # noqa: E402
from safetensors.numpy import save  # noqa: E402
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
    trainer = tiny.build(folder, data_collator=Seen(), batching="per_source")
    trainer.train()
    return folder, trainer


ROWS = {"reward_every": 2, "target_every": 3}
"""Rewards of rows at every other step, so that a few steps have several, and one is taken before a resume."""


@pytest.mark.parametrize("ignore_data_skip", [False, True])
@pytest.mark.parametrize("latest", [False, True])
@pytest.mark.parametrize("settings", [{"batching": "per_source"}, ROWS])
def test_every_way_to_resume_is_the_same_run(tmp_path, latest, ignore_data_skip, settings):
    whole = tiny.build(tmp_path / "whole", data_collator=Seen(), **settings)
    whole.train()
    broken_off = tiny.build(tmp_path, data_collator=Seen(), callbacks=[Interrupt(7)], **settings)
    with pytest.raises(KeyboardInterrupt):
        broken_off.train()
    resumed = tiny.build(tmp_path, data_collator=Seen(), ignore_data_skip=ignore_data_skip, **settings)
    resumed.train(resume_from_checkpoint=True if latest else str(tmp_path / "checkpoint-5"))
    assert tiny.told(resumed) == tiny.told(whole)


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
    trainer = tiny.build(tmp_path, logging_steps=4, max_steps=8, batching="per_source")
    trainer.train()
    first, second, _ = trainer.state.log_history
    tasks, rewards, _ = tiny.told(trainer)
    for line, steps in ((first, slice(0, 4)), (second, slice(4, 8))):
        for number, name in enumerate(NAMES):
            mine = [reward for task, reward in zip(tasks[steps], rewards[steps], strict=True) if task == number]
            assert line[f"share/{name}"] == len(mine) / 4
            assert line.get(f"reward/{name}") == (pytest.approx(np.mean(mine)) if mine else None)


def test_the_reward_is_how_fast_the_target_loss_falls_along_the_gradient(tmp_path):
    trainer = tiny.build(tmp_path, max_steps=1, dropout=0.0, target_batch_size=20, batching="per_source")
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


@pytest.mark.parametrize("batching", ["mixed", "per_source"])
def test_measuring_disturbs_neither_gradients_nor_dropout(tmp_path, batching):
    cyclic = ms.schedulers.cyclic(3)
    given = {"batching": batching, "max_steps": 6}
    active = cyclic._replace(family="active")
    measured = tiny.build(tmp_path / "a", scheduler=active, target_every=1, reward_every=1, **given)
    measured.train()
    plain = tiny.build(tmp_path / "b", scheduler=cyclic, target=None, row_losses=False, **given)
    plain.train()
    assert tiny.told(measured)[2] == tiny.told(plain)[2]
    assert any(tiny.told(measured)[1])
    assert not any(tiny.told(plain)[1])
    assert "loss/same" in measured.state.log_history[0]
    assert "loss/same" not in plain.state.log_history[0]


def test_evaluation_changes_nothing(tmp_path):
    plain = tiny.build(tmp_path / "a", dropout=0.0, max_steps=6)
    plain.train()
    evaluated = {"eval_strategy": "steps", "eval_steps": 2, "eval_dataset": tiny.TARGET}
    trainer = tiny.build(tmp_path / "b", dropout=0.0, max_steps=6, **evaluated)
    trainer.train()
    assert tiny.told(trainer) == tiny.told(plain)
    assert sum("eval_loss" in line for line in trainer.state.log_history) == 3


@pytest.mark.parametrize("batching", ["mixed", "per_source"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_of_either_kind_gives_the_same_rewards(tmp_path, reentrant, batching):
    def rewards(folder, **changes):
        trainer = tiny.build(folder, max_steps=3, dropout=0.0, batching=batching, reward_every=1, **changes)
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
        given = {"target_every": every, "data_collator": seen, "batching": "per_source"}
        trainer = tiny.build(tmp_path / str(every), max_steps=8, save_steps=6, **given)
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
    broken_off = tiny.build(tmp_path, data_collator=Seen(), batching="per_source")
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
    resumed = tiny.build(tmp_path, data_collator=Seen(), batching="per_source")
    with pytest.warns(UserWarning, match="checkpoint-10 is incomplete and is skipped"):
        resumed.train(resume_from_checkpoint=True)
    assert tiny.told(resumed) == tiny.told(whole[1])


def test_the_page_runs(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "transformers.md"
    block = page.read_text().split("```python\n")[1].split("```")[0].replace("resume_from_checkpoint=True", "")
    rows = dict(zip(("wiki", "code", "mine"), tiny.SOURCES.values(), strict=True))
    names = {**rows, "held_out": tiny.TARGET, "model": tiny.model(), "args": tiny.arguments(tmp_path, max_steps=4)}
    exec(block, names)
    assert set(names["trainer"].chooser.history()["id"]) == {0, 1, 2, 3}


SCRIPT = [sys.executable, tiny.__file__]


@pytest.mark.slow
@pytest.mark.parametrize("how", [[], ["rows"]])
def test_killed_at_random_and_resumed_it_is_the_same_run(tmp_path, how):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*SCRIPT, str(whole), "begin", "14", *how], check=True, capture_output=True, timeout=600)
    stop, lines = random.randint(6, 12), 0
    with subprocess.Popen([*SCRIPT, str(killed), "victim", "14", *how], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            lines += "'loss'" in line
            if lines == stop:
                time.sleep(random.random() / 20)
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    subprocess.run([*SCRIPT, str(killed), "resume", "14", *how], check=True, capture_output=True, timeout=600)
    told = [json.loads((folder / "told-0.json").read_text())[:3] for folder in (whole, killed)]
    assert told[0] == told[1], f"killed after {stop}"


@pytest.mark.slow
@pytest.mark.parametrize("how", [[], ["rows"]])
def test_two_processes_draw_alike_and_go_on_alike(tmp_path, how):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", tiny.__file__]

    def told(folder, begin, steps):
        given = [str(folder), begin, str(steps), *how]
        subprocess.run([*launch, *given], check=True, capture_output=True, timeout=600)
        return [json.loads((folder / f"told-{rank}.json").read_text()) for rank in range(2)]

    whole = told(tmp_path / "whole", "begin", 9)
    assert whole[0][:2] == whole[1][:2]
    draws = np.array(whole[0][0]).reshape(9, -1)
    assert draws.shape[1] == (16 if how else 1)
    sizes, batching = {name: len(rows) for name, rows in tiny.SOURCES.items()}, "mixed" if how else "per_source"
    draw = ms.Chooser("thompson", sizes, 16, seed=42, batching=batching).ask()
    batches = [[row for batch in each[3] for row in batch if row not in tiny.TARGET.rows][:8] for each in whole]
    expected = [tiny.SOURCES[source].rows[row] for source, row in zip(draw.sources, draw.rows, strict=True)]
    assert sorted(batches[0] + batches[1]) == sorted(expected)
    for line, step in zip(whole[0][4], draws, strict=True):  # rows of both processes, equally long
        shares = [np.mean(step == number) for number in range(3)]
        mean = sum(share * line[f"loss/{name}"] for share, name in zip(shares, NAMES, strict=True) if share)
        assert mean == pytest.approx(line["loss"], rel=1e-3)
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
            ({"target": iter([1])}, "'the target' has no length or row numbers"),
            ({"sources": {"a": iter([1])}}, "'a' cannot be resumed exactly: it is an iterator"),
            (
                {"sources": {"a": lambda: iter([1])}, "max_steps": -1},
                "'a' is a stream without a length; give max_s",
            ),
            ({"sources": {"a": 7}}, "source 'a' is 7; give an iterable"),
            ({"reward_every": 0}, "reward_every is 0"),
            ({"row_losses": 1}, "row_losses is 1; give True or False"),
            ({"scheduler_options": {"batch_size": 8}}, "the batch size follows from TrainingArguments"),
            ({"reward": "luck"}, "unknown reward 'luck'"),
            ({"batching": "mixt"}, "unknown batching 'mixt'; did you mean 'mixed'"),
            ({"scheduler": "tompson"}, "did you mean 'thompson'"),
            ({"reward_parameters": ["head"]}, "no trainable parameter has a name with 'head': transformer.wte"),
            ({"target_every": 0}, "target_every is 0"),
            ({"scheduler_options": {"abstain": True}}, "loss_weights and abstain"),
            ({"auto_find_batch_size": True}, "auto_find_batch_size"),
            ({"fsdp": True}, "FSDP and DeepSpeed are not supported; turn them off and use DDP"),
        ],
    )
    def test_is_one_clear_line(self, tmp_path, change, said):
        with pytest.raises(ConfigError, match=said):
            tiny.build(tmp_path, **change)

    @pytest.mark.parametrize("batching", ["mixed", "per_source"])
    def test_a_gradient_that_is_not_finite_names_the_step_and_the_source(self, tmp_path, batching):
        trainer = tiny.build(tmp_path, max_steps=3, batching=batching)
        with torch.no_grad():
            trainer.model.transformer.wte.weight[0] = float("nan")
            trainer.model.transformer.ln_f.weight[0] = float("nan")
        with pytest.raises(RunError, match="step 1: the reward of rows of 'same' is not finite"):
            trainer.train()

    def test_a_checkpoint_of_another_trainer_or_a_damaged_one(self, whole, tmp_path):
        with pytest.raises(RunError, match="has no complete checkpoint"):
            tiny.build(tmp_path).train(resume_from_checkpoint=True)
        with pytest.raises(RunError, match=r"has no schedule\.safetensors"):
            tiny.build(tmp_path).train(resume_from_checkpoint=str(tmp_path))
        (tmp_path / "schedule.safetensors").write_bytes(b"\0" * 40)
        with pytest.raises(RunError, match="damaged; continue from an older checkpoint"):
            tiny.build(tmp_path).train(resume_from_checkpoint=str(tmp_path))
        other = tiny.build(tmp_path, scheduler="ucb", batching="per_source")
        with pytest.raises(ConfigError, match="the state has scheduler"):
            other.train(resume_from_checkpoint=str(whole[0] / "checkpoint-5"))


@pytest.fixture
def supervised():
    """A maker of scheduled trainers of TRL, whose texts are split into letters."""
    trl = pytest.importorskip("trl")
    arrow = pytest.importorskip("datasets.arrow_dataset")
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast

    class ScheduledSFTTrainer(ScheduleMixin, trl.SFTTrainer):
        pass

    def rows(texts):
        return arrow.Dataset.from_dict({"text": [bytes(row).decode() for row in texts.rows]})

    letters = {chr(number): number for number in range(256)}
    model = tokenizers.models.WordLevel(letters, unk_token="\xff")
    splitting = tokenizers.Tokenizer(model)
    splitting.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    words = PreTrainedTokenizerFast(tokenizer_object=splitting, eos_token="~", pad_token="~")

    def build(folder, dropout=0.1, **changes):
        own = ("batching", "reward_every", "reward_parameters", "target_every", "target_batch_size", "sources")
        given = {name: changes.pop(name) for name in own if name in changes}
        settings = {**tiny.arguments(folder).to_dict(), "max_length": None, **changes}
        sources = {name: rows(texts) for name, texts in tiny.SOURCES.items()}
        return ScheduledSFTTrainer(
            tiny.model(dropout),
            trl.SFTConfig(**settings),
            **{"sources": sources, "target": rows(tiny.TARGET), **given},
            processing_class=words,
        )

    return build


@pytest.mark.parametrize("settings", [{"batching": "per_source"}, ROWS, {**ROWS, "padding_free": True}])
def test_the_mixin_works_in_other_trainers(tmp_path, supervised, settings):
    trainer = supervised(tmp_path, **settings)
    trainer.train()
    rewards = [reward for reward in tiny.told(trainer)[1] if reward is not None]
    assert len(set(rewards)) == len(rewards) == (12 if "batching" in settings else 6 * 8)
    lines = [line for line in trainer.state.log_history if "loss" in line]
    assert {"mean_token_accuracy", "share/same", "loss"} <= set(lines[0])
    for line in lines:  # rows are equally long, so that the loss is the mean of theirs
        each = [(line[f"share/{name}"], line.get(f"loss/{name}", 0.0)) for name in NAMES]
        assert sum(share * loss for share, loss in each) == pytest.approx(line["loss"], rel=1e-4)
    resumed = supervised(tmp_path, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert tiny.told(resumed)[:2] == tiny.told(trainer)[:2]


def test_rows_that_follow_one_another_in_a_sequence_have_the_rewards_that_they_have_alone(tmp_path, supervised):
    def rewards(folder, **changes):
        trainer = supervised(folder, 0.0, max_steps=1, target_batch_size=4, **changes)
        trainer.train()
        return tiny.told(trainer)[1]

    alone = rewards(tmp_path / "a", reward_parameters=["h.1"])
    together = rewards(tmp_path / "b", reward_parameters=["h.1"], padding_free=True)
    assert together == pytest.approx(alone, rel=1e-3)


def test_packing_and_streams_that_would_be_prepared_are_refused(tmp_path, supervised):
    with pytest.raises(ConfigError, match="packing=True joins rows of several sources; give padding_free=True"):
        supervised(tmp_path, packing=True, max_length=64)
    with pytest.raises(ConfigError, match="source 'a' is a stream, but this trainer prepares data sets as a whole"):
        supervised(tmp_path, sources={"a": lambda: iter([])})


def rewards_of_rows(trainer):
    return np.array([np.nan if one is None else one for one in tiny.told(trainer)[1]])


@pytest.mark.parametrize("settings", [{}, {"average_tokens_across_devices": False}, {"gradient_accumulation_steps": 1}])
def test_the_reward_of_a_row_is_its_gradient_along_that_of_the_target(tmp_path, settings):
    """Against a gradient for every row, one after another, in double precision."""
    seen = []

    def collate(rows):  # rows of different lengths
        ids = torch.stack([row["input_ids"] for row in rows])
        labels = ids.clone()
        for place, row in enumerate(ids):
            labels[place, 4 + int(row.sum()) % 10 :] = -100
        seen.append((ids, labels))
        return {"input_ids": ids, "labels": labels}

    trainer = tiny.build(
        tmp_path, max_steps=1, dropout=0.0, target_batch_size=20, data_collator=collate, reward_every=1, **settings
    )
    before = tiny.model(0.0).double()
    counted = [one for name, one in before.named_parameters() if "wpe" not in name]  # which has no rows
    trainer.train()

    def gradient(ids, labels):
        return torch.autograd.grad(before(input_ids=ids, labels=labels).loss, counted)

    targets = [pair for pair in seen if is_target(pair[0])]
    aim = gradient(*targets[0])
    length = torch.cat([part.flatten() for part in aim]).norm()
    rows = [pair for pair in seen if not is_target(pair[0])]
    ids, labels = (torch.cat(parts) for parts in zip(*rows, strict=True))
    expected = []
    for row, label in zip(ids, labels, strict=True):
        own = gradient(row[None], label[None])
        expected.append(sum((one * other).sum() for one, other in zip(own, aim, strict=True)) / length)
    assert rewards_of_rows(trainer) == pytest.approx(torch.stack(expected).numpy(), rel=1e-3)


def test_draws_between_measured_steps_are_forgotten(tmp_path):
    trainer = tiny.build(tmp_path, max_steps=9, reward_every=4)
    trainer.train()
    measured = ~np.isnan(rewards_of_rows(trainer).reshape(9, 8))
    assert measured.all(1).tolist() == measured.any(1).tolist() == [step % 4 == 0 for step in range(9)]
    assert trainer.chooser.open() == ()


def test_losses_of_sources_are_the_mean_losses_of_their_rows(tmp_path):
    class Lines(Seen):
        def __call__(self, rows):
            batch = super().__call__(rows)
            self.batches[-1] = batch
            return batch

    given = {"max_steps": 4, "logging_steps": 2, "dropout": 0.0, "target": None, "learning_rate": 0.0}
    trainer = tiny.build(tmp_path, scheduler="uniform", data_collator=Lines(), **given)
    trainer.train()
    first, second, _ = trainer.state.log_history
    batches, draws = trainer.data_collator.batches, trainer.chooser.history()["task"].reshape(4, 8)
    for line, steps in ((first, slice(0, 2)), (second, slice(2, 4))):
        losses = [
            tiny.model(0.0)(input_ids=ids[None], labels=labels[None]).loss.item()
            for batch in batches[2 * steps.start : 2 * steps.stop]
            for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True)
        ]
        for number, name in enumerate(NAMES):
            mine = np.array(losses)[draws[steps].ravel() == number]
            assert line[f"loss/{name}"] == pytest.approx(mine.mean(), rel=1e-4)


def test_weights_and_sources_change_in_the_middle_of_a_run_and_a_resume_is_exact(tmp_path):
    class Change(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 4:
                whole.chooser.remove_source("noise")
                whole.chooser.set_weights({"same": 3, "other": 1})

    given = {"data_collator": Seen(), **ROWS}
    whole = tiny.build(tmp_path, callbacks=[Change()], **given)
    whole.train()
    drawn = whole.chooser.history()["task"].reshape(12, 8)
    assert (drawn[:4] == 1).any()
    assert not (drawn[4:] == 1).any()
    resumed = tiny.build(tmp_path, **given)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert tiny.told(resumed) == tiny.told(whole)
    more = tiny.build(tmp_path / "more", sources={**tiny.SOURCES, "new": tiny.TARGET}, **given)
    more.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    later = more.chooser.history()["task"].reshape(12, 8)
    assert (later[:5] == drawn[:5]).all()
    assert set(later[5:].ravel()) == {0, 2, 3}


class TestStreams:
    def sources(self, kind):
        if kind == "function":
            return {**tiny.SOURCES, "noise": lambda: iter(list(tiny.SOURCES["noise"]))}
        if kind == "torch":

            class Stream(torch.utils.data.IterableDataset):
                def __iter__(self):
                    return iter(list(tiny.SOURCES["noise"]))

            return {name: Stream() for name in tiny.SOURCES}
        arrow = pytest.importorskip("datasets")
        rows = [{"input_ids": row, "labels": row} for row in tiny.SOURCES["noise"].rows]
        return {**tiny.SOURCES, "noise": arrow.Dataset.from_list(rows).to_iterable_dataset().with_format("torch")}

    @pytest.mark.parametrize("kind", ["function", "torch", "datasets"])
    def test_rows_are_read_in_order_and_a_resume_is_exact(self, tmp_path, kind):
        def build(**others):
            sources = self.sources(kind)
            collator = Seen()
            return tiny.build(tmp_path, sources=sources, data_collator=collator, scheduler="uniform", **others)

        whole = build(target=None)
        whole.train()
        history = whole.chooser.history()
        trained = torch.cat([ids for ids, _ in whole.data_collator.batches]).tolist()
        noise = [row for row, task in zip(trained, history["task"], strict=True) if task == 1]
        rows = tiny.SOURCES["noise"].rows
        assert noise == [rows[number % len(rows)] for number in range(len(noise))]
        resumed = build(target=None)
        resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
        assert tiny.told(resumed) == tiny.told(whole)
        again = torch.cat([ids for ids, _ in resumed.data_collator.batches]).tolist()
        assert again == trained[5 * 8 :]

    def test_a_checkpoint_whose_positions_are_damaged_is_refused(self, tmp_path):
        def build():
            given = {"scheduler": "uniform", "target": None, "max_steps": 5, "save_steps": 5}
            return tiny.build(tmp_path, sources=self.sources("function"), **given)

        build().train()
        path = tmp_path / "checkpoint-5" / "schedule.safetensors"
        with safe_open(path, "numpy") as file:
            facts = json.loads(file.metadata()["facts"])
            arrays = {name: file.get_tensor(name) for name in list(file.keys())}
        for wrong in ({"noise": {"pass": 0}}, {"noise": {"pass": 0, "read": "far"}}, [1]):
            path.write_bytes(save(arrays, metadata={"facts": json.dumps({**facts, "streams": wrong})}))
            with pytest.raises(RunError, match="damaged; continue from an older checkpoint"):
                build().train(resume_from_checkpoint=True)

    def test_rewards_of_rows_are_measured_on_them(self, tmp_path):
        trainer = tiny.build(tmp_path, sources=self.sources("function"), reward_every=1, max_steps=3)
        trainer.train()
        assert np.isfinite(rewards_of_rows(trainer)).all()
