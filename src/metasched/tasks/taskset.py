"""The task set: what it contains, how to build it, and how to vary it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metasched.errors import ConfigError
from metasched.optional import require
from metasched.seeds import check_seed
from metasched.tasks import checks, overview, redraw, variants
from metasched.tasks.arrays import RowNumbers
from metasched.tasks.preparation import Preparation
from metasched.tasks.task import TEST, VALIDATION, Division, Provenance, Split, Task, Unlabelled

# The modules that build task sets import this one. So the methods that call them import them only then.


@dataclass(frozen=True, eq=False, repr=False)
class TaskSet:
    """N tasks and a target.

    If every task has the classes of the target, they are *shared* (:attr:`shared_labels`). Otherwise label k of one
    task and label k of another mean different things, and a learner must give each task its own head.

    In a task set of *regression* (:meth:`regression`) rows have ``targets`` ``(n, d)`` in addition to their labels. A
    learner fits the targets, and a scheduler sees the labels.

    Attributes:
        name: the name of the set.
        tasks: the sources, in order.
        validation: the target's labelled rows, which a learner may use.
        test: the target's rows that are used only for measuring.
        classes: names of the target's labels.
        provenance: one entry per task, by its name, and one each for ``"validation"`` and ``"test"``.
        simulated: whether the rows are simulated.
        notes: what a reader of results should know.
        label_warnings: what looked wrong with the labels when they were read; :attr:`warnings` has these and more.
        recipe: the name and options with which ``datasets.load`` builds the same set again, if that is possible.
        useful: names of the tasks known to help with the target, in any order, or None if nobody knows. Learners never
            see it and the fingerprint leaves it out; reports use it to check the choices of a scheduler. A variant that
            spoils a task removes it from the list.
        preparation: how the columns of a table became inputs. A model stores it for new rows.
        split: who divided the target's rows. ``"given"``: you gave validation and test rows. ``"drawn"``: metasched
            divided one pool, with the default number of validation rows. ``"asked"``: metasched divided one pool, with
            the number that you gave (``target_labels``). The fingerprint leaves it out.
        unlabelled: the target's rows that have no label, or None if all have one. If there are some, all labelled rows
            are for validation by default, and none for test. The fingerprint leaves them out.

    Examples:
        >>> tasks
        TaskSet('arrays', tasks=['north', 'south'], sizes=[40, 60])
        >>> tasks.shared_labels
        True
        >>> [name for name, part, classes in tasks.parts()]
        ['north', 'south', 'validation', 'test']
    """

    name: str
    tasks: tuple[Task, ...]
    validation: Split
    test: Split
    classes: tuple[str, ...]
    provenance: Mapping[str, Provenance]
    simulated: bool = False
    notes: tuple[str, ...] = ()
    label_warnings: tuple[str, ...] = ()
    recipe: Mapping[str, Any] | None = None
    useful: tuple[str, ...] | None = None
    preparation: Preparation | None = None
    split: Division = "given"
    unlabelled: Unlabelled | None = None

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
        """Build a task set from arrays.

        Inputs become float32. Arrays of ``uint8`` are pixels and are divided by 255.

        Args:
            tasks: for each name, in order, a pair of inputs ``(n, *shape)`` and integer labels ``(n,)``.
            validation: inputs and labels of the target that a learner may use.
            test: inputs and labels of the target that are used only for measuring.
            classes: names of the labels: one sequence that all tasks share, or a mapping from each task's name, and
                ``"target"``, to its own. By default the labels are shared and named by their numbers.
            name: the name of the set.
            allow_overlap: allow rows that are both validation and test rows, for data whose rows legitimately repeat.
                Otherwise the test accuracy would measure memory.

        Returns:
            The task set.

        Examples:
            >>> inputs, labels = np.eye(4), [0, 1, 0, 1]
            >>> target = {"validation": (inputs + 1, labels), "test": (inputs + 2, labels)}
            >>> ms.TaskSet.from_arrays({"a": (inputs, labels)}, **target, classes=["no", "yes"])
            TaskSet('arrays', tasks=['a'], sizes=[4])
        """
        from metasched.tasks.assemble import all_parts, classification

        return classification(name, all_parts(tasks, validation, test), classes, allow_overlap)

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
        """Build a task set whose rows have numbers to predict.

        A learner fits the targets. A scheduler sees, as the label of a row, the bin of the *first* number of its
        target. Bin edges are quantiles of this number over the rows of all sources together, so bins have about equally
        many source rows. The target's own rows do not influence them. Equal numbers share a bin, so with many ties
        there are fewer than ``bins``. Classes are named by the range of their bin.

        Args:
            tasks: for each name, in order, a pair of inputs ``(n, *shape)``, as in :meth:`from_arrays`, and targets
                ``(n, d)`` or ``(n,)``.
            validation: inputs and targets of the target rows that a learner may use.
            test: inputs and targets of the target rows that are used only for measuring.
            bins: the number of bins.
            name: the name of the set.
            allow_overlap: allow rows that are both validation and test rows.

        Returns:
            The task set.

        Examples:
            >>> def measured(count):
            ...     inputs = random.normal(size=(count, 3))
            ...     return inputs, inputs.sum(axis=1)
            >>> numbers = ms.TaskSet.regression({"a": measured(50)}, validation=measured(9), test=measured(9), bins=5)
            >>> numbers.target_size, len(numbers.classes)
            (1, 5)
        """
        from metasched.tasks.assemble import all_parts, regression

        return regression(name, all_parts(tasks, validation, test), bins, allow_overlap)

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
        keep: Sequence[str] = (),
        missing: str | None = None,
        standardise: bool = True,
        regression: bool | None = None,
        bins: int = 10,
        name: str = "frame",
        allow_overlap: bool = False,
    ) -> "TaskSet":
        """Build a task set from a pandas or polars data frame, or any other object that exports Arrow tables.

        Needs the extra ``tables``. The options are those of :func:`metasched.datasets.from_columns`.

        Args:
            frame: a frame with a column ``source`` that names the source of each row, or a mapping from sources to
                frames.
            target: the source that is the target.
            target_labels: how many of its rows are used for validation.
            seed: the seed that draws these rows.
            label: the column to predict.
            source: the column that names the source of a row.
            categorical: columns of numbers that stand for categories.
            drop: columns to leave out.
            keep: columns to use although they look like row numbers.
            missing: ``"mean"`` fills empty cells; by default they are an error.
            standardise: scale numbers to mean 0 and standard deviation 1 over the source rows.
            regression: whether to predict numbers; by default only if the labels are numbers that are not all whole.
            bins: number of bins of these numbers, which schedulers see as labels.
            name: the name of the set.
            allow_overlap: allow rows that are both validation and test rows.

        Returns:
            The task set.

        Examples:
            >>> import pyarrow
            >>> visits = {"shop": ["a", "a", "b", "b"] * 5, "age": range(20), "bought": ["yes", "no"] * 10}
            >>> ms.TaskSet.from_frame(pyarrow.table(visits), target="b", source="shop", label="bought")
            TaskSet('frame', tasks=['a'], sizes=[10])
        """
        from metasched.tasks import assemble, frames

        goal = assemble.Goal(target, target_labels, seed, label, regression, bins, allow_overlap)
        preparation = {"categorical": categorical, "missing": missing, "standardise": standardise, "keep": keep}
        return frames.from_frame(name, frame, source, drop, goal, preparation)

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
        keep: Sequence[str] = (),
        missing: str | None = None,
        standardise: bool = True,
        regression: bool | None = None,
        bins: int = 10,
        name: str = "huggingface",
        allow_overlap: bool = False,
    ) -> "TaskSet":
        """Build a task set from Hugging Face data sets, one for each source.

        Columns of numbers and text are read like those of a frame. Classes have the names that the column ``label``
        gives them.

        Args:
            datasets: a mapping from sources to data sets.
            target: the source that is the target.
            target_labels: how many of its rows are used for validation.
            seed: the seed that draws these rows.
            label: the column to predict.
            inputs: a single column of images or arrays to learn from.
            categorical: as in :meth:`from_frame`.
            drop: as in :meth:`from_frame`.
            keep: as in :meth:`from_frame`.
            missing: as in :meth:`from_frame`.
            standardise: as in :meth:`from_frame`.
            regression: as in :meth:`from_frame`.
            bins: as in :meth:`from_frame`.
            name: the name of the set.
            allow_overlap: allow rows that are both validation and test rows.

        Returns:
            The task set.

        Examples:
            >>> from datasets import Dataset
            >>> a = Dataset.from_dict({"length": range(10), "label": ["short", "long"] * 5})
            >>> b = Dataset.from_dict({"length": range(5, 15), "label": ["short", "long"] * 5})
            >>> ms.TaskSet.from_huggingface({"a": a, "b": b}, target="b")
            TaskSet('huggingface', tasks=['a'], sizes=[10])
        """
        from metasched.tasks import assemble, frames

        goal = assemble.Goal(target, target_labels, seed, label, regression, bins, allow_overlap)
        preparation = {"categorical": categorical, "missing": missing, "standardise": standardise, "keep": keep}
        return frames.from_huggingface(name, datasets, inputs, drop, goal, preparation)

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

        Inputs are used as they are (``uint8`` is divided by 255), except that images (channels, height, width) become
        (height, width, channels).

        Args:
            datasets: a mapping from sources to data sets. Labels are numbers or text.
            target: the source that is the target, divided as by :func:`metasched.datasets.from_columns`.
            target_labels: how many of its rows are used for validation.
            seed: the seed that draws these rows.
            classes: the names of numbered labels; by default the data set's attribute ``classes``.
            regression: whether to predict numbers; by default only if the labels are not all whole numbers.
            bins: number of bins of these numbers, which schedulers see as labels.
            name: the name of the set.
            allow_overlap: allow rows that are both validation and test rows.

        Returns:
            The task set.

        Examples:
            >>> import torch
            >>> from torch.utils.data import TensorDataset
            >>> photos = TensorDataset(torch.rand(10, 3), torch.arange(10) % 2)
            >>> sketches = TensorDataset(torch.rand(10, 3), torch.arange(10) % 2)
            >>> ms.TaskSet.from_torch({"photos": photos, "sketches": sketches}, target="sketches")
            TaskSet('torch', tasks=['photos'], sizes=[10])
        """
        from metasched.tasks import assemble, frames

        goal = assemble.Goal(target, target_labels, seed, "label", regression, bins, allow_overlap)
        return frames.from_torch(name, datasets, classes, goal)

    @property
    def target_size(self) -> int | None:
        """How many numbers a target has; None in classification."""
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

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks wrong with the rows, one line each: labels that look misspelt, too few rows of the target."""
        return (*self.label_warnings, *checks.few_rows(self))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over names, classes and all arrays. Equal data have equal fingerprints, whatever they were built
        from.
        """
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
        """List every part of the set.

        Returns:
            The name, rows and classes of the tasks in order, then of validation and test.
        """
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
        """Make a changed copy, reproducible from ``seed``. Each change has its own random stream.

        Args:
            target_labels: keep this many validation rows, stratified by class, in their order.
            noise: for each named task, the fraction of its rows whose labels (and targets, if any) are shuffled among
                them. The numbers of labels do not change. At 1.0, inputs and labels are unrelated.
            shuffle_order: shuffle the rows of every task, inputs together with labels, so that the order carries no
                information.
            seed: a whole number from 0 to 2³² − 1.

        Returns:
            A new task set; this one is not changed.

        Examples:
            >>> few = tasks.variant(target_labels=6, noise={"south": 1.0})
            >>> len(few.validation.labels)
            6
        """
        given = {"target_labels": target_labels, "noise": noise, "shuffle_order": shuffle_order, "seed": seed}
        checks.check_options(TaskSet.variant, given)
        check_seed(seed)
        result = replace(self, recipe=None)
        if target_labels is not None:
            result = variants.with_target_labels(result, target_labels, seed)
        for name, fraction in (noise or {}).items():
            result = variants.with_label_noise(result, name, fraction, seed)
        return variants.with_shuffled_order(result, seed) if shuffle_order else result

    def redrawn(self, seed: int) -> "TaskSet":
        """Draw the validation and test rows again from the two together; the sources stay the same.

        As many rows are for validation as before, in proportion to the labels. Rows with the same input and label end
        up in the same part, unless this set already has such rows in both parts. A few test rows may be left out for
        this. The number of rows of each part is the same for every seed.

        Args:
            seed: decides which rows; a whole number from 0 to 2³² − 1.

        Returns:
            Another task set, with the same ``tasks`` object.

        Examples:
            >>> again = tasks.redrawn(3)
            >>> again.tasks is tasks.tasks, len(again.validation.labels) == len(tasks.validation.labels)
            (True, True)
        """
        return redraw.redrawn(self, seed)

    def all_labelled(self) -> "TaskSet":
        """Use all labelled rows of the target for validation, and none for test. The sources stay the same.

        Returns:
            Another task set, with the same ``tasks`` object.

        Examples:
            >>> every = tasks.all_labelled()
            >>> len(every.validation.labels) == len(tasks.validation.labels) + len(tasks.test.labels)
            True
        """
        return redraw.all_labelled(self)

    def held_out(self, rows: RowNumbers) -> "TaskSet":
        """Use some validation rows as the test rows, and drop the old test rows. The sources stay the same.

        Args:
            rows: the numbers of validation rows.

        Returns:
            Another task set, with the same ``tasks`` object.

        Examples:
            >>> fold = tasks.held_out(np.arange(5))
            >>> len(fold.test.labels), len(fold.validation.labels) == len(tasks.validation.labels) - 5
            (5, True)
        """
        return redraw.held_out(self, rows)

    def with_irrelevant(self, name: str, *, seed: int = 0) -> "TaskSet":
        """Make a copy in which one task is useless: its inputs are scrambled in the same way for all rows.

        Args:
            name: the task. It can still be learned, but does not help any other task.
            seed: the seed that draws the order of the values.

        Returns:
            Another task set.

        Examples:
            >>> bool(np.array_equal(tasks.with_irrelevant("south").tasks[1].labels, tasks.tasks[1].labels))
            True
        """
        task = variants.task_named(self, name)
        order = np.random.default_rng(check_seed(seed)).permutation(task.inputs[0].size)
        inputs = task.inputs.reshape(len(task), -1)[:, order].reshape(task.inputs.shape)
        scrambled = replace(task, inputs=inputs)
        return variants.replace_task(self, scrambled, "the values of every input are in the same random order")

    def with_wrong_labels(self, name: str, *, shift: int = 1) -> "TaskSet":
        """Make a copy in which one task misleads: its label k becomes k + ``shift``, modulo the number of its classes.

        Args:
            name: the name of the task.
            shift: how far labels are moved.

        Returns:
            Another task set.

        Examples:
            >>> wrong = tasks.with_wrong_labels("south").tasks[1]
            >>> bool((wrong.labels == 1 - tasks.tasks[1].labels).all())
            True
        """
        task = variants.task_named(self, name)
        number = len(task.classes)
        if self.target_size is not None:
            raise ConfigError("wrong labels need classes; in regression, labels are only bins")
        if shift % number == 0:
            raise ConfigError(f"shift is {shift}, which does not change the {number} labels; give another number")
        labels = ((task.labels + shift) % number).astype(np.int32)
        return variants.replace_task(self, replace(task, labels=labels), f"every label k became k + {shift}")

    def by_class(self, *, pooled: bool = False) -> "TaskSet":
        """Make classes the tasks, with rows in their order. Any scheduler then chooses among classes.

        Args:
            pooled: if true, every class becomes a task ``class`` with its rows of all tasks, one task after another.
                This needs shared labels. Otherwise every pair of a task and a class that has rows becomes a task
                ``task/class``.

        Returns:
            Another task set.

        Examples:
            >>> [task.name for task in tasks.by_class().tasks]
            ['north/calm', 'north/storm', 'south/calm', 'south/storm']
        """
        return variants.by_class(self, pooled)

    def summary(self) -> str:
        """Summarise the set.

        Returns:
            A few lines of text.

        Examples:
            >>> print(tasks.summary().splitlines()[0])
            arrays: 2 tasks, 100 rows, inputs 4, 2 classes (shared)
        """
        return overview.summary(self)

    def to_frame(self) -> Any:
        """Make a pandas DataFrame with a row for each part: every source, the target's validation rows and its test
        rows.

        Returns:
            The frame, with the name of the part, the number of its rows, their origin, and the number of rows of each
            label.

        Examples:
            >>> tasks.to_frame()["rows"].tolist()
            [40, 60, 12, 50]
        """
        return require("pandas").DataFrame(overview.records(self))

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"TaskSet({self.name!r}, tasks={[task.name for task in self.tasks]}, sizes={list(self.sizes)})"

    def _repr_html_(self) -> str:
        return overview.html(self)
