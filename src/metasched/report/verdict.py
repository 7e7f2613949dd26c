"""Does choosing help here? One sentence, decided from final accuracies paired by seed."""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metasched.dependence import holm
from metasched.report import statistics
from metasched.report.compare import ALPHA, MARGIN, seeds_needed, seeds_to_tell, too_few
from metasched.report.statistics import Bounded, Interval

Case = Literal["helps", "hurts", "as good", "no use for sources", "too few seeds"]


class Verdict(NamedTuple):
    """The case, and the sentence for people."""

    case: Case
    sentence: str


def decide(
    ours: ArrayLike,
    uniform: ArrayLike,
    target_only: ArrayLike | None = None,
    *,
    fewer: Bounded | None = None,
    subject: str = "Choosing",
) -> Verdict:
    """The verdict on final accuracies (S,) of three methods, in the same order of seeds.

    Sign-flip tests of ours − uniform and of both against target-only, corrected together (Holm), at 5 %. Sources are of
    use when ours or uniform ends above target-only; only then is ours held against uniform. No difference is called so
    when its 95 % interval lies within ``MARGIN``; what is neither shown nor that narrow needs more seeds. ``fewer`` is
    how many times fewer rows ours needs to end where uniform does.

    >>> decide([0.8] * 8, [0.7] * 8).sentence
    'Choosing helps here: +.10 [.10, .10] over uniform'
    """
    first, second = np.asarray(ours, np.float64), np.asarray(uniform, np.float64)
    gaps = [first - second]
    if target_only is not None:
        control = np.asarray(target_only, np.float64)
        gaps += [first - control, second - control]
    needed = seeds_needed(len(gaps))
    if len(first) < (needed or math.inf):
        return _too_few(needed)
    p_values = holm([statistics.sign_flip_test(gap) for gap in gaps])
    shown = [float(p) <= ALPHA for p in p_values]
    means = [float(gap.mean()) for gap in gaps]
    if target_only is not None and not any(sure and mean > 0 for sure, mean in zip(shown[1:], means[1:], strict=True)):
        gap = gaps[1] if means[1] >= means[2] else gaps[2]
        best, interval = "ours" if gap is gaps[1] else "uniform", statistics.mean_of_means([gap])
        if interval.high < MARGIN:
            return Verdict(
                "no use for sources",
                f"Sources do not help here: use target-only ({best} is {_signed(interval)} against it)",
            )
        return _too_few(seeds_to_tell(gap, 1))
    interval = statistics.mean_of_means([gaps[0]])
    if shown[0] and means[0] > 0:
        return Verdict("helps", f"{subject} helps here: {_signed(interval)} over uniform{_fewer(fewer)}")
    if shown[0]:
        return Verdict("hurts", f"{subject} hurts here: {_signed(interval)} against uniform; use uniform")
    if max(abs(interval.low), abs(interval.high)) <= MARGIN:
        return Verdict("as good", f"{subject} does not help here: uniform is as good ({_signed(interval)})")
    return _too_few(seeds_to_tell(gaps[0], 1))


def _too_few(needed: int | None) -> Verdict:
    return Verdict("too few seeds", too_few(needed).capitalize())


def _fewer(gain: Bounded | None) -> str:
    """How many times fewer rows; nothing where that is not more than one, or not known."""
    if gain is None or math.isnan(gain.value):
        return ""
    times, above = (gain.bound, "more than ") if math.isinf(gain.value) else (gain.value, "")
    return f", {above}{times:.1f} × fewer rows" if 1.05 <= times < math.inf else ""


def _signed(interval: Interval) -> str:
    """``+.07 [.04, .10]``; three digits where two would hide the difference."""
    digits = 2 if abs(interval.value) >= 0.01 or interval.value == 0 else 3
    value, low, high = (f"{round(number, digits) + 0.0:+.{digits}f}".replace("0.", ".", 1) for number in interval)
    return f"{value} [{low.removeprefix('+')}, {high.removeprefix('+')}]"
