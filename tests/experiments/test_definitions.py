"""The experiments as they are defined: consistent, and their cells change what they say they change."""

import os
import re
import subprocess
import sys
from dataclasses import asdict, fields, replace
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched import schedulers
from metasched.experiments.catalogue import EXPERIMENTS, OURS, PAPER
from metasched.experiments.datasets import cifar100, climatenet, mnist, uci
from metasched.experiments.definition import Cell, Experiment
from metasched.experiments.methods import paper_methods, source_methods
from metasched.experiments.paper import _held
from metasched.learners.networks import default_network
from metasched.learners.settings import LearnerSettings
from metasched.runs import outcome
from metasched.runs.jobs import make_jobs

FILES = {
    "digits": (*mnist.FILES.values(), *uci.OPTDIGITS, *uci.SEMEION),
    "cifar": (cifar100.LABELS, *cifar100.SUPERCLASS_FILES.values()),
    "weather-points": tuple(climatenet.FILES.values()),
}


@pytest.mark.parametrize("experiment", OURS.values(), ids=list(OURS))
class TestSourcesThatDiffer:
    def test_both_learners_have_the_same_cells_and_rates_tuned_in_one_of_them(self, experiment):
        by_learner = {"meta": [], "joint": []}
        for cell in experiment.cells:
            assert cell.regime == "sources"
            assert cell.name.startswith(f"{cell.learner}-{cell.draw_labels}")
            assert cell.config.batching == {"meta": "per_source", "joint": "mixed"}[cell.learner]
            shared = {each.name: getattr(cell.config, each.name) for each in fields(LearnerSettings)}
            by_learner[cell.learner].append((cell.draw_labels, cell.data, shared | {"batching": None}))
        more = [cell for cell in by_learner["joint"] if cell not in by_learner["meta"]]
        assert [cell for cell in by_learner["joint"] if cell not in more] == by_learner["meta"]
        assert len(more) <= 1
        assert {f"{learner}-{experiment.tuned_in}" for learner, cells in by_learner.items() if cells} <= {
            cell.name for cell in experiment.cells
        }

    @pytest.mark.parametrize(("batching", "ours"), [("mixed", "thompson"), ("per_source", "thompson-transfer")])
    def test_one_method_alone_is_ours_and_uniform_is_there(self, experiment, batching, ours):
        found = experiment.methods(make_tasks(), batching)
        assert [method.name for method in found if method.role == "ours"] == [ours]
        assert "uniform" in {method.name for method in found}


@pytest.mark.parametrize("experiment", PAPER.values(), ids=list(PAPER))
class TestEveryExperiment:
    def test_names_are_unique_and_rates_are_tuned_in_one_of_its_cells(self, experiment):
        names = [cell.name for cell in experiment.cells]
        assert len(set(names)) == len(names)
        assert experiment.tuned_in in names
        assert len({(cell.regime, cell.variant) for cell in experiment.cells}) == len(names)

    def test_thresholds_can_be_reached_and_missed(self, experiment):
        assert all(0 < cell.threshold < 1 for cell in experiment.cells)

    def test_every_regime_is_there(self, experiment):
        assert {cell.regime for cell in experiment.cells} == {"paper", "few-label", "robust"}

    def test_more_labels_are_held_to_more(self, experiment):
        few = [cell for cell in experiment.cells if cell.regime == "few-label"]
        assert [cell.data["target_labels"] for cell in few] == [10, 30, 100]
        assert [cell.threshold for cell in few] == sorted(cell.threshold for cell in few)

    def test_robust_cells_have_the_noise_that_their_names_say(self, experiment):
        some, most, irrelevant = (cell for cell in experiment.cells if cell.regime == "robust")
        assert some.noisy
        assert set(some.noisy) < set(most.noisy)
        assert irrelevant.irrelevant is not None
        assert irrelevant.noisy == ()


BATCHING = ("mixed", "per_source")
RESULTS = Path(__file__).parents[2] / "results"
OF_METHOD = ("inner_rate", "outer_rate", "gradient", "batches_per_update")
"""Settings that are tuned, settled by memory, or none for target-only."""
DEFAULTS_THEN = {"ucb": {"upper": 2.0}, "thompson": {"forget": 1.0}}
"""Options that the results below left to the schedulers, and what they were when these were made."""


