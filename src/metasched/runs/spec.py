"""Everything that decides the numbers of a run, as plain JSON. Its hash is the name of the run."""

import hashlib
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0)]
EARLIER: Mapping[str, Any] = {"batching": "per_source", "metric": None}
"""Settings that every run had before they became settings. A spec leaves them out, so that old runs keep their names.
"""
_METHOD = re.compile(r"methods\.(.+?)\.(scheduler|reward|abstain|batching|options\..+)")
_PARTS = (
    (re.compile(r"data\.set"), "data set"),
    (re.compile(r"data\.options\.(.+)"), r"option \1 of the data"),
    (re.compile(r"settings\.(.+)"), r"setting \1"),
    (re.compile(r"options\.(.+)"), r"option \1 of the scheduler"),
    (re.compile(r"methods\.(.+?)\.options\.(.+)"), r"option \2 of '\1'"),
    (re.compile(r"methods\.(.+?)\.abstain"), r"setting abstain of '\1'"),
    (_METHOD, r"\2 of '\1'"),
    (re.compile(r"abstain"), "setting abstain"),
    (re.compile(r"tuned"), "setting tune"),
    (re.compile(r"references"), "setting references"),
    (re.compile(r"own"), "part made in Python"),
)
"""Paths of :func:`differences`, and their names for users. The first one that fits counts."""


class DataSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which rows: the data set and its options, and the checksum of what they gave.

    ``set`` is None for rows that were passed in Python. Such a run is continued by the same call, not by name.
    """

    fingerprint: str
    set: str | None = None
    options: dict[str, Any] = {}


class RunSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """One run: rows, network, learner, scheduler, reward, seed, and the versions that computed it.

    ``settings`` are all settings of the learner, with nothing left open, and ``options`` those of the scheduler.
    ``own`` names the objects that were made in Python and cannot be stored (a network, a scheduler, a loss, a reward,
    an optimiser, a gradient).

    >>> data = DataSpec(fingerprint="0a", set="demo")
    >>> spec = RunSpec(data=data, network="mlp", learner="joint", settings={}, scheduler="ucb", reward="gain", seed=1)
    >>> spec.name
    'f15d8d4a776dfbca'
    """

    data: DataSpec
    network: str
    learner: str
    settings: dict[str, Any]
    scheduler: str
    reward: str
    seed: Count
    options: dict[str, Any] = {}
    abstain: bool = False
    own: tuple[str, ...] = ()
    versions: dict[str, str] = {}

    @cached_property
    def name(self) -> str:
        """Sixteen hexadecimal digits of the SHA-256 of the spec, with sorted keys."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]

    @property
    def rows_per_choice(self) -> int:
        """How many rows its scheduler chose at a time: one in mixed batches, otherwise all rows of a batch."""
        mixed = self.settings.get("batching") == "mixed"
        return 1 if mixed else int(self.settings.get("batch_size", 1))

    def differences(self, other: "RunSpec") -> Mapping[str, tuple[Any, Any]]:
        """The differences between two specs: paths like ``settings.batch_size``, and both values."""
        return dict(differences(msgspec.to_builtins(self), msgspec.to_builtins(other)))


def differences(mine: Any, other: Any, path: str = "") -> list[tuple[str, tuple[Any, Any]]]:
    """The differences between two values of plain JSON: paths, and both values, with None for a missing one."""
    if isinstance(mine, dict) and other is None:
        other = {}
    elif isinstance(other, dict) and mine is None:
        mine = {}
    if not (isinstance(mine, dict) and isinstance(other, dict)):
        return [] if mine == other else [(path, (mine, other))]
    keys = [*mine, *(key for key in other if key not in mine)]
    return [
        found
        for key in keys
        for found in differences(mine.get(key), other.get(key), f"{path}.{key}" if path else str(key))
    ]


def first_in_words(found: Mapping[str, tuple[Any, Any]]) -> str:
    """The most important difference in words, as what follows "a run". Names of rows come before their checksum.

    >>> first_in_words({"data.fingerprint": ("0a", "0b"), "data.options.noise": (0.5, None)})
    'with another option noise of the data (0.5, not none)'
    >>> first_in_words({"settings.batching": (None, "mixed")})
    'with another setting batching (per_source, not mixed)'
    """
    rows = [path for path in found if path in ("data", "data.fingerprint")]
    names = [path for path in found if path.startswith("data.") and path not in rows]
    if rows and not names:
        old, new = (str(checksum)[:12] for checksum in found[rows[0]])
        return f"on other rows: the data have changed since, or are split differently (checksum {old}, not {new})"
    path = (names or list(found))[0]
    stored, asked = found[path]
    if (method := _METHOD.fullmatch(path)) and method[2] == "scheduler" and None in (stored, asked):
        named = f"the method '{method[1]}'"
        return f"without {named}" if stored is None else f"with {named}, which is missing now"
    # Specs leave out defaults, so a missing flag is off.
    missing = "False" if stored is True or asked is True else EARLIER.get(path.removeprefix("settings.")) or "none"
    before, now = (missing if value is None else value for value in (stored, asked))
    return f"with another {part_in_words(path)} ({before}, not {now})"


def part_in_words(path: str) -> str:
    """The name of a path of :func:`differences` for users.

    >>> part_in_words("methods.wide.options.upper")
    "option upper of 'wide'"
    """
    found = ((pattern.fullmatch(path), words) for pattern, words in _PARTS)
    return next((match.expand(words) for match, words in found if match), path)
