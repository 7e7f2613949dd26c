"""Ordinary run folders as cells: runs on the same data are compared with each other."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

from metasched.report.cells import OWN_RUNS, STATIC, TARGET_ONLY, Cell
from metasched.report.parse import FaultError, cell_from


class RunFolder(NamedTuple):
    """A run: its folder, ``run.json`` and the lines of ``metrics.jsonl``."""

    path: Path
    description: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]


def cells_of_runs(runs: Sequence[RunFolder], faults: list[str]) -> Iterable[Cell]:
    """Run folders on the same data are one cell; a damaged one is left out."""
    groups: dict[str, list[RunFolder]] = {}
    for run in runs:
        path, description, records = run
        try:
            if not any("final" in record for record in records):
                faults.append(f"{path}: has no finished seed; left out, go on with 'metasched resume {path}'")
                continue
            groups.setdefault(str(description["data"]["fingerprint"]), []).append(run)
        except (KeyError, TypeError):
            faults.append(f"{path}: its run.json is damaged; left out")
    for members in groups.values():
        cell = _cell_of_runs(members, faults)
        if cell is not None:
            yield cell


def _cell_of_runs(runs: Sequence[RunFolder], faults: list[str]) -> Cell | None:
    methods: dict[str, dict[str, Any]] = {}
    kept: list[Mapping[str, Any]] = []
    for path, description, records in runs:
        try:
            name = _method_name(description, kept[0]["config"] if kept else description["config"])
            made = _method_of_run(description, records)
        except (KeyError, TypeError, ValueError, AttributeError):
            faults.append(f"{path}: is damaged; left out")
            continue
        if name in methods and not _extend(methods[name], made):
            faults.append(f"{path}: repeats seeds of {name}, or measures at other updates; left out")
            continue
        methods.setdefault(name, made)
        kept.append(description)
    if not kept:
        return None
    first = kept[0]
    recipe = first["data"].get("recipe") or {}
    options = ", ".join(f"{key}={value}" for key, value in recipe.get("options", {}).items())
    devices = dict.fromkeys(str(run.get("device")) for run in kept)
    commands = dict.fromkeys(_as_typed(str(run.get("command"))) for run in kept)
    name = str(first["data"]["name"])
    content = {
        "experiment": name,
        "regime": OWN_RUNS,
        "variant": options or OWN_RUNS,
        "cell": f"{name}/{options or OWN_RUNS}",
        "title": f"{name}, {OWN_RUNS}" + (f", {options}" if options else ""),
        "simulated": bool(first["data"].get("simulated")),
        "versions": first.get("versions", {}),
        "device": ", ".join(devices),
        "command": "; ".join(commands),
        "created": str(first.get("created", "")),
        "tasks": first["data"]["tasks"],
        "classes": [],
        "config": first["config"],
        "methods": methods,
    }
    try:
        return cell_from(content)
    except FaultError as fault:
        faults.append(f"{runs[0][0]}: is damaged: {fault}; left out")
        return None


def _as_typed(command: str) -> str:
    """A command without the place where the program lies."""
    program, _, words = command.partition(" ")
    return f"metasched {words}" if PurePath(program).name in ("metasched", "__main__.py") else command


def _method_name(description: Mapping[str, Any], common: Mapping[str, Any]) -> str:
    """Scheduler, its options, and the settings in which its run differs from the first one."""
    name = str(description["scheduler"]["name"] or "custom")
    skipped = ("batches_per_update",) if name == TARGET_ONLY else ()
    different = {
        key: value for key, value in description["config"].items() if value != common.get(key) and key not in skipped
    }
    extra = {**description["scheduler"]["options"], **different}
    return name + (f" ({', '.join(f'{key} {value}' for key, value in extra.items())})" if extra else "")


def _method_of_run(description: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The seeds of a run that ended, in the shape of a method of a result file; one that diverged has None."""
    finished = [record for record in records if "final" in record]
    diverged = [record for record in records if "diverged" in record]
    none = [None] * len(diverged)
    by_seed = {
        last["seed"]: [record for record in records if record["seed"] == last["seed"] and "test_accuracy" in record]
        for last in finished
    }
    first = [record for record in records if record["seed"] == finished[0]["seed"]]
    tasks = len(finished[0]["drawn"])
    return {
        "family": _family(description["scheduler"]["name"]),
        "seeds": [*by_seed, *(record["seed"] for record in diverged)],
        "updates": [record["update"] for record in next(iter(by_seed.values()))],
        "samples": [*([record["samples"] for record in own] for own in by_seed.values()), *none],
        "test_accuracy": [*([record["test_accuracy"] for record in own] for own in by_seed.values()), *none],
        "final": {
            key: [*(last["final"][key] for last in finished), *none]
            for key in ("test_accuracy", "initial_test_accuracy")
        },
        "drawn": [*(last["drawn"] for last in finished), *none],
        "drawn_by_label": np.mean([last["final"]["drawn_by_label"] for last in finished], axis=0).tolist(),
        "abstained": [*(last["abstained"] for last in finished), *none],
        "diverged": {
            str(record["seed"]): {"update": record["update"], "cause": record["diverged"]} for record in diverged
        },
        "schedule": [np.bincount(record["tasks"], minlength=tasks + 1).tolist() for record in first],
    }


def _family(scheduler: str | None) -> str:
    if scheduler in STATIC:
        return "static"
    return "control" if scheduler in (TARGET_ONLY, "single") else "active"


def _extend(method: dict[str, Any], more: Mapping[str, Any]) -> bool:
    """Add the seeds of another run of the same method; False when they do not fit together."""
    if set(method["seeds"]) & set(more["seeds"]) or method["updates"] != more["updates"]:
        return False
    for key in ("seeds", "samples", "test_accuracy", "drawn", "abstained"):
        method[key] = [*method[key], *more[key]]
    method["diverged"] = {**method["diverged"], **more["diverged"]}
    for key, values in more["final"].items():
        method["final"][key] = [*method["final"][key], *values]
    return True
