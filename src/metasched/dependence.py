"""Does the order of labels carry information? Transitions between neighbouring labels, and tests on them.

Counts are *circular*: the step from the last row to the first counts, because a task's cursor wraps around. So every
label that occurs has as many successors as rows, and the transition matrix is stochastic by construction.

A small p-value says that the labels are not exchangeable: the order in the file is unlike that of a shuffled file. That
is necessary for Markov dependence, but far from sufficient. Slow drift, sorted files and block designs also give small
p-values. So the verdict looks for drift first, and never claims more than was tested.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from metasched.errors import ConfigError, DataError, number, whole_number
from metasched.seeds import check_seed

__all__ = [
    "Association",
    "OrderTest",
    "cross_task_association",
    "holm",
    "independence_test",
    "transition_counts",
    "transition_matrix",
]

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]

MOST_CLASSES = 4096
"""The largest number of labels. The transition table of more labels, with its copies, would not fit into memory."""
SHUFFLES_AT_ONCE = 1000
NUMBERS_AT_ONCE = 2**25
"""The most rows or table cells of all shuffles that are in memory at once."""
ROUNDING = 1e-9
"""Two statistics this close, relative to the number of rows, count as equal. A tie counts against order."""


@dataclass(frozen=True, eq=False)
class OrderTest:
    """The result of testing the order of one task's labels.

    Attributes:
        rows: n.
        counts: transitions (C, C).
        statistic: Pearson's χ² of the transitions against independence.
        p_value: share of shuffles with a χ² at least as large (the observed order counts as one of them).
        asymptotic_p_value: of the χ² distribution with (k − 1)² degrees of freedom, as the paper computes it. For
            skewed or short sequences it is too small too often, so it is shown only for comparison.
        stickiness: share of rows followed by the same label.
        expected_stickiness: the same share in shuffled labels.
        stickiness_p_value: two-sided, by shuffling.
        drift_p_value: whether label frequencies differ between blocks of the sequence, by shuffling.
        local_p_value: the χ² of transitions against shuffles *within* blocks, which keep any slow drift.
        cramers_v: effect size √(χ² / (n (k − 1))), 0 for independence and 1 for a deterministic successor.
        expected_cramers_v: its mean over shuffles. A value that is not above this shows no effect.
        total_variation: mean distance ½‖P(a, ·) − P(b, ·)‖₁ between rows of the transition matrix, weighted by how
            often their labels occur.
        alpha: the level of the verdict.

    Examples:
        >>> order = ms.dependence.independence_test([0, 0, 0, 1, 1, 1] * 20, permutations=999)
        >>> float(order.p_value), order.transitions.round(2).tolist()
        (0.001, [[0.67, 0.33], [0.33, 0.67]])
    """

    rows: int
    counts: Counts
    statistic: float
    p_value: float
    asymptotic_p_value: float
    stickiness: float
    expected_stickiness: float
    stickiness_p_value: float
    drift_p_value: float
    local_p_value: float
    cramers_v: float
    expected_cramers_v: float
    total_variation: float
    alpha: float = 0.05

    @property
    def transitions(self) -> Floats:
        """The transition matrix (C, C) of the counts. Labels that never occur have rows of zeros."""
        return _shares(self.counts)

    def verdict(self, p_value: float | None = None) -> str:
        """Say in a sentence what the test shows.

        Args:
            p_value: a p-value that was corrected over several tasks, to use in place of ``self.p_value``.

        Returns:
            A sentence.

        Examples:
            >>> ms.dependence.independence_test([0, 0, 0, 1, 1, 1] * 20, permutations=999).verdict()
            'neighbouring labels depend on each other (p = 0.001); a label repeats more often than by chance'
        """
        p = self.p_value if p_value is None else p_value
        drifts, sticky = self.drift_p_value < self.alpha, self.stickiness_p_value < self.alpha
        if p >= self.alpha:
            return f"no sign that order carries information (p = {p:.2g})"
        if self.local_p_value >= self.alpha:
            why = "label frequencies drift along the file" if drifts else "the effect is not between close neighbours"
            return f"order is not random (p = {p:.2g}), but {why}; neighbours inside a block look exchangeable"
        direction = "more" if self.stickiness > self.expected_stickiness else "less"
        extra = f"; a label repeats {direction} often than by chance" if sticky else ""
        extra += "; frequencies also drift" if drifts else ""
        return f"neighbouring labels depend on each other (p = {p:.2g}){extra}"


@dataclass(frozen=True, eq=False)
class Association:
    """Whether labels at the same position of two tasks depend on each other, for every pair.

    Attributes:
        p_value: (N, N), Pearson's χ² compared with that of every circular shift of one task against the other, which
            keeps the order inside each; the diagonal is 1.
        cramers_v: (N, N), the effect size; the diagonal is 1.

    Examples:
        >>> weather = random.integers(0, 2, 200)
        >>> ms.dependence.cross_task_association([weather, weather], 2).p_value[0, 1] < 0.05
        np.True_
    """

    p_value: Floats
    cramers_v: Floats


def transition_counts(labels: ArrayLike, num_classes: int) -> Counts:
    """Count how often label a is followed by label b, circularly.

    Args:
        labels: (n,) in order.
        num_classes: C.

    Returns:
        Counts N (C, C), int64; rows and columns sum to the label counts.

    Examples:
        >>> ms.dependence.transition_counts([0, 0, 1, 1, 1], 2).tolist()
        [[1, 1], [1, 2]]
    """
    y = _as_labels(labels, num_classes)
    codes = y * num_classes + np.roll(y, -1)
    return np.bincount(codes, minlength=num_classes**2).reshape(num_classes, num_classes)


def transition_matrix(labels: ArrayLike, num_classes: int, *, smoothing: float = 0.0, stride: int = 1) -> Floats:
    """Compute P(a, b) = N(a, b) / n(a), the probability that label b follows label a.

    A label that never occurs has a row of zeros, and no other label leads to it, with or without smoothing. All other
    rows sum to one.

    Args:
        labels: (n,) in order.
        num_classes: C.
        smoothing: the sum of the pseudo-counts added to each row. They are spread evenly over the labels that occur.
        stride: how many rows the cursor moves at once. The chain of batch starts is the power P^stride.

    Returns:
        P (C, C).

    Examples:
        >>> ms.dependence.transition_matrix([0, 0, 1, 1], 2, stride=2).tolist()
        [[0.5, 0.5], [0.5, 0.5]]
    """
    number("smoothing", smoothing, least=0)
    whole_number("stride", stride, 1)
    counts = transition_counts(labels, num_classes).astype(np.float64)
    occurs = counts.sum(axis=1) > 0
    counts += smoothing / occurs.sum() * np.outer(occurs, occurs)
    return np.linalg.matrix_power(_shares(counts), stride)


def independence_test(
    labels: ArrayLike,
    num_classes: int | None = None,
    *,
    permutations: int = 10_000,
    blocks: int = 10,
    seed: int = 0,
    alpha: float = 0.05,
) -> OrderTest:
    """Test whether the order of labels carries information, by shuffling them.

    With circular counts N, both margins are the label counts n(a) in any order. So Pearson's statistic is
    χ² = Σ N(a, b)² / E(a, b) − n, and E(a, b) = n(a) n(b) / n is the same for the data and every shuffle. The
    permutation test is exact for exchangeable labels, whatever their distribution and number.

    Args:
        labels: (n,) in order.
        num_classes: C; by default the largest label plus one.
        permutations: the number of shuffles.
        blocks: the number of equal parts of the sequence that are compared to detect drift.
        seed: the seed of the shuffles.
        alpha: the level of the verdict.

    Returns:
        p-values, effect sizes and a verdict.

    Examples:
        >>> ms.dependence.independence_test([0, 0, 0, 1, 1, 1] * 20, permutations=999).p_value < 0.05
        np.True_
    """
    if permutations < 1 or blocks < 1:
        raise ConfigError(f"permutations is {permutations} and blocks {blocks}; give at least 1 of each")
    original = _integers(labels)
    classes = num_classes if num_classes is not None else int(original.max()) + 1
    present, y = np.unique(_as_labels(original, classes), return_inverse=True)
    n, k = len(y), len(present)
    frequency = np.bincount(y, minlength=k)
    block = np.arange(n) * min(blocks, n) // n
    random = np.random.default_rng(check_seed(seed))

    def transitions(orders: Counts) -> Floats:
        return _chi_squared(_tables(orders, np.roll(orders, -1, axis=1), k, k), frequency, frequency)

    def repeats(orders: Counts) -> Counts:
        return np.asarray(np.count_nonzero(orders == np.roll(orders, -1, axis=1), axis=1))

    def drift(orders: Counts) -> Floats:
        return _chi_squared(_tables(block, orders, int(block[-1]) + 1, k), np.bincount(block), frequency)

    def shuffle_blocks(orders: Counts) -> None:
        for index in range(int(block[-1]) + 1):
            inside = slice(*np.searchsorted(block, [index, index + 1]))
            orders[:, inside] = random.permuted(orders[:, inside], axis=1)

    observed, stays = transitions(y[None]), repeats(y[None])
    samples = [
        (transitions(orders), repeats(orders), drift(orders))
        for orders in _shuffles(y, k, permutations, lambda orders: random.permuted(orders, axis=1, out=orders))
    ]
    chi_squared, all_stays, all_drift = map(np.concatenate, zip(*samples, strict=True))
    local = np.concatenate([transitions(orders) for orders in _shuffles(y, k, permutations, shuffle_blocks)])
    more_or_less = _p_value(stays, all_stays, n), _p_value(-stays, -all_stays, n)
    return OrderTest(
        rows=n,
        counts=transition_counts(original, classes),
        statistic=float(observed[0]),
        p_value=_p_value(observed, chi_squared, n),
        asymptotic_p_value=float(chdtrc((k - 1) ** 2, max(observed[0], 0.0))) if k > 1 else 1.0,
        stickiness=float(stays[0]) / n,
        expected_stickiness=float(np.mean(all_stays)) / n,
        stickiness_p_value=min(1.0, 2 * min(more_or_less)),
        drift_p_value=_p_value(drift(y[None]), all_drift, n),
        local_p_value=_p_value(observed, local, n),
        cramers_v=float(_cramers_v(observed, n, k)[0]),
        expected_cramers_v=float(np.mean(_cramers_v(chi_squared, n, k))),
        total_variation=_total_variation(transition_counts(y, k), frequency),
        alpha=alpha,
    )


def holm(p_values: ArrayLike) -> Floats:
    """Correct p-values by Holm's method: if you reject those below α, the chance of any false rejection is at most α.

    The i-th smallest is multiplied by m − i + 1, and is at least as large as the ones before it (S. Holm, Scandinavian
    Journal of Statistics 6, 1979).

    Args:
        p_values: (m,).

    Returns:
        The corrected p-values (m,), in the same order.

    Examples:
        >>> ms.dependence.holm([0.01, 0.04, 0.03]).round(2).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise DataError(f"p_values are {p.tolist()}; give a list of probabilities")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
    return adjusted


