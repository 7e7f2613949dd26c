"""A mixture in a file: sources, weights, and other arguments of a chooser.

The file may come from anybody. Its size and depth are limited, YAML is read without objects and aliases, and anything
that a chooser would refuse is refused with the name of the file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, ValidationError, convert, field

from metasched.chooser.chooser import Chooser
from metasched.errors import ConfigError, DataError, unknown
from metasched.optional import require
from metasched.untrusted import file_size, read_bytes

LARGEST = 2**20
"""The largest size of such a file in bytes."""
_DEEPEST = 10
_FIX = "give a file as docs/streams.md describes it"


class MixtureFile(NamedTuple):
    """The content of a mixture file. It unpacks into the arguments of :class:`Chooser` and :func:`mix`.

    Attributes:
        sources: for each name a path, the number of rows, or None for a stream.
        scheduler: the name of the scheduler.
        options: all other arguments of a chooser.

    Examples:
        >>> from pathlib import Path
        >>> text = '{"sources": [{"name": "web", "size": 90}, {"name": "books", "size": 9}]}'
        >>> _ = Path("mixture.json").write_text(text)
        >>> sources, scheduler, options = ms.read_mixture("mixture.json")
        >>> ms.Chooser(scheduler, sources, **options)
        Chooser('uniform', 2 sources, batches of 1 row; 0 draws so far)
    """

    sources: dict[str, Any]
    scheduler: str
    options: dict[str, Any]


class _Source(Struct, forbid_unknown_fields=True):
    name: str
    path: str | None = None
    size: int | None = None
    weight: float | None = None


class _Stage(Struct, forbid_unknown_fields=True):
    begin: int = field(name="from")
    weights: dict[str, float]


class _Form(Struct, forbid_unknown_fields=True, omit_defaults=True):
    sources: list[_Source]
    scheduler: str = "uniform"
    stages: list[_Stage] | None = None
    ramp: bool | None = None
    batch_size: int | None = None
    batching: str | None = None
    seed: int | None = None
    temperature: float | None = None
    min_share: float | None = None
    prior: int | None = None
    options: dict[str, str | int | float | bool | None] | None = None


def read_mixture(path: str | Path) -> MixtureFile:
    """Read a mixture from a JSON file, or from a YAML file if PyYAML is installed.

    Args:
        path: a file whose name ends in ``.json``, ``.yaml`` or ``.yml``.

    Returns:
        Sources, scheduler and options. Relative paths start at the folder of the file.

    Examples:
        >>> from pathlib import Path
        >>> text = '''{
        ...     "sources": [{"name": "web", "size": 10000, "weight": 3}, {"name": "books", "size": 500, "weight": 1}],
        ...     "stages": [{"from": 5000, "weights": {"web": 1, "books": 1}}],
        ...     "ramp": true
        ... }'''
        >>> _ = Path("mixture.json").write_text(text)
        >>> ms.read_mixture("mixture.json").options
        {'weights': [(0, {'web': 3.0, 'books': 1.0}), (5000, {'web': 1.0, 'books': 1.0})], 'ramp': True}
    """
    path = Path(path)
    readers = {".json": _from_json, ".yaml": _from_yaml, ".yml": _from_yaml}
    if path.suffix.lower() not in readers:
        raise ConfigError(f"{path}: a mixture is a file of JSON or YAML; its name ends in .json, .yaml or .yml")
    content = read_bytes(path, LARGEST, _FIX, DataError)
    try:
        form = convert(readers[path.suffix.lower()](content.decode()), _Form)
        mixture = _mixture(form, path.parent)
        Chooser(
            mixture.scheduler,
            {name: one if type(one) is int else None for name, one in mixture.sources.items()},
            **mixture.options,
        )
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8; {_FIX}") from None
    except RecursionError:
        raise DataError(f"{path}: is nested too deeply; {_FIX}") from None
    except DataError:
        raise
    except (ValidationError, ValueError, TypeError) as error:  # a ConfigError is a ValueError
        raise DataError(f"{path}: {' '.join(str(error).split())}") from None
    return mixture


def _mixture(form: _Form, folder: Path) -> MixtureFile:
    """Make a mixture from its parts. A ConfigError says what does not fit."""
    sources: dict[str, Any] = {}
    for one in form.sources:
        if one.name in sources:
            raise ConfigError(f"two sources are called '{one.name}'; give each its own name")
        if one.path is not None and one.size is not None:
            raise ConfigError(f"source '{one.name}' has both a path and a size; give one of them")
        sources[one.name] = one.size
        if one.path is not None:
            sources[one.name] = folder / one.path
            file_size(sources[one.name])
    weights: Any = {one.name: one.weight for one in form.sources if one.weight is not None}
    if weights and (missing := [name for name in sources if name not in weights]):
        raise ConfigError(
            f"source '{missing[0]}' has no weight, but others have one; give weights to all of them or to none"
        )
    if form.stages:
        for stage in form.stages:
            if strange := [name for name in stage.weights if name not in sources]:
                raise unknown("source", strange[0], sources, of=f"the stage from {stage.begin}")
        first = [(0, weights)] if weights else []
        weights = [*first, *((stage.begin, stage.weights) for stage in form.stages)]
    names = ("ramp", "batch_size", "batching", "seed", "temperature", "min_share", "prior")
    options = {name: getattr(form, name) for name in names if getattr(form, name) is not None}
    own = form.options or {}
    if twice := [name for name in own if name in _Form.__struct_fields__ or name == "weights"]:
        raise ConfigError(f"'{twice[0]}' is not an option of the scheduler; move it out of 'options'")
    return MixtureFile(sources, form.scheduler, {**({"weights": weights} if weights else {}), **options, **own})


def _from_json(text: str) -> Any:
    def never(word: str) -> Any:
        raise ConfigError(f"has {word}, which is not a number")

    try:
        return json.loads(text, object_pairs_hook=_without_doubles, parse_constant=never)
    except json.JSONDecodeError as error:
        raise ConfigError(f"is not valid JSON: {error}") from None


def _from_yaml(text: str) -> Any:
    yaml = require("yaml", "yaml")

    class Careful(yaml.SafeLoader):  # type: ignore[misc,name-defined]
        """Reads no objects, like its base class, and no aliases, by which a short text can stand for a huge one."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ConfigError("has an alias (*name); write out what it stands for")
            self.depth += 1
            if self.depth > _DEEPEST:
                raise RecursionError
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> Mapping[Any, Any]:
            pairs = [(self.construct_object(key, deep=True), None) for key, _ in node.value]
            _without_doubles(pairs)
            mapping: Mapping[Any, Any] = super().construct_mapping(node, deep)
            return mapping

    try:
        return yaml.load(text, Loader=Careful)  # Careful is a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"is not valid YAML: {error}") from None


def _without_doubles(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ConfigError(f"has '{key}' twice in the same place")
        found[key] = value
    return found
