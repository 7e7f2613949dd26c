"""Reads what the last version wrote (format 2), and converts it to the present format 3."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from metasched.errors import RunError
from metasched.learners.renamed import REMOVED, SETTINGS
from metasched.learners.settings import LEARNERS, AlgorithmOne
from metasched.runs.spec import RunSpec

FORMAT = 2


def upgrade_spec(old: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the spec of a run. Format 2 had one ``config`` for all learners, with the reward and ``abstain`` in it.

    Unknown parts stay as they are, and are reported when the spec is read.

    Raises:
        RunError: for a run with a setting that no longer exists.
        msgspec.ValidationError: for a learner or a ``config`` of another type.
    """
    new = {key: value for key, value in old.items() if key != "config"}
    learner = msgspec.convert(new.setdefault("learner", "meta"), str)
    config = msgspec.convert(old.get("config"), dict[str, Any])
    for name, usual in REMOVED.items():
        if config.get(name, usual) != usual:
            raise RunError(f"{name} is {config[name]!r}, a setting that no longer exists; use metasched 0.1 for it")
    names = SETTINGS | ({"outer_rate": "learning_rate"} if learner == "joint" else {})
    known = {field.name for field in fields(LEARNERS.get(learner, AlgorithmOne))}
    others = {field.name for kind in LEARNERS.values() for field in fields(kind)} - known
    settings = {names.get(name, name): value for name, value in config.items() if name not in REMOVED}
    new["reward"] = settings.pop("reward", "transfer")
    new["abstain"] = settings.pop("abstain", False)
    new["settings"] = {name: value for name, value in settings.items() if name not in others}
    return new


class Layers:
    """Format 2 wrote the common parts of neighbouring outcomes only once.

    A line ``{"shared": {…}}`` has what all lines below it have in common, and ``{"method": {…}}`` what the lines up to
    the next such line have in common. A line without its own format is combined with both.
    """

    def __init__(self) -> None:
        self._layers: dict[str, dict[str, Any]] = {"shared": {}, "method": {}}

    def complete(self, line: dict[str, Any]) -> dict[str, Any] | None:
        """All fields of an outcome, or None for a line with only common parts."""
        if len(line) == 1 and line.keys() <= self._layers.keys():
            self._layers |= msgspec.convert(line, dict[str, dict[str, Any]])
            return None
        if "format" in line:
            return line
        return dict(_laid_over(_laid_over(self._layers["shared"], self._layers["method"]), line))


def _laid_over(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {**below, **{key: _laid_over(below.get(key), value) for key, value in above.items()}}


def outcome(old: Mapping[str, Any]) -> dict[str, Any]:
    """An outcome of format 2. It had two fields of ``final`` next to it, and a shorter name for another one.

    The run is named after its new spec.
    """
    spec = upgrade_spec(msgspec.convert(old.get("spec"), dict[str, Any]))
    new = {**old, "format": 3, "spec": spec, "run": msgspec.convert(spec, RunSpec).name}
    if isinstance(old.get("final"), dict):
        final = dict(old["final"])
        for name, before in (("test_accuracy_by_class", "by_class"), ("drawn_by_label", "drawn_by_label")):
            if before in new:
                final[name] = new.pop(before)
        if "balanced_accuracy" in final:
            final["balanced_test_accuracy"] = final.pop("balanced_accuracy")
        new["final"] = final
    return new