def cross_task_association(sequences: Sequence[ArrayLike], num_classes: int) -> Association:
    """Test whether labels at the same position depend on each other, for every pair of sequences.

    If two sequences differ in length, the longer one is cut. The counts of label pairs at all circular shifts are
    computed as a cross-correlation of indicators, by fast Fourier transform.

    Args:
        sequences: N arrays of labels.
        num_classes: C, the same for all.

    Returns:
        p-values and effect sizes (N, N).

    Examples:
        >>> one, other = random.integers(0, 3, (2, 300))
        >>> ms.dependence.cross_task_association([one, other, one], 3).cramers_v[0, 2].round(6)
        np.float64(1.0)
    """
    ys = [_as_labels(labels, num_classes) for labels in sequences]
    p, v = np.ones((len(ys), len(ys))), np.ones((len(ys), len(ys)))
    for i, first in enumerate(ys):
        for j, second in enumerate(ys[:i]):
            p[i, j], v[i, j] = p[j, i], v[j, i] = _associate(first, second)
    return Association(p, v)


def _associate(first: Counts, second: Counts) -> tuple[float, float]:
    n = min(len(first), len(second))
    (a, x), (b, y) = (np.unique(labels[:n], return_inverse=True) for labels in (first, second))
    one, two = (np.fft.rfft(np.eye(size)[codes], axis=0) for size, codes in ((len(a), x), (len(b), y)))
    tables = np.fft.irfft(one.conj()[:, :, None] * two[:, None, :], n=n, axis=0).round()
    expected = np.outer(np.bincount(x), np.bincount(y)) / n
    chi_squared = (tables**2 / expected).sum(axis=(1, 2)) - n
    effect = _cramers_v(chi_squared[:1], n, min(len(a), len(b)))
    return _p_value(chi_squared[:1], chi_squared[1:], n), float(effect[0])


