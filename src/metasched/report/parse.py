"""One result file as a cell or as evidence: nothing in it is trusted, and an error says what is wrong and where."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metasched.errors import DataError
from metasched.report.cells import FAMILIES, Cell, Evidence, Floats, Method

FORMAT = 1


def read(path: Path) -> Cell | Evidence:
    """One result file; an error names the file, the fault and the fix."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot read ({error.strerror or error}); left out") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: is damaged or half written (not JSON); left out, run its cell again") from None
    if not isinstance(content, dict) or content.get("kind") not in ("cell", "evidence"):
        raise DataError(f"{path}: is not a result file (no kind 'cell' or 'evidence'); left out")
    if content.get("format") != FORMAT:
        raise DataError(
            f"{path}: has result format {_short(content.get('format'))}, this metasched reads {FORMAT}; left out, "
            "upgrade or run its cell again"
        )
    try:
        return cell_from(content) if content["kind"] == "cell" else _evidence(content)
    except FaultError as fault:
        raise DataError(f"{path}: is damaged: {fault}; left out, run its cell again") from None
    except (OverflowError, ValueError):
        raise DataError(
            f"{path}: is damaged: it holds a number too large to be one; left out, run its cell again"
        ) from None


class FaultError(Exception):
    """What is wrong inside a file."""


def cell_from(content: Mapping[str, Any]) -> Cell:
    """The contents of a result file of kind "cell", checked."""
    tasks, classes = _words(content, "tasks"), _words(content, "classes")
    methods = _mapping(content, "methods")
    if not methods:
        raise FaultError("it has no methods")
    threshold = content.get("threshold")
    if threshold is not None and not (_is_number(threshold) and 0 <= threshold <= 1):
        raise FaultError(f"threshold is {_short(threshold)}, not a number from 0 to 1")
    experiment, regime = _text(content, "experiment"), _text(content, "regime")
    variant = str(content.get("variant") or regime)
    return Cell(
        key=str(content.get("cell") or f"{experiment}/{regime}-{variant}"),
        experiment=experiment,
        regime=regime,
        variant=variant,
        title=str(content.get("title") or f"{experiment}, {regime}, {variant}"),
        **_about(content),
        tasks=tasks,
        classes=classes,
        target_rows=_count(content, "target_rows"),
        test_rows=_count(content, "test_rows"),
        source_rows=_count(content, "source_rows"),
        config=_mapping(content, "config") if "config" in content else {},
        tuning=_mapping(content, "tuning") if content.get("tuning") else None,
        threshold=None if threshold is None else float(threshold),
        methods={str(name): _method(str(name), method, len(tasks), len(classes)) for name, method in methods.items()},
    )


def _method(name: str, content: Any, tasks: int, classes: int) -> Method:
    where = f"method '{_short(name)}'"
    if not isinstance(content, dict):
        raise FaultError(f"{where} is not an object")
    seeds = content.get("seeds")
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int for seed in seeds):
        raise FaultError(f"{where} has no list of seeds")
    if len(set(seeds)) != len(seeds):
        raise FaultError(f"{where} has a seed twice")
    family = content.get("family")
    if family not in FAMILIES:
        raise FaultError(f"{where} has family {_short(family)}, not one of {', '.join(FAMILIES)}")
    updates = _floats(content.get("updates") or [], (None,), f"{where}: updates")
    if np.isnan(updates).any() or np.any(np.diff(updates, prepend=-1.0) <= 0):
        raise FaultError(f"{where}: updates do not increase from 0 or more")
    shape = (len(seeds), len(updates))
    final = content.get("final")
    if not isinstance(final, dict) or "test_accuracy" not in final:
        raise FaultError(f"{where} has no final test_accuracy")

    def optional(key: str, shape: tuple[int | None, ...]) -> Floats | None:
        return _floats(content[key], shape, f"{where}: {key}") if content.get(key) else None

    def by_seed(key: str, shape: tuple[int | None, ...]) -> Floats | None:
        value = content.get(key)
        alike = _is_number(value) if len(shape) == 1 else isinstance(value, list) and any(map(_is_number, value))
        if alike:  # written once for all seeds
            return _floats([value] * len(seeds), shape, f"{where}: {key}")
        return optional(key, shape)

    def curves(key: str, read: Callable[..., Floats]) -> Floats:
        value = content.get(key)
        if isinstance(value, list) and any(map(_is_number, value)):
            value = [value] * len(seeds)
        return read(value, shape, f"{where}: {key}") if len(updates) else np.empty(shape)

    cost = content.get("scheduling_seconds")
    if cost is not None and not _is_number(cost):
        raise FaultError(f"{where}: scheduling_seconds is {_short(cost)}, not a number")
    return Method(
        name=name,
        family=family,
        role=str(content.get("role") or ""),
        seeds=tuple(seeds),
        updates=updates,
        samples=curves("samples", _floats),
        test_accuracy=curves("test_accuracy", _shares),
        final={
            str(key): _shares(values, (len(seeds),), f"{where}: final {_short(key)}")
            for key, values in final.items()
            if values is not None
        },
        per_class=optional("per_class", (len(seeds), classes)),
        drawn=by_seed("drawn", (len(seeds), tasks)),
        drawn_by_label=optional("drawn_by_label", (tasks, None)),
        abstained=by_seed("abstained", (len(seeds),)),
        schedule=optional("schedule", (None, tasks + 1)),
        seconds=by_seed("seconds", (len(seeds),)),
        scheduling_seconds=None if cost is None else float(cost),
        diverged=_diverged(content.get("diverged") or {}, seeds, where),
    )


