"""Rewards told when they have arrived."""

import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.errors import ConfigError

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset  # noqa: E402

from metasched.torch import BatchSampler, Mixer, RowTransfer, Teller  # noqa: E402


def chooser():
    return ms.Chooser("thompson", {"web": 40, "books": 50}, batch_size=4)


def told(chooser):
    history = chooser.history()
    return sorted(set(history["id"][history["told"] >= 0].tolist()))


@pytest.mark.parametrize(("late", "expected"), [(None, [0, 1, 2, 3]), (0, [0, 1, 2, 3]), (2, [0, 1])])
def test_rewards_are_told_so_many_draws_later_and_all_of_them_at_the_end(late, expected):
    one = chooser()
    teller = Teller(one, late)
    for number in range(4):
        teller.tell(one.ask(), torch.full((4,), float(number)))
    assert told(one) == expected
    teller.finish()
    assert told(one) == [0, 1, 2, 3]
    np.testing.assert_array_equal(one.history()["reward"].reshape(4, 4)[:, 0], np.arange(4.0))


@pytest.mark.parametrize("rewards", [None, torch.tensor([1.0, torch.nan, 1.0, 1.0]), float("inf")])
def test_what_was_not_measured_or_overflowed_is_forgotten(rewards):
    one = chooser()
    Teller(one).tell(one.ask(), rewards)
    assert one.open() == ()
    assert told(one) == []


def test_rewards_that_do_not_fit_are_refused():
    one = chooser()
    with pytest.raises(ConfigError, match="3"):
        Teller(one).tell(one.ask(), torch.ones(3))
    with pytest.raises(ConfigError, match="there are 3 losses for 4 rows"):
        Teller(one).tell(one.ask(), None, torch.ones(3))
    with pytest.raises(ConfigError, match="the chooser is a str; give a BatchSampler"):
        Teller("thompson")


def test_rewards_that_are_never_finite_are_said_once():
    one = chooser()
    teller = Teller(one)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(40):  # a good one in between, and draws that are not measured
            teller.tell(one.ask(), torch.full((4,), 0.5 if number == 5 else torch.nan))
            teller.tell(one.ask(), None)
    assert [str(line.message).split(",")[0] for line in caught] == [
        "the rewards of the last 10 measured draws are not finite"
    ]
    assert len(told(one)) == 1


def test_the_log_has_losses_of_every_row_also_where_nothing_was_measured():
    one = chooser()
    teller, losses, tasks = Teller(one, late=2), [], []
    assert teller.log() == {}
    for number in range(6):
        draw = one.ask()
        losses.append(np.arange(4.0) + 10 * number)
        tasks.append(draw.tasks)
        teller.tell(draw, torch.ones(4) if number % 2 else None, torch.tensor(losses[-1]))
        if number == 2:
            first = teller.log()
    for logged, steps in ((first, slice(0, 3)), (teller.log(), slice(3, 6))):
        cost, task = np.concatenate(losses[steps]), np.concatenate(tasks[steps])
        for number, name in enumerate(("web", "books")):
            mine = task == number
            assert logged[f"share/{name}"] == mine.mean()
            assert logged.get(f"loss/{name}") == (pytest.approx(cost[mine].mean()) if mine.any() else None)
    assert teller.log() == {}


def test_the_loss_of_a_draw_of_one_source_may_be_of_as_many_rows_as_its_batch_has():
    mixer = Mixer(ms.Chooser("cyclic", 2), [[torch.zeros(3)], [torch.ones(5)]], batches=2)
    teller = Teller(mixer)
    for draw, batch in mixer:
        teller.tell(draw, 0.5, batch)
    assert {name: value for name, value in teller.log().items() if "loss" in name} == {"loss/1": 0.0, "loss/2": 1.0}


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (None, "not a state from state_dict"),
        ({"late": -1, "waiting": []}, "not a state from state_dict"),
        ({"late": 0, "waiting": [(7, None)]}, "draws that are not open; load the chooser's state first"),
        ({"late": 0, "waiting": [([], None)]}, "not a state from state_dict"),
        ({"late": 0, "waiting": [(0, None), (0, None)]}, "not a state from state_dict"),
        ({"late": 0, "waiting": [(0, "much")]}, "damaged: it has rewards that are not numbers"),
        ({"late": 0, "waiting": [(0, {"a": 10**400})]}, "damaged: it has rewards that are not numbers"),
        ({"late": 0, "waiting": [(0, [[1.0]])]}, "damaged: it has rewards that are not numbers"),
    ],
)
def test_a_state_that_does_not_fit_is_one_line(stored, message):
    one = chooser()
    one.ask()
    with pytest.raises(ConfigError, match=message):
        Teller(one).load_state_dict(stored)


