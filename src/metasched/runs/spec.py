"""Everything that decides a run's numbers, as plain JSON; its hash is the run's name."""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0)]


class DataSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which rows: the data set and its options, and the checksum of what they gave.

    ``set`` is None for rows that were handed over in Python: such a run is continued by the same call, not by name.
    """

    fingerprint: str
    set: str | None = None
    options: dict[str, Any] = {}


class RunSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """One run: rows, network, learner, scheduler, reward, seed, and the versions that computed it.

    ``settings`` are all settings of the learner, with nothing left open, and ``options`` those of the scheduler.
    ``own`` names what was made in Python and cannot be written down (a network, a scheduler, a loss, a reward, an
    optimiser, a gradient).

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
        """Sixteen hexadecimal digits of the SHA-256 of the spec, keys in order."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]

    def differences(self, other: "RunSpec") -> Mapping[str, tuple[Any, Any]]:
        """What differs between two specs: paths like ``settings.batch_size``, and both values."""
        return dict(differences(msgspec.to_builtins(self), msgspec.to_builtins(other)))


def differences(mine: Any, other: Any, path: str = "") -> list[tuple[str, tuple[Any, Any]]]:
    """What differs between two values of plain JSON: paths, and both values, None for one that is not there."""
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
    """The difference to tell a person, as what follows "a run": what names the rows comes before their checksum.

    >>> first_in_words({"data.fingerprint": ("0a", "0b"), "data.options.noise": (0.5, None)})
    'with another option noise of the data (0.5, not none)'
    """
    rows = [path for path in found if path in ("data", "data.fingerprint")]
    names = [path for path in found if path.startswith("data.") and path not in rows]
    if rows and not names:
        old, new = (str(checksum)[:12] for checksum in found[rows[0]])
        return f"on other rows: the data have changed since, or are divided otherwise (checksum {old}, not {new})"
    path = (names or list(found))[0]
    old, new = ("none" if value is None else value for value in found[path])
    option = path.removeprefix("data.options.")
    what = {"data.set": "data set"}.get(path, path) if option == path else f"option {option} of the data"
    return f"with another {what} ({old}, not {new})"
