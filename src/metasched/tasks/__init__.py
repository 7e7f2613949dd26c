"""Task sets: N ordered, labelled tasks, and the target they should help with.

A task is a sequence of rows in a meaningful order. The target has two sets of rows: *validation*, whose labels the
meta-learner may use, and *test*, which only measures. Everything here is an immutable value in host memory;
:class:`TaskSet` refuses, when it is built, whatever would train garbage.
"""

from metasched.tasks.arrays import Inputs, Labels, RowNumbers, Targets, as_inputs, as_targets, from_pixels
from metasched.tasks.bins import bin_edges
from metasched.tasks.checks import refuse_overlap
from metasched.tasks.preparation import Column, Columns, Place, Preparation
from metasched.tasks.provenance import Provenance
from metasched.tasks.task import TEST, VALIDATION, Split, Task
from metasched.tasks.taskset import TaskSet
from metasched.tasks.variants import few_labels, stratified_rows

__all__ = [
    "TEST",
    "VALIDATION",
    "Column",
    "Columns",
    "Inputs",
    "Labels",
    "Place",
    "Preparation",
    "Provenance",
    "RowNumbers",
    "Split",
    "Targets",
    "Task",
    "TaskSet",
    "as_inputs",
    "as_targets",
    "bin_edges",
    "few_labels",
    "from_pixels",
    "refuse_overlap",
    "stratified_rows",
]