@pytest.mark.parametrize(
    ("name", "cell"), [(name, cell.name) for name, experiment in PAPER.items() for cell in experiment.cells]
)
def test_the_papers_cells_have_the_settings_of_their_results(name, cell):
    path = RESULTS / name / f"{cell}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no results of {name}/{cell}")
    runs = {run.method: run for run in outcome.read(path) if run.family != "ceiling"}
    tasks = make_tasks(sizes=(8,) * len(next(iter(runs.values())).about.tasks))
    defined = {method.name: method for method in EXPERIMENTS[name].methods(tasks)}
    settings = asdict(EXPERIMENTS[name].cell(cell).config)
    assert runs.keys() == defined.keys()
    for method, run in runs.items():
        now, then = defined[method], run.spec
        assert (now.scheduler, EXPERIMENTS[name].cell(cell).learner) == (then.scheduler, then.learner)
        stored = {key: value for key, value in then.settings.items() if key not in OF_METHOD}
        assert {key: settings[key] for key in stored} == stored, method
        assert now.reward == then.reward
        assert now.abstain == then.abstain or method == "target-only"  # which draws nothing either way
        known = DEFAULTS_THEN.get(then.scheduler, {}) | then.options
        assert {**_defaults(now.scheduler), **now.options}.items() >= known.items(), method
    assert defined["uniform"].reward == "scaled"


@pytest.mark.parametrize(
    ("name", "cell"), [(name, cell.name) for name, experiment in OURS.items() for cell in experiment.cells]
)
def test_a_cell_whose_results_are_there_is_not_run_again(name, cell):
    path = RESULTS / name / f"{cell}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no results of {name}/{cell}")
    assert _held(path, EXPERIMENTS[name].cell(cell), range(10))


def test_results_of_one_source_a_batch_are_not_those_of_a_cell_that_mixes_rows():
    cell = EXPERIMENTS["scripts"].cell("meta-30")
    path = RESULTS / "scripts" / "meta-30.jsonl.gz"
    assert not _held(path, replace(cell, config=replace(cell.config, batching="mixed")), range(10))


def _defaults(name):
    if name not in schedulers.names():
        return {}
    return {key: each.default for key, each in signature(getattr(schedulers, name)).parameters.items()}


def test_users_get_by_default_what_was_measured():
    mixed, per_source = (
        {method.name: method for method in source_methods(make_tasks(), batching)} for batching in BATCHING
    )
    for name in ("thompson", "ucb"):
        assert _defaults(name).items() >= per_source[f"{name}-transfer"].options.items()
    for name in ("thompson", "mirror", "uniform", "proportional"):
        assert mixed[name].options == {}
        assert mixed[name].batching is None
    assert signature(ms.train).parameters["reward"].default == mixed["thompson"].reward
    assert ms.Joint().batching == BATCHING[0]


def test_methods_of_one_source_a_batch_stand_beside_those_that_mix_rows():
    beside = [method for method in source_methods(make_tasks(), "mixed") if method.name.startswith("per-source ")]
    assert {"per-source uniform", "per-source thompson-transfer"} <= {method.name for method in beside}
    assert {method.batching for method in beside} == {"per_source"}


@pytest.mark.parametrize("name", FILES)
def test_every_cell_loads_and_its_settings_fit(needs, name):
    needs(*(file.path for file in FILES[name]))
    experiment, clean = EXPERIMENTS[name], None
    for cell in experiment.cells:
        tasks = experiment.load(cell)
        config = cell.config.resolve(tasks)
        assert config.batches_per_update * config.inner_steps > 0
        default_network(tasks, experiment.network, config.heads == "shared")
        if "target_labels" in cell.data:
            assert len(tasks.validation.labels) == cell.data["target_labels"]
        clean = tasks if clean is None else clean  # the first cell of each experiment has every source as it is
        for number, (task, plain) in enumerate(zip(tasks.tasks, clean.tasks, strict=True), 1):
            assert np.array_equal(task.inputs, plain.inputs) == (number != cell.irrelevant)
            assert np.array_equal(task.labels, plain.labels) == (number not in cell.noisy)
            assert np.array_equal(np.bincount(task.labels), np.bincount(plain.labels))
        if cell.name in ("robust-40", "robust-80"):
            assert len(cell.noisy) / len(tasks.tasks) == pytest.approx(int(cell.name[-2:]) / 100, abs=0.11)


SOURCES = {"digits": 5, "cifar": 4, "weather": 5, "weather-points": 5}
"""How many sources the data sets with spoilt cells have."""


