"""Reading what the last version wrote (format 2), in the form of this one (format 3)."""

from collections.abc import Mapping
from typing import Any

import msgspec


class Layers:
    """Format 2 wrote what neighbouring outcomes share only once.

    A line ``{"shared": {…}}`` holds what all lines below it have in common, and ``{"method": {…}}`` what the lines up
    to the next such line have in common besides. A line without a format of its own is laid over both.
    """

    def __init__(self) -> None:
        self._layers: dict[str, dict[str, Any]] = {"shared": {}, "method": {}}

    def complete(self, line: dict[str, Any]) -> dict[str, Any] | None:
        """All fields of an outcome; None for a line that only holds what others share."""
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
    """An outcome of format 2: it kept two fields of ``final`` beside it, and gave another one a shorter name."""
    new = {**old, "format": 3}
    if isinstance(old.get("final"), dict):
        final = dict(old["final"])
        for name, before in (("test_accuracy_by_class", "by_class"), ("drawn_by_label", "drawn_by_label")):
            if before in new:
                final[name] = new.pop(before)
        if "balanced_accuracy" in final:
            final["balanced_test_accuracy"] = final.pop("balanced_accuracy")
        new["final"] = final
    return new