def _diverged(content: Any, seeds: Sequence[int], where: str) -> dict[int, str]:
    if not isinstance(content, dict):
        raise FaultError(f"{where}: diverged is not an object")
    found = {}
    for word, what in content.items():
        if word not in map(str, seeds):
            raise FaultError(f"{where}: seed {_short(word)} diverged, but is not among its seeds")
        known = what if isinstance(what, dict) else {}
        at = known.get("update")
        found[int(word)] = (f"at meta-update {at}: " if at is not None else "") + str(
            known.get("cause", "no cause given")
        )
    return found


def _evidence(content: Mapping[str, Any]) -> Evidence:
    order = content.get("order", [])
    if not isinstance(order, list) or not all(isinstance(row, dict) and "task" in row for row in order):
        raise FaultError("order is not a list of tasks")
    for row in order:
        for key in ("rows", "p_permutation", "p_asymptotic", "p_diagonal", "association"):
            if row.get(key) is not None and not _is_number(row[key]):
                raise FaultError(f"order: {key} of task '{_short(row['task'])}' is {_short(row[key])}, not a number")
    transitions = _mapping(content, "transitions") if "transitions" in content else {}
    scaled = content.get("scaled_error") or {}
    if not isinstance(scaled, dict) or not isinstance(scaled.get("by_class", {}), dict):
        raise FaultError("scaled_error is not an object with by_class")
    steps = _floats(scaled["steps"], (None,), "scaled_error: steps") if "steps" in scaled else None
    exponent = scaled.get("exponent")
    if exponent is not None and not _is_number(exponent):
        raise FaultError(f"scaled_error: exponent is {_short(exponent)}, not a number")
    return Evidence(
        experiment=_text(content, "experiment"),
        **_about(content),
        order=tuple(order),
        transitions={
            str(task): _floats(matrix, (None, None), f"transitions of '{_short(task)}'")
            for task, matrix in transitions.items()
        },
        classes=_words(content, "classes") if "classes" in content else (),
        steps=steps,
        scaled_error={
            str(name): _floats(row, (0 if steps is None else len(steps),), f"scaled_error of '{_short(name)}'")
            for name, row in scaled.get("by_class", {}).items()
        },
        exponent=None if exponent is None else float(exponent),
    )


def _about(content: Mapping[str, Any]) -> dict[str, Any]:
    """What every number carries: where, when and how it was made."""
    versions = _mapping(content, "versions") if "versions" in content else {}
    if not isinstance(content.get("simulated"), bool):
        raise FaultError("it does not say whether its data are simulated")
    return {
        "simulated": content["simulated"],
        "versions": {str(name): str(number) for name, number in versions.items()},
        "device": str(content.get("device") or "unknown device"),
        "command": str(content.get("command") or "unknown command"),
        "created": str(content.get("created") or ""),
    }


def _floats(value: Any, shape: tuple[int | None, ...], where: str) -> Floats:
    """Nested lists as an array of that shape (None: any length); null, and a row that is null or cut short, is NaN."""
    if not isinstance(value, list) or (shape[0] is not None and len(value) != shape[0]):
        raise FaultError(f"{where} is not a list" + (f" of {shape[0]}" if shape[0] is not None else ""))
    if len(shape) == 1:
        if not all(item is None or _is_number(item, finite=False) for item in value):
            raise FaultError(f"{where} holds something that is not a number")
        array = np.array([math.nan if item is None else item for item in value], np.float64)
        if np.isinf(array).any():
            raise FaultError(f"{where} holds an infinite number")
        return array
    width = shape[1]
    if width is None:
        width = max((len(row) for row in value if isinstance(row, list)), default=0)
    rows = []
    for row in value:
        known = [] if row is None else row
        if not isinstance(known, list) or len(known) > width:
            raise FaultError(f"{where} has a row that is not a list of {width}")
        rows.append(_floats([*known, *[None] * (width - len(known))], (width,), where))
    return np.array(rows, np.float64).reshape(len(rows), width)


def _shares(value: Any, shape: tuple[int | None, ...], where: str) -> Floats:
    array = _floats(value, shape, where)
    if not np.all(np.isnan(array) | ((array >= 0) & (array <= 1))):
        raise FaultError(f"{where} holds a number outside 0 to 1")
    return array


def _is_number(value: Any, finite: bool = True) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and (not finite or math.isfinite(value))


def _text(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    if not isinstance(value, str) or not value:
        raise FaultError(f"it has no {key}")
    return value


def _words(content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = content.get(key)
    if not isinstance(value, list):
        raise FaultError(f"it has no list of {key}")
    return tuple(map(str, value))


def _mapping(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    if not isinstance(value, dict):
        raise FaultError(f"its {key} is not an object")
    return value


def _count(content: Mapping[str, Any], key: str) -> int | None:
    value = content.get(key)
    if value is None:
        return None
    if not _is_number(value):
        raise FaultError(f"{key} is {_short(value)}, not a number")
    return int(value)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:39] + "…"
