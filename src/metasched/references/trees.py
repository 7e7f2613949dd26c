"""Forests and gradient boosting as plain arrays, which any program can store and NumPy can evaluate.

The nodes of all trees are numbered level by level: first the T roots, then the children of the roots, and so on. The
children of the i-th inner node are then nodes T + 2i and T + 2i + 1, so no array of children is needed, and every node
has exactly one parent by construction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

Floats: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = NDArray[np.int32]

DEEPEST = 256
"""The most levels below the root. A tree of a forest has about twenty. The limit keeps a hostile file from costing
hours.
"""
MOST_VALUES = 2**24
"""The most trees times the outputs of a leaf. This many numbers are added for one row."""
_AT_ONCE = 2**18
"""The number of leaves that are gathered at once."""


class Tree(NamedTuple):
    """A tree with nodes in any order: children (−1 at a leaf), feature, threshold, and values (nodes, v)."""

    left: NDArray[Any]
    right: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[Any]
    values: Floats


@dataclass(frozen=True, eq=False)
class Trees:
    """T trees over r raw outputs.

    A row goes left at an inner node if its feature is at most the threshold. Its raw outputs are ``start`` plus the sum
    of the values of the leaves that it reaches. In a forest, where ``start`` is 0, they are the mean of these values. A
    leaf has r values, or only one. In this case tree t adds to output t mod r.

    Attributes:
        feature: (nodes,) what an inner node compares; −1 at a leaf.
        threshold: (inner nodes,) float32. Inputs are float32 too, so thresholds can be rounded down without changing
            any comparison.
        leaf: (leaves,) the row of ``values`` of each leaf. Most leaves of a forest are pure, and share a few rows.
        values: (m, r) or (m, 1).
        start: (r,).
        columns: (c,) the classes of the raw outputs, rising. Other classes have probability 0. With r = 1 and c = 2 the
            first class has the raw output 0. In regression 0 … r − 1.
        averaged: whether this is a forest. The raw outputs of a forest are probabilities. Those of boosting become
            probabilities by softmax.
    """

    feature: Numbers
    threshold: NDArray[np.float32]
    leaf: Numbers
    values: Floats
    start: Floats
    columns: Numbers
    averaged: bool

    @cached_property
    def count(self) -> int:
        """The number of trees."""
        return len(self.feature) - 2 * len(self.threshold)

    @cached_property
    def _steps(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """For each node its left child or, at a leaf, its row of values; and the threshold."""
        inner = self.feature >= 0
        goes, limits = np.empty(len(inner), np.int64), np.zeros(len(inner), np.float32)
        goes[inner] = self.count + 2 * np.arange(len(self.threshold))
        goes[~inner] = self.leaf
        limits[inner] = self.threshold
        return goes, limits

    def raw(self, rows: NDArray[np.float32]) -> Floats:
        """Raw outputs (n, r) of rows (n, d)."""
        block = max(1, _AT_ONCE // (self.count * self.values.shape[1]))
        parts = [self._sums(rows[first : first + block]) for first in range(0, len(rows), block)]
        return self.start + np.concatenate(parts) / (self.count if self.averaged else 1)

    def outputs(self, rows: NDArray[np.float32], classes: int) -> Floats:
        """Probabilities (n, classes) of rows (n, d); in regression, where ``classes`` is 0, numbers (n, r)."""
        raw = self.raw(rows)
        if not classes:
            return raw
        found = np.zeros((len(rows), classes))
        if not self.averaged:
            if raw.shape[1] < len(self.columns):
                raw = np.column_stack([np.zeros(len(raw)), raw])
            raw = softmax(raw, axis=1)
        found[:, self.columns] = raw
        return found

    def _sums(self, rows: NDArray[np.float32]) -> Floats:
        reached = self.values[self._leaves(rows)]
        if self.values.shape[1] == len(self.start):
            return np.asarray(reached.sum(axis=1))
        return np.asarray(reached.reshape(len(rows), -1, len(self.start)).sum(axis=1))

    def _leaves(self, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        """The row of ``values`` (n, T) that each row reaches in each tree. All pairs go down one level at a time."""
        goes, limits = self._steps
        flat, width = np.ascontiguousarray(rows).ravel(), rows.shape[1]
        node = np.tile(np.arange(self.count), len(rows))
        begin = np.repeat(np.arange(len(rows)) * width, self.count)
        pair = np.arange(len(node))
        found = np.empty(len(node), np.int64)
        while len(node):
            compared = self.feature[node]
            inner = compared >= 0
            found[pair[~inner]] = goes[node[~inner]]
            node, begin, pair, compared = node[inner], begin[inner], pair[inner], compared[inner]
            node = goes[node] + (flat[begin + compared] > limits[node])
        return found.reshape(len(rows), self.count)

    def fault(self, features: int, classes: int) -> str | None:
        """What is wrong with arrays from an untrusted file, or None. ``classes`` is 0 in regression."""
        inner = np.flatnonzero(self.feature >= 0)
        trees, raw, width = self.count, len(self.start), self.values.shape[1]
        if trees < 1 or len(inner) != len(self.threshold) or len(self.leaf) != len(self.feature) - len(inner):
            return "its trees have too many or too few nodes"
        if trees * width > MOST_VALUES:
            return f"it has {trees:,} trees with {width:,} values a leaf"
        if self.feature.min() < -1 or self.feature.max() >= features:
            return f"a tree uses a feature that does not exist; inputs have {features}"
        if not np.all(trees + 2 * np.arange(len(inner)) > inner):
            return "a node of a tree is its own child or comes after its children"
        if _levels(inner, trees) > DEEPEST:
            return f"a tree has more than {DEEPEST} levels"
        if not len(self.values) or self.leaf.min() < 0 or self.leaf.max() >= len(self.values):
            return "a leaf refers to values that do not exist"
        if raw < 1 or width not in (1, raw) or (width < raw and trees % raw):
            return "leaves have too many or too few values"
        few, wide = classes == 0, len(self.columns)
        falls = self.columns[1:] <= self.columns[:-1]  # a difference could overflow
        if (few and not np.array_equal(self.columns, np.arange(raw))) or (wide != raw and (raw, wide) != (1, 2)):
            return "its outputs are not those of the model"
        if not few and (self.columns[0] < 0 or self.columns[-1] >= classes or np.any(falls)):
            return "its classes are not those of the model"
        if self.averaged and (wide != raw or np.any(self.start)):
            return "its outputs are not those of a forest"
        return None


def _levels(inner: NDArray[np.int64], trees: int) -> int:
    """The levels below the roots, counted up to one more than allowed. ``inner`` has the numbers of inner nodes."""
    end = trees
    for level in range(DEEPEST + 1):
        below = trees + 2 * int(np.searchsorted(inner, end))
        if below == end:
            return level
        end = below
    return DEEPEST + 1


def join(trees: Sequence[Tree], start: ArrayLike, columns: ArrayLike, *, averaged: bool) -> Trees:
    """Join trees with nodes in any order into arrays, numbered level by level."""
    offsets = np.cumsum([0, *(len(tree.feature) for tree in trees[:-1])])
    together = [np.concatenate(parts) for parts in zip(*trees, strict=True)]
    _, _, feature, threshold, values = together
    left, right = (
        np.concatenate([np.where(side < 0, -1, side + offset) for side, offset in zip(sides, offsets, strict=True)])
        for sides in ([tree.left for tree in trees], [tree.right for tree in trees])
    )
    level, levels = offsets, []
    while len(level):
        levels.append(level)
        inner = level[left[level] >= 0]
        level = np.column_stack([left[inner], right[inner]]).ravel()
    order = np.concatenate(levels)
    is_inner = left[order] >= 0
    distinct, leaf = np.unique(values[order][~is_inner], axis=0, return_inverse=True)
    return Trees(
        np.where(is_inner, feature[order], -1).astype(np.int32),
        rounded_down(threshold[order][is_inner]),
        leaf.ravel().astype(np.int32),
        np.ascontiguousarray(distinct, np.float64),
        np.asarray(start, np.float64),
        np.asarray(columns, np.int32),
        averaged,
    )


def rounded_down(thresholds: Floats) -> NDArray[np.float32]:
    """The largest float32 that is at most each number. A float32 input is at most both of them, or above both."""
    largest = np.finfo(np.float32).max
    near = np.clip(thresholds, -largest, largest).astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float32)


# Reading the estimators of scikit-learn


def of_forest(forest: Any, columns: ArrayLike) -> Trees:
    """Read a fitted ``RandomForestClassifier`` or ``RandomForestRegressor``. ``columns`` are its classes."""
    trees = []
    for estimator in forest.estimators_:
        tree = estimator.tree_
        values = np.asarray(tree.value, np.float64).reshape(tree.node_count, -1)
        trees.append(Tree(tree.children_left, tree.children_right, tree.feature, tree.threshold, values))
    return join(trees, np.zeros(trees[0].values.shape[1]), columns, averaged=True)


def of_boosting(boosters: Sequence[Any], columns: ArrayLike, edges: Sequence[Floats] | None = None) -> Trees:
    """Read fitted ``HistGradientBoosting…``: one classifier, or one regressor for each number to predict.

    With ``edges`` they were fitted on the numbers of bins. For each feature these are the upper edges of all bins but
    the last.
    """
    trees = []
    # All boosters have the same number of rounds. A round has a tree for each output.
    for rounds in zip(*(booster._predictors for booster in boosters), strict=True):
        trees += [_tree_of_boosting(predictor.nodes, edges) for predictors in rounds for predictor in predictors]
    start = np.concatenate([np.ravel(booster._baseline_prediction) for booster in boosters])
    return join(trees, start, columns, averaged=False)


def _tree_of_boosting(nodes: NDArray[Any], edges: Sequence[Floats] | None) -> Tree:
    leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    values = nodes["value"].astype(np.float64)[:, None]
    feature, threshold = nodes["feature_idx"].astype(np.int64), nodes["num_threshold"].astype(np.float64)
    if edges is not None:
        for node in np.flatnonzero(~leaf):  # a threshold lies between the numbers of two bins
            threshold[node] = edges[feature[node]][int(threshold[node])]
    return Tree(left, right, feature, threshold, values)
