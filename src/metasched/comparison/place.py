"""The folder of a comparison. ``comparison.json`` says what was asked for, and one process at a time works there."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metasched import untrusted
from metasched.errors import RunError
from metasched.files import make_folder, write_json
from metasched.runs import folder
from metasched.runs.folder import COMPARISON, COMPARISON_FORMAT
from metasched.runs.spec import differences, first_in_words

AGAIN = "compare again in another folder"


def stored(out: Path) -> dict[str, Any] | None:
    """What the folder says was asked for. None if it is new. A folder that holds something else is refused."""
    mark = out / COMPARISON
    if not mark.exists():
        folder.refuse_content(out, COMPARISON)
        return None
    known = untrusted.read_json(mark, dict[str, Any], AGAIN)
    if known.get("format") != COMPARISON_FORMAT:
        raise RunError(
            f"{out}: holds a comparison of another version of metasched, which this version cannot continue; {AGAIN}"
        )
    return known


def grown(known: Mapping[str, Any] | None, budget: float | None) -> bool:
    """Whether this comparison has a longer budget than the stored one."""
    before = None if known is None else known.get("budget")
    return budget is not None and isinstance(before, float | int) and before < budget


@contextmanager
def claimed(out: Path, asked: Mapping[str, Any]) -> Iterator[None]:
    """Claim a folder that is new or holds the same comparison. Nobody else works in it meanwhile.

    A stored comparison may have fewer seeds and a shorter budget. The new values are stored before the first new run.
    So after a kill in between, the folder still says what was asked for.
    """
    if stored(out) is None:
        make_folder(out)
    with folder.locked(out):
        asked = {"format": COMPARISON_FORMAT, **asked}
        before = stored(out) or dict(asked)
        known = before.get("seeds")
        known = known if isinstance(known, list) else [known]
        free = {"seeds": asked["seeds"], "seeds asked": asked.get("seeds asked")}
        if grown(before, asked["budget"]):
            free["budget"] = asked["budget"]
        if found := dict(differences(before | free, asked)):
            raise RunError(f"{out}: holds a comparison {first_in_words(found)}; choose another folder")
        if [seed for seed in known if seed not in asked["seeds"]]:
            raise RunError(
                f"{out}: holds a comparison with {len(known)} seeds; give at least these (seeds "
                f"{', '.join(map(str, known[:3]))}{', …' * (len(known) > 3)}), or choose another folder"
            )
        write_json(out / COMPARISON, asked)
        yield