def test_spoilt_tasks_are_numbered_from_1_and_as_many_as_the_cell_says():
    """Number 0 would wrap around to the last task."""
    seen = set()
    for experiment in EXPERIMENTS.values():
        for cell in experiment.cells:
            spoilt = (*cell.noisy, *([] if cell.irrelevant is None else [cell.irrelevant]))
            if not spoilt:
                continue
            sources = SOURCES[experiment.dataset]
            assert set(spoilt) <= set(range(1, sources + 1)), (experiment.name, cell.name)
            assert len(set(spoilt)) == len(spoilt)
            share = re.search(r"(\d+) ?% noisy", cell.variant)
            expected = 1 if share is None else min(round(int(share[1]) / 100 * sources), sources - 1)
            assert len(spoilt) == expected, (experiment.name, cell.name)
            seen.add((experiment.name, cell.name))
    assert {("noisy", "joint-30-80"), ("noisy", "meta-30-40"), ("digits", "robust-irrelevant")} <= seen


FINGERPRINTS = """
from metasched.experiments.catalogue import EXPERIMENTS
from metasched.experiments.definition import target_drawn
for name in {names}:
    cell = EXPERIMENTS["noisy"].cell(name)
    tasks = target_drawn(EXPERIMENTS["noisy"].load(cell), cell.draw_labels, 0, tuning=False)
    print(tasks.fingerprint, *tasks.useful)
"""


def test_the_noisy_cells_are_the_rows_of_their_results(needs):
    """Pixels are resized by matrix products, whose last bits follow the BLAS kernel: the results came from AVX-512."""
    if "avx512f" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the results came from a CPU with AVX-512; others round the last bit of a pixel differently")
    needs(*(file.path for file in FILES["digits"]))
    names = ["joint-30", "joint-30-40", "meta-30-80"]
    kernel = {**os.environ, "OPENBLAS_CORETYPE": "SkylakeX"}
    code = FINGERPRINTS.format(names=names)
    found = subprocess.run([sys.executable, "-c", code], env=kernel, capture_output=True, text=True, check=True)
    for name, line in zip(names, found.stdout.splitlines(), strict=True):
        run = next(run for run in outcome.read(RESULTS / "noisy" / f"{name}.jsonl.gz") if run.spec.seed == 0)
        assert line.split() == [run.spec.data.fingerprint, *map(str, run.about.useful)], name


@pytest.fixture
def made_up(tmp_path):
    ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")
    return Experiment("made-up", "made up", str(tmp_path / "set.npz"), "mlp", "a", ())


def cell(**changes):
    return Cell("a", "robust", "a", ms.AlgorithmOne(batch_size=4), 0.5, **changes)


def test_noisy_tasks_have_the_same_labels_in_another_order(made_up):
    plain, noisy = made_up.load(cell()), made_up.load(cell(noisy=(1, 3)))
    for number, (task, other) in enumerate(zip(plain.tasks, noisy.tasks, strict=True)):
        np.testing.assert_array_equal(task.inputs, other.inputs)
        assert sorted(task.labels) == sorted(other.labels)
        assert np.array_equal(task.labels, other.labels) == (number == 1)


def test_an_irrelevant_tasks_inputs_have_their_values_in_one_order_of_its_own(made_up):
    plain, changed = made_up.load(cell()), made_up.load(cell(irrelevant=2))
    before, after = plain.tasks[1], changed.tasks[1]
    np.testing.assert_array_equal(before.labels, after.labels)
    order = [np.flatnonzero(before.inputs[0] == value)[0] for value in after.inputs[0]]
    assert sorted(order) == list(range(4))
    assert order != list(range(4))
    np.testing.assert_array_equal(before.inputs[:, order], after.inputs)
    for number in (0, 2):
        np.testing.assert_array_equal(plain.tasks[number].inputs, changed.tasks[number].inputs)
    np.testing.assert_array_equal(plain.validation.inputs, changed.validation.inputs)
    assert changed.fingerprint != plain.fingerprint


KNOWN = replace(make_tasks(), useful=("task-1",))
EVERY = {method.name: method for make in (paper_methods, source_methods) for method in make(KNOWN)}.values()


class TestMethods:
    def test_names_are_unique_and_every_family_is_there(self):
        found = paper_methods(make_tasks(sizes=(12, 20, 9, 8, 7)))
        assert len({method.name for method in found}) == len(found)
        assert {method.family for method in found} == {"static", "active", "control"}
        assert [method.name for method in found if method.name.startswith("single:")] == [
            f"single:{number}" for number in range(1, 6)
        ]

    @pytest.mark.parametrize("method", EVERY, ids=lambda method: method.name)
    def test_every_method_is_a_run(self, method):
        how = {"options": method.options, "reward": method.reward, "abstain": method.abstain}
        (job,) = make_jobs(KNOWN, method.scheduler, **how, network="mlp", learner=ms.Joint(batch_size=4))
        assert job.description.family == method.family