class Loop:
    """The loop of the page, with rewards that arrive three draws late."""

    def __init__(self):
        torch.manual_seed(0)
        sources = [TensorDataset(torch.randn(count, 4), torch.randint(3, (count,))) for count in (40, 50)]
        target = torch.randn(6, 4), torch.randint(3, (6,))
        self.model = nn.Linear(4, 3)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.sampler = BatchSampler(chooser(), batches=30)
        self.loader = DataLoader(ConcatDataset(sources), batch_sampler=self.sampler)
        self.reward = RowTransfer(self.model, target, optimiser=self.optimiser, every=2, refresh=3)
        self.teller = Teller(self.sampler, late=3)
        self.parts = {
            name: getattr(self, name) for name in ("model", "optimiser", "sampler", "reward", "teller")
        }  # the sampler before the teller, which looks for its draws

    def train(self, path=None, steps=30):
        for step, (draw, (inputs, labels)) in enumerate(self.sampler.credit(self.loader), 1):
            with self.reward.watch():
                losses = self.reward.rows(cross_entropy(self.model(inputs), labels, reduction="none"))
                losses.mean().backward()
            self.teller.tell(draw, self.reward.rewards())
            self.optimiser.step()
            self.optimiser.zero_grad()
            if step == steps:
                if path is not None:
                    torch.save({name: part.state_dict() for name, part in self.parts.items()}, path)
                return
        self.teller.finish()

    def load(self, path):
        stored = torch.load(path, weights_only=True)
        for name, part in self.parts.items():
            part.load_state_dict(stored[name])


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_a_run_killed_with_rewards_on_their_way_goes_on_to_the_same_bits(steps, tmp_path):
    whole, first, second = Loop(), Loop(), Loop()
    whole.train(steps=None)
    first.train(tmp_path / "state.pt", steps)
    assert len(first.teller.state_dict()["waiting"]) == min(steps, 3)
    second.load(tmp_path / "state.pt")
    second.train(steps=None)
    expected = whole.sampler.chooser.history()
    for name, values in second.sampler.chooser.history().items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
    assert all(
        torch.equal(one, other) for one, other in zip(whole.model.parameters(), second.model.parameters(), strict=True)
    )


KEEPING = """
import os, signal, sys
parts = {"model": model, "optimiser": optimiser, "sampler": sampler, "reward": reward, "teller": teller}
path, stop = sys.argv[1], int(sys.argv[2])
if os.path.exists(path):
    stored = torch.load(path, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(stored[name])


def keep(draw):
    if draw.id == stop:
        torch.save({name: part.state_dict() for name, part in parts.items()}, path)
        os.kill(os.getpid(), signal.SIGKILL)


"""
ENDING = """
print(sampler.chooser.history()["task"].tolist(), [one.tolist() for one in model.parameters()])
"""


@pytest.mark.slow
def test_the_loop_of_the_page_that_was_killed_ends_with_the_same_bits(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "loops.md").read_text(encoding="utf-8")
    block = page.split("\n## PyTorch\n")[1].split("```python\n")[1].split("```")[0]
    before, loop = block.replace("Teller(sampler)", "Teller(sampler, late=3)").split("for draw, ")
    body = loop.replace("    optimiser.zero_grad()\n", "    optimiser.zero_grad()\n    keep(draw)\n")
    (tmp_path / "loop.py").write_text(f"{before}{KEEPING}for draw, {body}{ENDING}", encoding="utf-8")

    def run(stop):
        command = [sys.executable, "loop.py", "state.pt", str(stop)]
        return subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=600)

    whole, killed = run(-1), run(41)
    assert killed.returncode == -signal.SIGKILL
    assert len(torch.load(tmp_path / "state.pt", weights_only=True)["teller"]["waiting"]) == 3
    assert run(-1).stdout == whole.stdout
    assert whole.returncode == 0


RANK = """
import sys
import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset
import metasched as ms
from metasched.torch import BatchSampler, RowTransfer, Teller

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
torch.manual_seed(0)
data = [TensorDataset(torch.randn(n, 4), torch.randint(3, (n,))) for n in (12, 20)]
target = torch.randn(6, 4), torch.randint(3, (6,))
inner = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
alone = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
model = DistributedDataParallel(inner)
sampler = BatchSampler(ms.Chooser("thompson", (12, 20), 6, seed=rank), batches=12)
reward, teller = RowTransfer(model, target, every=1, refresh=1), Teller(sampler, late=2)
for draw, (inputs, labels) in sampler.credit(DataLoader(ConcatDataset(data), batch_sampler=sampler)):
    with reward.watch():
        losses = reward.rows(cross_entropy(model(inputs), labels, reduction="none"))
        losses.mean().backward()
    rewards = reward.rewards()
    alone.load_state_dict(inner.state_dict())
    expected = RowTransfer(alone, target, every=1)
    with expected.watch():
        expected.rows(cross_entropy(alone(inputs), labels, reduction="none")).mean().backward()
    torch.testing.assert_close(rewards, expected.rewards())
    if draw.id == 4 and rank == 1:
        rewards = rewards * torch.nan  # as if a gradient overflowed on one rank
    teller.tell(draw, rewards)
    with torch.no_grad():
        for one in inner.parameters():
            one -= 0.1 * one.grad
            one.grad = None
teller.finish()
if rank == 0:
    history = sampler.chooser.history()
    told = history["id"][history["told"] >= 0]
    assert sorted(set(told.tolist())) == [0, 1, 2, 3, *range(5, 12)], told
    assert len(told) == 11 * 6
total = torch.cat([one.detach().flatten() for one in inner.parameters()])
other = total.clone()
dist.broadcast(other, src=0)
assert torch.equal(total, other)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_ranks_measure_their_own_rows_and_tell_in_step(tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    ranks = [
        subprocess.Popen([sys.executable, script, str(rank), tmp_path / "store"], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    said = [process.communicate(timeout=600)[1] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], said


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestOnAnAccelerator:
    def test_nothing_waits_and_rewards_are_the_processors(self):
        one = chooser()
        teller = Teller(one)
        rewards = torch.rand(6, 4)
        there = rewards.cuda()
        torch.cuda.set_sync_debug_mode("error")
        try:
            for number in range(6):
                teller.tell(one.ask(), there[number])
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert told(one) == [0, 1, 2, 3]
        teller.finish()
        np.testing.assert_allclose(one.history()["reward"].reshape(6, 4), rewards.numpy())
