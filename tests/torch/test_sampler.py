"""The PyTorch adapter: credit under prefetching, two ranks that agree, and resuming in the middle of an epoch."""

import json
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

import metasched as ms
from helpers import made
from metasched.errors import ConfigError

torch = pytest.importorskip("torch")
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset  # noqa: E402

from metasched.torch import BatchSampler, Mixer  # noqa: E402

# JAX warns of any fork; the loader's workers only read rows.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
SIZES = (12, 20, 9)
UCB = ms.schedulers.ucb(3)
DISCOUNTED = ms.schedulers.discounted_ucb(3)
THOMPSON = ms.schedulers.thompson(3)
CYCLIC = ms.schedulers.cyclic(3)


def datasets():
    """Row u of task i is the pair (i, u), so that a batch says where it comes from."""
    return [TensorDataset(torch.full((size,), task), torch.arange(size)) for task, size in enumerate(SIZES)]


def reward_of(draw):
    """One number for each row; a draw of one source is told their mean."""
    return np.sin(3 * draw.tasks + 0.7 * draw.id + 0.1 * np.arange(len(draw.tasks)))


def check_credit(draw, batch):
    tasks, rows = batch
    assert tasks.tolist() == draw.tasks.tolist()
    assert rows.tolist() == draw.rows.tolist()


@pytest.mark.parametrize("batching", ["mixed", "per_source"])
@pytest.mark.parametrize("workers", [{}, {"num_workers": 2, "prefetch_factor": 3}])
def test_credit_goes_to_the_draw_that_made_the_batch(workers, batching):
    sampler = BatchSampler(ms.Chooser(UCB, SIZES, 4, batching=batching), batches=15)
    loader = DataLoader(ConcatDataset(datasets()), batch_sampler=sampler, **workers)
    assert len(loader) == 15
    for _ in range(2):
        seen = 0
        for draw, batch in sampler.credit(loader):
            check_credit(draw, batch)
            sampler.tell(draw, reward_of(draw))
            seen += 1
        assert seen == 15
    assert sampler.chooser.open() == ()
    assert list(dict.fromkeys(sampler.chooser.history()["told"].tolist())) == list(range(30))


def test_without_workers_the_choices_are_those_of_the_chooser_alone():
    alone = ms.Chooser(THOMPSON, SIZES, 4, seed=3)
    sampler = BatchSampler(ms.Chooser(THOMPSON, SIZES, 4, seed=3), batches=40)
    for draw, _ in sampler.credit(DataLoader(ConcatDataset(datasets()), batch_sampler=sampler)):
        mine = alone.ask()
        assert (draw.tasks.tolist(), draw.rows.tolist()) == (mine.tasks.tolist(), mine.rows.tolist())
        for chooser, one in ((alone, mine), (sampler, draw)):
            chooser.tell(one, reward_of(draw))


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2, "prefetch_factor": 2}])
def test_an_epoch_goes_on_in_the_middle_and_prefetched_batches_are_not_lost(workers):
    def build(seed=0):
        sampler = BatchSampler(ms.Chooser(DISCOUNTED, SIZES, 4, seed=seed), batches=14)
        return sampler, DataLoader(ConcatDataset(datasets()), batch_sampler=sampler, **workers)

    def go(sampler, loader, stop=None):
        taken = []
        for draw, batch in sampler.credit(loader):
            check_credit(draw, batch)
            sampler.tell(draw, reward_of(draw))
            taken.append(draw.id)
            if len(taken) == stop:
                break
        return taken

    sampler, loader = build()
    first = go(sampler, loader, stop=5)
    stored = sampler.state_dict()
    json.dumps([stored["delivered"], stored["waiting"], stored["chooser"]["facts"]])
    resumed, loader = build(seed=1)
    resumed.load_state_dict(stored)
    assert len(loader) == 9
    assert first + go(resumed, loader) == list(range(14))
    assert len(loader) == 14
    assert go(resumed, loader) == list(range(14, 28))