def _integers(labels: ArrayLike) -> NDArray[np.integer[Any]]:
    try:
        y = np.asarray(labels)
    except ValueError:
        raise DataError("labels are lists of different lengths; give one or more integers in a row") from None
    if y.ndim != 1 or not len(y) or y.dtype.kind not in "iu":
        raise DataError(f"labels have shape {y.shape} and dtype {y.dtype}; give one or more integers in a row")
    return y


def _as_labels(labels: ArrayLike, num_classes: int) -> Counts:
    y = _integers(labels)
    if not 1 <= num_classes <= MOST_CLASSES:
        raise DataError(f"there are {num_classes} classes; give 1 … {MOST_CLASSES}, numbered from 0 without gaps")
    wrong = np.flatnonzero((y < 0) | (y >= num_classes))
    if wrong.size:
        raise DataError(f"labels[{wrong[0]}] is {y[wrong[0]]}, outside 0 … {num_classes - 1}; give more classes")
    return y.astype(np.int64)


def _shares(counts: Floats | Counts) -> Floats:
    """Each row (C,) of counts divided by its sum; a row of zeros stays as it is."""
    totals = counts.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(counts, totals, out=np.zeros(counts.shape), where=totals > 0)
    return shares


def _shuffles(y: Counts, classes: int, count: int, shuffle: Callable[[Counts], object]) -> Iterator[Counts]:
    """Yield shuffled copies (m, n) of ``y``, as many at a time as fit into memory with their tables."""
    together = min(SHUFFLES_AT_ONCE, max(1, NUMBERS_AT_ONCE // max(len(y), classes**2)))
    for begin in range(0, count, together):
        orders = np.repeat(y[None], min(together, count - begin), axis=0)
        shuffle(orders)
        yield orders


def _tables(first: Counts, second: Counts, rows: int, columns: int) -> Counts:
    """Count how often value a of the first sequence meets value b of the second: tables (m, rows, columns) of m pairs
    (n,).
    """
    m = len(second)
    codes = first * columns + second + np.arange(m)[:, None] * rows * columns
    return np.bincount(codes.ravel(), minlength=m * rows * columns).reshape(m, rows, columns)


def _chi_squared(tables: Counts, rows: Counts, columns: Counts) -> Floats:
    """Compute Pearson's χ² (m,) of tables (m, a, b) that all have these margins."""
    n = rows.sum()
    weights = n / np.outer(rows, columns)
    return np.asarray(np.einsum("mab,mab,ab->m", tables, tables, weights, optimize=True) - n)


def _p_value(observed: Floats | Counts, shuffled: Floats | Counts, rows: int) -> float:
    """(1 + shuffles at least as extreme) / (1 + shuffles): never zero, and valid in finite samples."""
    extreme = np.count_nonzero(shuffled >= observed[0] - ROUNDING * rows)
    return (1 + extreme) / (1 + len(shuffled))


def _cramers_v(chi_squared: Floats, rows: int, classes: int) -> Floats:
    return np.sqrt(np.maximum(chi_squared, 0.0) / (rows * max(classes - 1, 1)))


def _total_variation(table: Counts, frequency: Counts) -> float:
    matrix, share = table / frequency[:, None], frequency / frequency.sum()
    distance = np.abs(matrix[:, None, :] - matrix[None, :, :]).sum(axis=2) / 2
    return float(share @ distance @ share)
