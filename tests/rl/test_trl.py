"""GRPO that chooses its prompts: a choice for every block of completions, and every way to resume."""

import json
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("trl")
pytest.importorskip("datasets")

from transformers import TrainerCallback

import metasched as ms
import tiny_grpo as tiny
from metasched.errors import ConfigError, RunError
from metasched.rl.trl import PromptMixin

pytestmark = pytest.mark.filterwarnings("default")  # of other packages, whose they are
LEVELS = [row["level"] for row in tiny.ROWS]


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


def trained(folder, **settings):
    trainer = tiny.build(folder, **settings)
    trainer.train()
    return trainer


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody interrupts."""
    return trained(tmp_path_factory.mktemp("whole"))


def test_a_block_is_of_the_prompts_chosen_and_its_advantages_are_told(whole):
    again = ms.PromptChooser(LEVELS, group_size=4, seed=42)
    rewards = iter(whole.chooser.history()["reward"].tolist())
    for asked in whole.reward_funcs[0].prompts:
        prompts = again.next(2)
        assert asked == [tiny.ROWS[prompt]["prompt"] for prompt in prompts.repeat(4)]
        for prompt in prompts:
            again.observe([prompt] * 4, [next(rewards)] * 4)
    assert len(whole.reward_funcs[0].prompts) == 8
    assert whole.chooser.metrics()["waiting"] == 0


def test_the_reward_of_a_group_is_the_mean_size_of_its_advantages(tmp_path):
    trainer = trained(tmp_path, max_steps=4, log_completions=True)
    logged = np.abs(np.array(trainer._logs["advantages"]).reshape(-1, 4)).mean(axis=1)
    kept = trainer.chooser.history()["reward"]
    assert kept[-len(logged) :] == pytest.approx(logged, abs=1e-6)
    assert logged.max() > 0


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_iterations": 2},
        {"gradient_accumulation_steps": 2, "steps_per_generation": 4, "per_device_train_batch_size": 4},
    ],
)
def test_every_way_to_resume_is_the_same_run_also_from_inside_a_block(tmp_path, settings):
    expected = tiny.drawn(trained(tmp_path / "whole", **settings))
    broken_off = tiny.build(tmp_path / "again", callbacks=[Interrupt(5)], **settings)
    with pytest.raises(KeyboardInterrupt):
        broken_off.train()
    resumed = tiny.build(tmp_path / "again", **settings)
    resumed.train(resume_from_checkpoint=True)
    found = tiny.drawn(resumed)
    assert found[:3] == expected[:3]
    assert found[3] == expected[3][-len(found[3]) :]
    blocks = trainer_blocks(settings)
    assert len(expected[3]) == blocks
    assert 0 < len(found[3]) < blocks


def trainer_blocks(settings):
    """How often completions are sampled in eight steps."""
    micro = 8 * settings.get("gradient_accumulation_steps", 1)
    return micro // (settings.get("steps_per_generation", 1) * settings.get("num_iterations", 1))


def test_evaluation_chooses_and_tells_nothing(whole, tmp_path):
    from datasets import Dataset

    trainer = tiny.build(tmp_path, max_steps=2)
    trainer.eval_dataset = Dataset.from_list(tiny.ROWS[:8])
    trainer.evaluate()
    assert len(trainer.chooser.history()["source"]) == 0


def test_shares_and_rewards_are_logged_beside_the_loss(whole):
    lines = [line for line in whole.state.log_history if "loss" in line]
    sources = whole.chooser.history()["source"].reshape(8, 2)
    for line, chosen in zip(lines, sources, strict=True):
        assert [line[f"share/{level}"] for level in ("odd", "even", "never")] == [
            (chosen == level).mean() for level in ("odd", "even", "never")
        ]
        assert 0 <= line["no_signal"] <= 1


def test_after_a_training_that_was_broken_off_no_prompt_waits(tmp_path):
    trainer = tiny.build(tmp_path, max_steps=2)
    trainer.chooser.next(3)
    trainer.train()
    assert trainer.chooser.metrics()["waiting"] == 0


def test_other_trainers_of_the_family_learn_it_too(tmp_path):
    from trl import RLOOConfig, RLOOTrainer

    class Mine(PromptMixin, RLOOTrainer):
        pass

    args = tiny.arguments(tmp_path, max_steps=3)
    names = ("output_dir", "max_steps", "per_device_train_batch_size", "num_generations", "max_completion_length")
    given = {name: getattr(args, name) for name in names}
    trainer = Mine(
        model=tiny.model(),
        reward_funcs=tiny.Seen(),
        args=RLOOConfig(**given, report_to="none", disable_tqdm=True, use_cpu=True, bf16=False, beta=0.0),
        train_dataset=tiny.Dataset.from_list(tiny.ROWS),
        processing_class=tiny.tokenizer(),
        by=lambda row: row["level"],
    )
    trainer.train()
    assert len(trainer.chooser.history()["source"]) == 6
    assert trainer.chooser.metrics()["waiting"] == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"by": "levle"}, "unknown column 'levle'; did you mean 'level'"),
        ({"chooser_options": {"group_size": 2}}, "group_size is the trainer's num_generations"),
        ({"chooser_options": {"memory": 1}}, "memory is 1"),
    ],
)
def test_settings_are_refused_in_one_line(tmp_path, settings, said):
    with pytest.raises(ConfigError, match=said):
        tiny.build(tmp_path, **settings)


def test_checkpoints_that_have_no_chooser_or_a_damaged_block_are_refused(tmp_path):
    trainer = trained(tmp_path, max_steps=3, num_iterations=2)
    checkpoint = tmp_path / "checkpoint-3"
    block = checkpoint / "completions-0.safetensors"
    whole = block.read_bytes()
    block.write_bytes(whole[:100])
    with pytest.raises(RunError, match="damaged; continue from an older checkpoint"):
        trainer.train(resume_from_checkpoint=str(checkpoint))
    block.write_bytes(whole)
    again = tiny.build(tmp_path, max_steps=6, num_iterations=3, steps_per_generation=2, gradient_accumulation_steps=2)
    with pytest.raises(
        RunError, match=r"has steps_per_generation=1, but this trainer has 2; continue with the settings"
    ):
        again.train(resume_from_checkpoint=str(checkpoint))
    schedule = checkpoint / "schedule.safetensors"
    schedule.write_bytes(schedule.read_bytes().replace(b"step", b"stop"))
    with pytest.raises(RunError, match=r"schedule\.safetensors: is damaged; continue from an older checkpoint"):
        trainer.train(resume_from_checkpoint=str(checkpoint))
    schedule.unlink()
    with pytest.raises(RunError, match=r"has no schedule\.safetensors"):
        trainer.train(resume_from_checkpoint=str(checkpoint))


SCRIPT = [sys.executable, tiny.__file__]


@pytest.mark.slow
def test_killed_at_random_and_resumed_it_chooses_the_same_prompts(tmp_path):
    whole, killed, settings = (
        tmp_path / "whole",
        tmp_path / "killed",
        json.dumps({"max_steps": 14, "num_iterations": 2}),
    )
    subprocess.run([*SCRIPT, str(whole), "begin", settings], check=True, capture_output=True, timeout=600)
    stop, lines = random.randint(4, 12), 0
    with subprocess.Popen([*SCRIPT, str(killed), "victim", settings], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            lines += "'loss'" in line
            if lines == stop:
                time.sleep(random.random() / 20)
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    subprocess.run([*SCRIPT, str(killed), "resume", settings], check=True, capture_output=True, timeout=600)
    expected, found = (json.loads((folder / "drawn-0.json").read_text()) for folder in (whole, killed))
    assert found[:3] == expected[:3], f"killed after {stop}"
    assert found[3] == expected[3][-len(found[3]) :]


@pytest.mark.slow
def test_two_processes_choose_alike_and_go_on_alike(tmp_path):
    """A group of four completions lies across both processes."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", tiny.__file__]
    settings = json.dumps({"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "num_iterations": 2})

    def drawn(folder, how):
        subprocess.run([*launch, str(folder), how, settings], check=True, capture_output=True, timeout=600)
        return [json.loads((folder / f"drawn-{rank}.json").read_text()) for rank in range(2)]

    whole = drawn(tmp_path / "whole", "begin")
    assert whole[0][:2] == whole[1][:2]
    assert len(whole[0][0]) == 8
    groups = [one + other for one, other in zip(whole[0][3], whole[1][3], strict=True)]
    assert all(len(set(group[:4])) == len(set(group[4:])) == 1 for group in groups)
    (tmp_path / "again").mkdir()
    (tmp_path / "whole" / "checkpoint-3").rename(tmp_path / "again" / "checkpoint-3")
    again = drawn(tmp_path / "again", "resume")
    assert [rank[:3] for rank in again] == [rank[:3] for rank in whole]
