"""Result files and run folders, found, read and put in order; one bad file spoils only itself."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from metasched.errors import DataError, MetaschedError
from metasched.report.cells import EXPERIMENTS, REGIMES, Cell, Evidence
from metasched.report.from_runs import RunFolder, cells_of_runs
from metasched.report.parse import read
from metasched.runs import folder


@dataclass(frozen=True)
class Results:
    """Everything that could be read, and one line for each thing that could not or that a reader must know."""

    cells: tuple[Cell, ...]
    evidence: tuple[Evidence, ...]
    faults: tuple[str, ...]
    """Files that were left out, and why."""
    notes: tuple[str, ...]
    """Mixed versions or devices, missing and diverged seeds."""

    def of(self, experiment: str | None = None, regime: str | None = None) -> list[Cell]:
        """Cells of an experiment, a regime, or both."""
        return [cell for cell in self.cells if experiment in (None, cell.experiment) and regime in (None, cell.regime)]


def load(paths: Sequence[Path]) -> Results:
    """Read result files, folders of them, run folders, and folders of run folders."""
    cells: dict[str, Cell] = {}
    evidence: dict[str, Evidence] = {}
    runs: list[RunFolder] = []
    faults: list[str] = []
    for path in _found(paths, faults):
        try:
            if path.is_dir():
                runs.append(RunFolder(path, folder.describe(path), folder.read_records(path)))
                continue
            result = read(path)
            known: dict[str, Any] = cells if isinstance(result, Cell) else evidence
            if result.key in known:
                faults.append(f"{path}: holds {result.key}, which an earlier file has too; left out")
            known.setdefault(result.key, result)
        except MetaschedError as error:
            faults.append(str(error))
    for cell in cells_of_runs(runs, faults):
        same = sum(key == cell.key or key.startswith(f"{cell.key} (") for key in cells)
        mark = f" ({same + 1})" if same else ""
        named = replace(cell, key=cell.key + mark, variant=cell.variant + mark, title=cell.title + mark)
        cells[named.key] = named
    if not cells and not evidence:
        first = f"; {faults[0]}" if faults else ""
        raise DataError(f"{', '.join(map(str, paths)) or 'no path given'}: no results to report{first}")
    ordered = tuple(sorted(cells.values(), key=_rank))
    proofs = tuple(sorted(evidence.values(), key=lambda item: _place(EXPERIMENTS, item.experiment)))
    return Results(ordered, proofs, tuple(faults), tuple(_notes(ordered, proofs)))


def _found(paths: Sequence[Path], faults: list[str]) -> Iterable[Path]:
    """Result files and run folders under ``paths``, each once, in a stable order."""
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            faults.append(f"{path}: no such file or folder; left out")
            continue
        for item in [path] if path.is_file() else _within(path):
            if item.resolve() not in seen:
                seen.add(item.resolve())
                yield item


def _within(place: Path) -> Iterable[Path]:
    """Run folders and result files of a folder; what lies inside a run folder is its own affair."""
    if (place / folder.RUN).exists():
        yield place
        return
    for item in sorted(place.iterdir(), key=lambda item: _natural(item.name)):
        if item.is_dir() and not item.name.startswith("."):
            yield from _within(item)
        elif item.suffix == ".json":
            yield item


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key in which "B=20" comes before "B=100"."""
    return [(place % 2, int(part) if place % 2 else 0, part) for place, part in enumerate(re.split(r"(\d{1,9})", text))]


def _place(known: Sequence[str], name: str) -> tuple[int, str]:
    return (known.index(name) if name in known else len(known), name)


def _rank(cell: Cell) -> tuple[Any, ...]:
    return _place(EXPERIMENTS, cell.experiment), _place(REGIMES, cell.regime), _natural(cell.variant), cell.key


def _notes(cells: Sequence[Cell], evidence: Sequence[Evidence]) -> Iterable[str]:
    """What a reader must know about where the numbers come from."""
    sources: list[Cell | Evidence] = [*cells, *evidence]
    for package in ("metasched", "jax", "python"):
        yield from _mixed(f"versions of {package}", [source.versions.get(package, "unknown") for source in sources])
    yield from _mixed("devices", [source.device for source in sources])
    for cell in cells:
        for method in cell.methods.values():
            missing = [seed for seed in cell.seeds if seed not in method.seeds]
            if missing:
                listed = ", ".join(map(str, missing))
                yield f"{cell.key}: {method.name} lacks seeds {listed}; it is compared on the seeds that both have"
            if method.diverged:
                listed = ", ".join(map(str, method.diverged))
                seeds = f"seed{'s' * (len(method.diverged) > 1)} {listed}"
                first = next(iter(method.diverged.values()))
                what = f"{cell.key}: {method.name} diverged with {seeds} ({first})"
                yield f"{what}; that counts as chance accuracy and as never reaching a threshold"


def _mixed(what: str, values: Sequence[str]) -> Iterable[str]:
    kinds = {value: values.count(value) for value in dict.fromkeys(values)}
    if len(kinds) > 1:
        listed = ", ".join(f"{kind} ({count} files)" for kind, count in kinds.items())
        yield f"these results come from different {what}: {listed}"