def through_a_file(stored, path):
    torch.save(stored, path)
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize("name", ms.schedulers.names())
def test_the_state_survives_a_file_that_may_hold_nothing_but_weights(name, tmp_path):
    def build(seed):
        return BatchSampler(ms.Chooser(made(name, 3), SIZES, 4, seed=seed), batches=30)

    def go(sampler, steps):
        taken = []
        credited = sampler.credit(DataLoader(ConcatDataset(datasets()), batch_sampler=sampler))
        for draw, batch in islice(credited, steps):
            check_credit(draw, batch)
            sampler.tell(draw, reward_of(draw))
            taken.append((draw.id, draw.tasks.tolist(), draw.rows.tolist()))
        return taken

    first, whole = build(1), build(1)
    before = go(first, 9)
    second = build(2)
    second.load_state_dict(through_a_file(first.state_dict(), tmp_path / "state.pt"))
    assert before + go(second, 12) == go(whole, 21)


def test_a_state_that_is_none_changes_nothing():
    sampler = BatchSampler(ms.Chooser(UCB, SIZES, 4), batches=14)
    good = sampler.state_dict()
    for bad in ({}, None, {**good, "delivered": -1}, {**good, "waiting": ["a"]}, {**good, "chooser": {}}):
        with pytest.raises(ConfigError, match="this is not"):
            sampler.load_state_dict(bad)
    mixer = Mixer(ms.Chooser(CYCLIC, 3), [[1], [2], [3]])
    with pytest.raises(ConfigError, match="the state has 2 sources, but this Mixer has 3"):
        mixer.load_state_dict({**mixer.state_dict(), "taken": [0, 0]})
    for bad in (good, {**mixer.state_dict(), "taken": [0, 0, 2**63]}):
        with pytest.raises(ConfigError, match="this is not a state from state_dict"):
            mixer.load_state_dict(bad)


def test_an_added_source_is_the_next_data_set_of_the_loader():
    sampler = BatchSampler(ms.Chooser("ucb", {"a": 12, "b": 20}, 4), batches=6)
    parts = datasets()
    for draw, _ in sampler.credit(DataLoader(ConcatDataset(parts[:2]), batch_sampler=sampler)):
        sampler.tell(draw, 0.5)
    sampler.chooser.add_source("c", 9)
    for draw, batch in sampler.credit(DataLoader(ConcatDataset(parts), batch_sampler=sampler)):
        check_credit(draw, batch)
        sampler.tell(draw, 0.5)
    assert sampler.chooser.shares(last=6)["c"] > 0


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
def test_a_stateful_loader_may_use_it_and_the_samplers_own_state_is_the_right_one(tmp_path):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def build(seed=0):
        sampler = BatchSampler(ms.Chooser(DISCOUNTED, SIZES, 4, seed=seed), batches=20)
        return sampler, stateful(ConcatDataset(datasets()), batch_sampler=sampler, num_workers=2, prefetch_factor=2)

    def go(sampler, loader, steps):
        taken = []
        for draw, batch in islice(sampler.credit(loader), steps):
            check_credit(draw, batch)
            sampler.tell(draw, reward_of(draw))
            taken.append(draw.id)
        return taken

    sampler, loader = build()
    assert go(sampler, loader, 11) == list(range(11))
    resumed, loader = build(seed=1)
    resumed.load_state_dict(through_a_file(sampler.state_dict(), tmp_path / "state.pt"))
    assert go(resumed, loader, 20) == list(range(11, 20))


