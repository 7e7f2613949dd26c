"""Task sets: N ordered, labelled tasks, and the target they should help with.

A task is a sequence of rows in a meaningful order. The target has two sets of rows: *validation*, whose labels a
learner may use, and *test*, on which it is only evaluated. Everything here is an immutable value in host memory. When a
:class:`TaskSet` is built, it refuses data from which nothing useful could be learned.
"""

from metasched.tasks.arrays import Inputs, Labels, RowNumbers, Targets, as_inputs, as_targets, bin_edges, from_pixels
from metasched.tasks.checks import refuse_overlap
from metasched.tasks.preparation import Preparation, RowName
from metasched.tasks.task import TEST, VALIDATION, Provenance, Split, Task, Unlabelled
from metasched.tasks.taskset import TaskSet
from metasched.tasks.variants import few_labels, stratified_rows

__all__ = [
    "TEST",
    "VALIDATION",
    "Inputs",
    "Labels",
    "Preparation",
    "Provenance",
    "RowName",
    "RowNumbers",
    "Split",
    "Targets",
    "Task",
    "TaskSet",
    "Unlabelled",
    "as_inputs",
    "as_targets",
    "bin_edges",
    "few_labels",
    "from_pixels",
    "refuse_overlap",
    "stratified_rows",
]
