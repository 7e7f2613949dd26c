"""Does choosing help here? One sentence, decided from final accuracies paired by seed."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metasched.report.compare import MARGIN, Contrast, Kind, gaps_of, might_do, seeds_needed, tested
from metasched.report.statistics import Bounded, Interval

Case = Literal["helps", "hurts", "as good", "no use for sources", "too few seeds"]
TOO_FEW = "Too few seeds to tell"


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
    when its 95 % interval lies within ``MARGIN``; what is neither shown nor that narrow needs more seeds. Every
    sentence tells both contrasts, and which of them needs more. ``fewer`` is how many times fewer rows ours needs to
    end where uniform does.

    >>> decide([0.8] * 8, [0.7] * 8, [0.6] * 8).sentence
    'Choosing helps here: +.10 [.10, .10] over uniform; +.20 [.20, .20] over target-only'
    """
    first, second = np.asarray(ours, np.float64), np.asarray(uniform, np.float64)
    control = None if target_only is None else np.asarray(target_only, np.float64)
    gaps = gaps_of(first, second, control)
    who = _within(subject)
    least = seeds_needed(len(gaps))
    if len(first) < (least or math.inf):
        against = "uniform" if control is None else "uniform or target-only"
        return Verdict("too few seeds", f"{TOO_FEW} whether {who} is better than {against}: give at least {least}")
    gap, *alone = tested(gaps)
    if not alone or any(one.kind == "better" for one in alone):
        return _against_uniform(gap, alone, fewer, subject)
    best, name = (alone[0], "ours") if alone[0].difference.value >= alone[1].difference.value else (alone[1], "uniform")
    if best.difference.high <= MARGIN:
        told = f"({name} is {_signed(best.difference)} against it); {_clause(gap, 'uniform', 'ours')}"
        return Verdict("no use for sources", f"Sources do not help here: use target-only {told}")
    lead = _clause(gap, "uniform", who) if gap.kind == "open" else f"{who} is {_standing(gap)}"
    told = f"{lead}; {_clause(best, 'target-only', 'it' if name == 'ours' else name)}"
    return Verdict("too few seeds", _opening(told))


def _against_uniform(gap: Contrast, alone: Sequence[Contrast], fewer: Bounded | None, subject: str) -> Verdict:
    """Where sources are of use: what choosing among them does, and what is known against target-only."""
    amount = _signed(gap.difference)
    also = f"; {_clause(alone[0], 'target-only')}" if alone else ""
    sentences: dict[Kind, tuple[Case, str]] = {
        "better": ("helps", f"{subject} helps here: {amount} over uniform{_fewer(fewer)}{also}"),
        "worse": ("hurts", f"{subject} hurts here: {amount} against uniform{also}; use uniform"),
        "alike": ("as good", f"{subject} does not help here: uniform is as good ({amount}){also}"),
        "open": ("too few seeds", f"{_opening(_clause(gap, 'uniform', _within(subject)))}{also}"),
    }
    return Verdict(*sentences[gap.kind])


def _standing(gap: Contrast) -> str:
    words = {"better": "better than", "worse": "worse than", "alike": "as good as"}
    return f"{words[gap.kind]} uniform ({_signed(gap.difference)})"


def _clause(test: Contrast, other: str, who: str = "") -> str:
    """One contrast in words, of ``who`` where that is not plain."""
    amount, subject = _signed(test.difference), f"{who} is " if who else ""
    words: dict[Kind, str] = {
        "better": f"{subject}{amount} over {other}",
        "worse": f"{subject}{amount} against {other}",
        "alike": f"{subject}as good as {other} ({amount})",
        "open": f"{TOO_FEW.lower()} whether {subject}better than {other} ({amount}){might_do(test.needed)}",
    }
    return words[test.kind]


def _opening(words: str) -> str:
    return words[0].upper() + words[1:]


def _within(words: str) -> str:
    return words[0].lower() + words[1:]


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