class TestMixer:
    def sources(self, **workers):
        return [DataLoader(one, batch_size=4, drop_last=True, **workers) for one in datasets()]

    @pytest.mark.parametrize("workers", [{}, {"num_workers": 1, "prefetch_factor": 2}])
    def test_yields_batches_of_the_chosen_source_and_starts_an_exhausted_one_again(self, workers):
        mixer = Mixer(ms.Chooser(CYCLIC, 3), self.sources(**workers), batches=9)
        rows = []
        for draw, (tasks, numbers) in mixer:
            assert tasks.tolist() == [draw.task] * 4
            rows.append(int(numbers[0]))
            mixer.tell(draw, reward_of(draw))
        assert rows == [0, 0, 0, 4, 4, 4, 8, 8, 0]

    def test_works_behind_a_loader_and_refuses_workers_of_its_own(self):
        mixer = Mixer(ms.Chooser(CYCLIC, 3), self.sources(), batches=3)
        assert [draw.task for draw, _ in DataLoader(mixer, batch_size=None)] == [0, 1, 2]
        with pytest.raises(ConfigError, match="give num_workers to its sources"):
            list(DataLoader(mixer, batch_size=None, num_workers=1))

    def test_goes_on_in_the_middle(self):
        def go(mixer, steps):
            taken = []
            for draw, (_, rows) in mixer:
                mixer.tell(draw, reward_of(draw))
                taken.append((draw.id, draw.task, rows.tolist()))
                if len(taken) == steps:
                    break
            return taken

        whole = go(Mixer(ms.Chooser(UCB, 3), self.sources()), 20)
        first = Mixer(ms.Chooser(UCB, 3), self.sources())
        before = go(first, 8)
        second = Mixer(ms.Chooser(UCB, 3, seed=9), self.sources())
        second.load_state_dict(first.state_dict())
        assert before + go(second, 12) == whole

    def test_abstaining_yields_no_batch(self):
        mixer = Mixer(ms.Chooser("cyclic", 3, abstain=True), self.sources(), batches=4)
        assert [batch is None for _, batch in mixer] == [False, False, False, True]

    def test_refuses_a_source_that_can_be_read_only_once_or_is_empty(self):
        mixer = Mixer(ms.Chooser("single", 1), [iter([1, 2])])
        with pytest.raises(ConfigError, match="source 1 is empty, or can be iterated only once"):
            for _ in mixer:
                pass
        with pytest.raises(ConfigError, match="there are 1 sources, but the chooser has 3"):
            Mixer(ms.Chooser(CYCLIC, 3), [[1]])
        with pytest.raises(ConfigError, match="a Mixer hands out ready batches, each of one source"):
            Mixer(ms.Chooser(CYCLIC, 3, batch_size=4), [[1], [2], [3]])
        Mixer(ms.Chooser(CYCLIC, 3, batch_size=4, batching="per_source"), [[1], [2], [3]])


