"""The task set, a value: what it holds, and where what can be done with it lives."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metasched.seeds import check_seed
from metasched.tasks import builders, checks, frames, options, summary, variants
from metasched.tasks.assemble import Goal
from metasched.tasks.preparation import Preparation
from metasched.tasks.provenance import Provenance
from metasched.tasks.task import TEST, VALIDATION, Split, Task


@dataclass(frozen=True, eq=False, repr=False)
class TaskSet:
    """N tasks and a target.

    ``classes`` names the target's labels. When every task has the same classes the label set is *shared*
    (:attr:`shared_labels`); otherwise label k of one task and label k of another mean different things, and a
    learner must give each task a head of its own.

    In a task set of *regression* (:meth:`regression`) rows have ``targets`` (n, d) beside their labels: a learner fits
    the targets, a scheduler sees the labels.

    ``provenance`` has one entry for each task, keyed by its name, and one each for ``"validation"`` and ``"test"``.
    ``recipe``, when there is one, are the name and options with which ``datasets.load`` builds the same set again.

    ``useful`` names the tasks known to help with the target, in any order, or is None where nobody knows. Nothing is
    learnt from it and the fingerprint leaves it out: it is what a report measures choosing against. A task that a
    variant spoils is no longer in it.

    ``preparation``, where rows came from tables, is how their columns became inputs; a model keeps it for new rows.
    """

    name: str
    tasks: tuple[Task, ...]
    validation: Split
    test: Split
    classes: tuple[str, ...]
    provenance: Mapping[str, Provenance]
    simulated: bool = False
    notes: tuple[str, ...] = ()
    recipe: Mapping[str, Any] | None = None
    useful: tuple[str, ...] | None = None
    preparation: Preparation | None = None

    def __post_init__(self) -> None:
        checks.check(self)

    @classmethod
    def from_arrays(
        cls,
        tasks: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        validation: tuple[ArrayLike, ArrayLike],
        test: tuple[ArrayLike, ArrayLike],
        classes: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        name: str = "arrays",
        allow_overlap: bool = False,
    ) -> "TaskSet":
        """Build a task set from arrays, in the order of ``tasks``.

        Each pair is (inputs (n, *shape), integer labels (n,)). Inputs become float32; ``uint8`` is taken for pixels
        and divided by 255. ``classes`` names the labels: one sequence that all tasks share, or a mapping from each
        task's name, and ``"target"``, to its own. Without it the labels are shared and named by their numbers.

        A validation row that occurs among the test rows, inputs and label alike, is refused: the test accuracy would
        measure memory. Data whose rows legitimately repeat pass ``allow_overlap=True``.
        """
        parts = builders.all_parts(tasks, validation, test)
        return builders.labelled(cls, name, parts, classes, allow_overlap)

    @classmethod
    def regression(
        cls,
        tasks: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        validation: tuple[ArrayLike, ArrayLike],
        test: tuple[ArrayLike, ArrayLike],
        bins: int = 10,
        name: str = "regression",
        allow_overlap: bool = False,
    ) -> "TaskSet":
        """Build a task set whose rows have numbers to predict, in the order of ``tasks``.

        Each pair is (inputs (n, *shape), targets (n, d) or (n,)). A learner fits the targets. What a scheduler sees as
        a row's label, and so as the state of a task, is the bin of the *first* number of its target. Bin edges are
        quantiles of that number over the rows of all sources together: the bins hold about equally many of them, and
        the target's own rows have no part in it. Equal numbers share a bin, so many ties leave fewer than ``bins``.
        Classes are named by the range of their bin.

        Inputs are read as by :meth:`from_arrays`; a row in both validation and test, inputs and target alike, is
        refused unless ``allow_overlap``.
        """
        parts = builders.all_parts(tasks, validation, test)
        return builders.regression(cls, name, parts, bins, allow_overlap)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        target: str | None = None,
        target_labels: int | None = None,
        seed: int = 0,
        label: str = "label",
        source: str = "source",
        categorical: Sequence[str] = (),
        drop: Sequence[str] = (),
        missing: str | None = None,
        standardise: bool = True,
        regression: bool | None = None,
        bins: int = 10,
        name: str = "frame",
        allow_overlap: bool = False,
    ) -> "TaskSet":
        """Build a task set from a pandas or polars data frame, or anything else that hands over Arrow tables.

        ``frame`` has a column ``source`` that says where a row is from, or is a mapping from each source to a frame of
        its own. The options are those of :func:`metasched.datasets.from_columns`; needs the extra ``tables``.

        >>> tasks = TaskSet.from_frame(frame, target="shop5", source="shop", label="bought")  # doctest: +SKIP
        """
        goal = Goal(
            target=target,
            target_labels=target_labels,
            seed=seed,
            label=label,
            regression=regression,
            bins=bins,
            allow_overlap=allow_overlap,
        )
        prepared = {"categorical": categorical, "missing": missing, "standardise": standardise}
        return frames.from_frame(cls, name, frame, source, drop, goal, **prepared)

    @classmethod
    def from_huggingface(
        cls,
        datasets: Mapping[str, Any],
        *,
        target: str | None = None,
        target_labels: int | None = None,
        seed: int = 0,
        label: str = "label",
        inputs: str | None = None,
        categorical: Sequence[str] = (),
        drop: Sequence[str] = (),
        missing: str | None = None,
        standardise: bool = True,
        regression: bool | None = None,
        bins: int = 10,
        name: str = "huggingface",
        allow_overlap: bool = False,
    ) -> "TaskSet":
        """Build a task set from Hugging Face data sets, one for each source.

        Columns of numbers and text are read as those of a frame (:meth:`from_frame`); ``inputs`` names instead one
        column of images or arrays to learn from alone. Classes are named as the column ``label`` names them.

        >>> tasks = TaskSet.from_huggingface({"a": a, "b": b}, target="b", inputs="image")  # doctest: +SKIP
        """
        goal = Goal(
            target=target,
            target_labels=target_labels,
            seed=seed,
            label=label,
            regression=regression,
            bins=bins,
            allow_overlap=allow_overlap,
        )
        prepared = {"categorical": categorical, "missing": missing, "standardise": standardise}
        return frames.from_huggingface(cls, name, datasets, inputs, drop, goal, **prepared)

    @classmethod
    def from_torch(
        cls,
        datasets: Mapping[str, Any],
        *,
        target: str | None = None,
        target_labels: int | None = None,
        seed: int = 0,
        classes: Sequence[str] | None = None,
        regression: bool | None = None,
        bins: int = 10,
        name: str = "torch",
        allow_overlap: bool = False,
    ) -> "TaskSet":
        """Build a task set from map-style PyTorch data sets of pairs (input, label), one for each source.

        Inputs are taken as the data set gives them (``uint8`` is divided by 255), but that images (channels, height,
        width) become (height, width, channels). Labels are numbers, or text; ``classes``, or an attribute ``classes``
        of the data set, names the numbers. How the target is divided: :func:`metasched.datasets.from_columns`.

        >>> tasks = TaskSet.from_torch({"photos": photos, "sketches": sketches}, target="sketches")  # doctest: +SKIP
        """
        goal = Goal(
            target=target,
            target_labels=target_labels,
            seed=seed,
            regression=regression,
            bins=bins,
            allow_overlap=allow_overlap,
        )
        return frames.from_torch(cls, name, datasets, classes, goal)

    @property
    def target_size(self) -> int | None:
        """How many numbers one target has; None when the task set is one of classification."""
        return None if self.test.targets is None else int(self.test.targets.shape[1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each task."""
        return tuple(len(task) for task in self.tasks)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.test.inputs.shape[1:]

    @property
    def shared_labels(self) -> bool:
        """Whether label k means the same in every task and in the target."""
        return all(task.classes == self.classes for task in self.tasks)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over names, classes and every array: equal for equal data, whatever it was built from."""
        digest = hashlib.sha256()
        for name, part, classes in self.parts():
            digest.update(repr((name, classes, part.inputs.shape)).encode())
            digest.update(np.ascontiguousarray(part.inputs).view(np.uint8).data)
            digest.update(np.ascontiguousarray(part.labels).view(np.uint8).data)
            if part.targets is not None:
                digest.update(repr(part.targets.shape).encode())
                digest.update(np.ascontiguousarray(part.targets).view(np.uint8).data)
        return digest.hexdigest()

    def parts(self) -> list[tuple[str, Task | Split, tuple[str, ...]]]:
        """Name, rows and classes of every part: the tasks in their order, then validation and test."""
        return [
            *((task.name, task, task.classes) for task in self.tasks),
            (VALIDATION, self.validation, self.classes),
            (TEST, self.test, self.classes),
        ]

    def variant(
        self,
        *,
        target_labels: int | None = None,
        noise: Mapping[str, float] | None = None,
        shuffle_order: bool = False,
        seed: int = 0,
    ) -> "TaskSet":
        """A controlled variant, reproducible from ``seed``; each change draws from a stream of its own.

        Args:
            target_labels: keep this many validation rows, stratified by class, in their order.
            noise: for each named task, the fraction of its rows whose labels, with their targets if they have any,
                are permuted among themselves. The label counts stay as they were; at 1.0 inputs and labels are
                unrelated.
            shuffle_order: permute the rows of every task, inputs with their labels, so that order says nothing.
            seed: a whole number from 0 to 2³² − 1.
        """
        given = {"target_labels": target_labels, "noise": noise, "shuffle_order": shuffle_order, "seed": seed}
        options.check(TaskSet.variant, given)
        check_seed(seed)
        result = replace(self, recipe=None)
        if target_labels is not None:
            result = variants.with_target_labels(result, target_labels, seed)
        for name, fraction in (noise or {}).items():
            result = variants.with_label_noise(result, name, fraction, seed)
        return variants.with_shuffled_order(result, seed) if shuffle_order else result

    def with_irrelevant(self, name: str, *, seed: int = 0) -> "TaskSet":
        """The values of every input of that task in one random order: learnable, yet about nothing else."""
        return variants.with_irrelevant(self, name, seed)

    def with_wrong_labels(self, name: str, *, shift: int = 1) -> "TaskSet":
        """Label k of that task becomes k + ``shift`` (modulo the number of its classes): consistent, and misleading."""
        return variants.with_wrong_labels(self, name, shift)

    def by_class(self, *, pooled: bool = False) -> "TaskSet":
        """A view in which classes are the tasks, rows in their order; any scheduler then chooses among classes.

        Every (task, class) pair that has rows becomes a task ``task/class``; when ``pooled``, every class over all
        tasks, one task after another, becomes a task ``class``, which needs a shared label set.
        """
        return variants.by_class(self, pooled)

    def summary(self) -> str:
        """What a person wants to know first, as a few lines of text."""
        return summary.summary(self)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"TaskSet({self.name!r}, tasks={[task.name for task in self.tasks]}, sizes={list(self.sizes)})"
