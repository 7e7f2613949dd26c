"""Labels that look like slips of the pen: rare ones, and those spelt like another, that only one side has.

The two sides are the target and its sources.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from metasched.errors import nearest
from metasched.tasks.preparation import Place, is_number

MOST_NAMED = 3
"""Labels that a line names; the others are counted."""
MOST_ROWS = 2
"""A label of one side with more rows than this is meant, unless the other side has one that is spelt like it."""
ALIKE = 0.8
"""How alike, from 0 to 1, two spellings are that are taken for one word."""


def strays(
    texts: Mapping[str, Sequence[str]], target: Collection[str], places: Mapping[str, Place]
) -> tuple[list[str], set[str]]:
    """A line on such labels of the sources and one on those of the target, where there are any; and all of them.

    Args:
        texts: the labels of every part, row by row; all parts share them.
        target: the parts that are the target's.
        places: by part, where a row is.
    """
    theirs = {part: own for part, own in texts.items() if part not in target}
    ours = {part: own for part, own in texts.items() if part in target}
    lines, found = [], set()
    for here, there, fault in ((theirs, ours, "not in the target"), (ours, theirs, "in no source")):
        counts = Counter(text for own in here.values() for text in own)
        known = {text for own in there.values() for text in own}
        slips = [label for label in counts if label not in known and _is_slip(label, counts[label], known)]
        slips.sort(key=counts.__getitem__)
        found.update(slips)
        named = [_named(label, counts[label], known, here, places) for label in slips[:MOST_NAMED]]
        if len(slips) > MOST_NAMED:
            named.append(f"{len(slips) - MOST_NAMED:,} more")
        if slips:
            listed = " and ".join(part for part in (", ".join(named[:-1]), named[-1]) if part)
            subject = f"label {listed} is" if len(slips) == 1 else f"labels {listed} are"
            lines.append(f"{subject} {fault}; mend the spelling, unless it is meant")
    return lines, found


def _is_slip(label: str, count: int, known: Collection[str]) -> bool:
    """Whether a label that the other side lacks is rare, or spelt like one of its own; numbers are never alike."""
    return count <= MOST_ROWS or (not any(map(str.isdigit, label)) and nearest(label, known, ALIKE) is not None)


def _named(
    label: str, count: int, known: Collection[str], texts: Mapping[str, Sequence[str]], places: Mapping[str, Place]
) -> str:
    """A label with its first row, how many it has, and what it may have been meant to be."""
    part = next(part for part, own in texts.items() if label in own)
    near = None if is_number(label) else nearest(label, sorted(known))
    meant = f"; did you mean '{near}'?" if near is not None else ""
    return f"'{label}' ({places[part](texts[part].index(label))}, {count:,} row{'' if count == 1 else 's'}{meant})"