RANK = """
import sys
import numpy as np
import torch.distributed as dist
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset
import torch
import metasched as ms
from metasched.torch import BatchSampler

rank, store, batching = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
data = ConcatDataset([TensorDataset(torch.full((n,), i), torch.arange(n)) for i, n in enumerate((12, 20, 9))])
chooser = ms.Chooser("ucb", (12, 20, 9), 6, seed=rank, shuffle=False, batching=batching)
sampler = BatchSampler(chooser, batches=12)
loader = DataLoader(data, batch_sampler=sampler, num_workers=1, prefetch_factor=2)


def worth(draw):
    return np.sin(3 * draw.tasks + draw.id + np.arange(6))


def tell(draw):
    mine = sampler.positions(draw)
    if draw.mixed:
        sampler.tell(draw, worth(draw)[mine], loss=np.where(mine == 0, np.nan, 2 * worth(draw)[mine]))
    else:
        sampler.tell(draw, float(worth(draw)[mine].mean()), loss=2 * worth(draw)[mine])


def train(draw, batch):
    tasks, rows = batch
    mine = sampler.positions(draw)
    assert tasks.tolist() == draw.tasks[mine].tolist()
    assert rows.tolist() == draw.rows[mine].tolist()
    print(draw.id, *draw.tasks.tolist(), *rows.tolist())


for draw, batch in sampler.credit(loader):
    train(draw, batch)
    dist.all_reduce(torch.ones(1))
    tell(draw)
    if draw.id == 5:
        break
stored = [sampler.state_dict()]
dist.broadcast_object_list(stored, src=0)
sampler.load_state_dict(stored[0])
for draw, batch in sampler.credit(loader):
    train(draw, batch)
    tell(draw)
if rank == 0:
    history = sampler.chooser.history()
    each = 6 if batching == "mixed" else 1
    tasks, ids = (history[name].reshape(12, each) for name in ("task", "id"))
    expected = np.sin(3 * tasks + ids + np.arange(6))
    expected = expected if each == 6 else expected.mean(1, keepdims=True)
    np.testing.assert_allclose(history["reward"], expected.ravel(), atol=1e-6)
    losses = 2 * expected
    losses[:, 0] = np.nan if each == 6 else losses[:, 0]  # nobody told those of the first rows
    np.testing.assert_allclose(history["loss"], losses.ravel(), atol=1e-6)
for wrong in (float("nan"), [1.0]):
    draw, _ = next(sampler.credit(loader))
    try:
        sampler.tell(draw, wrong if rank else 0.5)
    except ms.MetaschedError as error:
        assert ("rank 1: the reward " if rank else "of another rank") in str(error), error
        sampler.forget(draw)
try:
    BatchSampler(ms.Chooser("ucb", (12, 20, 9), 5), batches=1)
except ms.MetaschedError as error:
    print(error)
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("batching", ["mixed", "per_source"])
def test_two_ranks_agree_and_share_no_row(tmp_path, batching):
    command = [sys.executable, "-c", RANK]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store"), batching], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=600)[0].splitlines() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert [lines.pop().startswith("batch_size is 5; give a multiple of the 2 ranks") for lines in said] == [True, True]
    one, other = ([list(map(int, line.split())) for line in lines] for lines in said)
    assert [line[0] for line in one] == list(range(12))
    assert len({task for line in one for task in line[1:7]}) == 3
    cursors = [0, 0, 0]
    for mine, theirs in zip(one, other, strict=True):
        assert mine[:7] == theirs[:7]
        expected = []
        for task in mine[1:7]:
            expected.append(cursors[task])
            cursors[task] = (cursors[task] + 1) % SIZES[task]
        assert (mine[7:], theirs[7:]) == (expected[::2], expected[1::2])


def test_sizes_that_are_not_those_of_the_parts_of_the_data_set_are_refused():
    # Otherwise rows of one source would be trained on and rewarded as rows of another.
    sampler = BatchSampler(ms.Chooser(CYCLIC, {"a": 3, "b": 5}, 4), batches=2)
    parts = ConcatDataset([range(3), range(7)])
    with pytest.raises(ConfigError, match="source 'b' has 5 rows, but its part of the ConcatDataset has 7"):
        next(sampler.credit(DataLoader(parts, batch_sampler=sampler)))


def test_refuses_a_loader_that_is_not_its_own_and_sources_without_rows():
    sampler = BatchSampler(ms.Chooser(CYCLIC, SIZES, 4), batches=2)
    with pytest.raises(ConfigError, match="credit needs the DataLoader with this batch_sampler"):
        next(sampler.credit(DataLoader(ConcatDataset(datasets()), batch_size=4)))
    with pytest.raises(ConfigError, match="sources have 41 rows, but the loader's data set has 23"):
        next(sampler.credit(DataLoader(range(23), batch_sampler=sampler)))
    with pytest.raises(ConfigError, match="streams, which have no row numbers"):
        BatchSampler(ms.Chooser(CYCLIC, 3), batches=2)
    with pytest.raises(ConfigError, match=r"the chooser is a str; give an ms\.Chooser"):
        BatchSampler("thompson", batches=2)
    with pytest.raises(ConfigError, match="leave out abstain"):
        list(BatchSampler(ms.Chooser("target-only", [9], 3), batches=2))


DDP = """
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import metasched as ms
from metasched.torch import Mixer, Transfer

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)))
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
rows = lambda: (torch.randn(6, 4), torch.randint(3, (6,)))
mixer = Mixer(ms.Chooser("ucb", {"a": None, "b": None}, loss_weights=[1, 3], min_share=0.2), [[rows()], [rows()]], 8)
reward = Transfer(model)
for draw, batch in mixer:
    loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
    again = reward(batch, rows())
    loss.backward()
    mixer.tell(draw, reward(target_batch=rows()) + 0 * again)
    optimiser.step()
    optimiser.zero_grad()
    print(draw.id, draw.source, round(draw.weight, 6))
print(sum(float(one.double().sum()) for one in model.parameters()))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_rewards_are_measured_under_distributed_data_parallel_and_ranks_stay_alike(tmp_path):
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", DDP, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=600)[0].splitlines() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert said[0] == said[1]
    assert len(said[0]) == 9
    assert {line.split()[1] for line in said[0][:-1]} == {"a", "b"}
    assert {float(line.split()[2]) for line in said[0][:-1]} != {1.0}
