"""All fits of a comparison: networks on folds and on judging splits, reference models on the same splits, final
networks.

All fits are stored in the folder, so that an interrupted comparison can continue.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.comparison import networks
from metasched.comparison.estimate import Part, together
from metasched.comparison.methods import runs_of
from metasched.comparison.networks import Fitted, Key, answers_of, by_unit
from metasched.comparison.references import Fit, References, Weights, in_parallel, predictions_of, units_of
from metasched.comparison.sources import weights_of
from metasched.comparison.splits import Split, Splits
from metasched.comparison.stored import StoredOutputs
from metasched.files import write_whole
from metasched.learners.predictor import Predictor
from metasched.references.recipes import Recipe
from metasched.references.stored import read_predictor
from metasched.runs.executors import Executor
from metasched.runs.jobs import claim_folders
from metasched.runs.outcome import Outcome
from metasched.runs.status import WORK
from metasched.runs.sweep import Finished, Method, Rates, Setup

SLOW = ("forest", "boosting")
"""Reference models that are fitted last, and only while the budget has time left."""
FINAL_SEEDS = (0, 1, 2)
"""The number of final networks with each rate."""
TUNING, JUDGING = Path(WORK) / "folds.jsonl", Path(WORK) / "judging.jsonl"
OUTPUTS = Path(WORK) / "references.jsonl"
ENDED = Path(WORK) / "budget-ended"
"""This file exists once the budget is used up. The same command then fits nothing that it left out."""

OnProgress = Callable[[str, int, int], None]
"""Called after every fit, with what is being done, the finished fits and all fits."""


@dataclass
class Steps:
    """Counts fits over all steps of a comparison."""

    total: int
    on_progress: OnProgress | None = None
    before: int = 0
    counted: set[str] = field(default_factory=set)
    """Keys of the reference models that are counted. Some splits of a cross-validation are also folds."""

    def counting(self, what: str) -> Callable[[int, str], None]:
        """A function to call with the finished fits of a step and the state of the others."""

        def on_finished(done: int, standing: str = "") -> None:
            if self.on_progress:
                self.on_progress(f"{what}: {standing}" if standing else what, self.before + done, self.total)

        return on_finished

    def ended(self, count: int) -> None:
        """Count a finished step with this many fits."""
        self.before += count


@dataclass(frozen=True)
class Bench:
    """What all steps share.

    Attributes:
        setup: the learner and the network.
        methods: the methods with networks, with ``best-single`` resolved.
        rates: the learning rates of every method.
        splits: of the target's rows.
        out: the folder.
        executor: makes the runs.
        steps: counts.
        deadline: when fits of reference models must end (``time.monotonic``); −∞ if they have ended before.
        beside: the reference models, if there are any.
    """

    setup: Setup
    methods: Sequence[Method]
    rates: Sequence[Rates]
    splits: Splits
    out: Path
    executor: Executor
    steps: Steps
    deadline: float = math.inf
    beside: References | None = None

    @cached_property
    def _stored(self) -> StoredOutputs:
        return StoredOutputs(self.out / OUTPUTS)

    def networks(self, splits: Sequence[Split], what: str, path: Path) -> dict[Key, Fitted]:
        """Fit every method with every rate on these splits."""
        jobs = networks.jobs_of(self.setup, self.methods, self.rates, splits)
        found = Finished(self.executor, self.out / path).run(jobs, self.steps.counting(what))
        self.steps.ended(len(jobs))
        return networks.fitted(self.methods, self.rates, splits, found)

    def final_networks(self, method: Method) -> list[Predictor]:
        """The networks of a method that learn from all official labelled rows, with every rate and several seeds."""
        tasks = self.splits.scored
        rows = [(seed, tasks) for seed in FINAL_SEEDS]
        place = runs_of(self.out, method)
        jobs = [
            job._replace(folder=place / f"rate-{rates[0]:g}-seed-{job.spec.seed}")
            for rates in self.rates
            for job in self.setup.jobs(method, rows, rates)
        ]
        found = Finished(self.executor).run(claim_folders(jobs, place), self.steps.counting("final models"))
        self.steps.ended(len(jobs))
        return [
            read_predictor(job.folder, job.own_network)
            for job, outcome in zip(jobs, found, strict=True)
            if job.folder is not None and outcome.final is not None
        ]

    def references(
        self, references: References, splits: Sequence[Split], weights: Sequence[Weights | None]
    ) -> dict[str, dict[int, Part]]:
        """The predictions of every reference model on each split, by title and place. Slow models have fewer splits."""
        stored, work = self._stored, self.work(references, splits)
        keys = self.keys(references, splits)
        found: dict[str, dict[int, Part]] = {}
        new = set(keys) - self.steps.counted
        show, done = self.steps.counting("reference models"), 0

        def keep(number: int, outputs: NDArray[np.float32]) -> None:
            nonlocal done
            if keys[number] in new:
                done += 1
                show(done, "")
            recipe, place = work[number]
            if keys[number] not in stored:
                stored.add(keys[number], outputs)
            split = splits[place]
            found.setdefault(references.title(recipe), {})[place] = Part(outputs, answers_of(split), split.rows)

        missing = [number for number, key in enumerate(keys) if key not in stored]
        for number in sorted(set(range(len(work))).difference(missing)):
            keep(number, stored.read(keys[number], len(splits[work[number][1]].rows)))

        def fits() -> Iterator[Fit]:
            for number in missing:
                recipe, place = work[number]
                if monotonic() > self.deadline and recipe.estimator in SLOW:
                    write_whole(self.out / ENDED, b"")
                    return  # the others of this kind come after it
                yield references.judged(recipe, splits[place], weights[place])

        in_parallel(predictions_of, fits(), len(missing), lambda number, outputs: keep(missing[number], outputs))
        self.steps.ended(done)
        if self.deadline > -math.inf:  # otherwise they were not counted
            self.steps.total -= len(new) - done
        self.steps.counted |= new
        return found

    def keys(self, references: References, splits: Sequence[Split]) -> list[str]:
        """The keys under which the fits of :meth:`work` are stored."""
        # The first repeat of a cross-validation consists of the folds, and is not fitted again.
        names = [f"{split.tasks.fingerprint} {split.seed}" for split in splits]
        return [f"{names[place]} {references.title(recipe)}" for recipe, place in self.work(references, splits)]

    def reference_fits(self) -> list[tuple[Recipe, Split]]:
        """The fits of reference models on all splits, each once. Fits that a budget has already left out are not among
        them.
        """
        if self.beside is None:
            return []
        found: dict[str, tuple[Recipe, Split]] = {}
        for splits in (self.splits.folds, self.splits.judging):
            work = self.work(self.beside, splits)
            for key, (recipe, place) in zip(self.keys(self.beside, splits), work, strict=True):
                if self.deadline > -math.inf or recipe.estimator not in SLOW or key in self._stored:
                    found[key] = recipe, splits[place]
        return list(found.values())

    def work(self, references: References, splits: Sequence[Split]) -> list[tuple[Recipe, int]]:
        """The fits of reference models on these splits: which model, and the place of the split."""
        units = list(dict.fromkeys(split.unit for split in splits))
        return [
            (recipe, place)
            for recipe in sorted(references.recipes, key=lambda recipe: recipe.estimator in SLOW)
            for place, split in enumerate(splits)
            if split.unit in units_of(recipe, self.splits, units)
        ]


def planned(bench: Bench, references: References) -> dict[str, int]:
    """In how many units every reference model should be judged, by title. The budget may end before that."""
    splits = bench.splits.judging
    units: dict[str, set[int]] = {}
    for recipe, place in bench.work(references, splits):
        units.setdefault(references.title(recipe), set()).add(splits[place].unit)
    return {title: len(own) for title, own in units.items()}


def whole(parts: Mapping[int, Part], splits: Sequence[Split]) -> dict[int, Part]:
    """The predictions of a model by unit, for the units of which all splits are there."""
    places: dict[int, list[int]] = {}
    for place, split in enumerate(splits):
        places.setdefault(split.unit, []).append(place)
    return {
        unit: together([parts[place] for place in own])
        for unit, own in places.items()
        if all(place in parts for place in own)
    }


def source_weights(
    bench: Bench, ours: str, fits: Mapping[Key, Fitted], splits: Sequence[Split]
) -> list[Weights | None]:
    """For each split, the weights of sources that the method found with the labelled rows of that split."""
    tasks = bench.splits.official
    return [weights_of(tasks, fits[ours, place].runs) for place in range(len(splits))]


def outcomes_of(bench: Bench, method: Method, fits: Mapping[Key, Fitted], variance: float | None) -> list[Outcome]:
    """One outcome for each unit of a method."""
    splits = bench.splits.judging
    runs: dict[int, list[Outcome]] = {}
    for place, split in enumerate(splits):
        runs.setdefault(split.unit, []).extend(fits[method.name, place].runs)
    parts = by_unit(fits, splits, method.name)
    metric = next(iter(runs.values()))[0].metric
    return [networks.outcome_of(several, unit, parts[unit], metric, variance) for unit, several in runs.items()]


def with_length(setup: Setup, updates: int) -> Setup:
    """The same with this many updates."""
    learner: Any = setup.learner
    return setup._replace(learner=replace(learner, updates=updates))
