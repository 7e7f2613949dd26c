"""Finds, reads and sorts results. A bad file is left out with a line that says so, and does not affect the others."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from metasched import untrusted
from metasched.errors import DataError, MetaschedError
from metasched.files import natural_order
from metasched.report.cells import TARGET_ONLY, CellRuns, MethodRuns, Source
from metasched.report.outputs import EXPERIMENTS, READERS, outputs
from metasched.report.remarks import REMARKS, Remarks
from metasched.report.remarks import read as read_remarks
from metasched.runs import outcome
from metasched.runs.folder import COMPARISON, COMPARISON_FORMAT, RUN
from metasched.runs.outcome import OWN_RUNS, About, Origin, Outcome, Study
from metasched.runs.records import METRICS
from metasched.runs.spec import part_in_words

OWN = ("outcome.jsonl", "outcomes.jsonl")
"""The files that are read in the folder of a run."""
COMPARED = ("outcomes.jsonl", REMARKS)
"""The files that are read in the folder of a comparison. The runs below it are those of its final models."""
MAY_DIFFER = ("seed", "versions", "data")
"""The parts of their specs in which the runs of a method of a cell may differ."""
WITHOUT_SOURCES = ("batches_per_update", "abstain")
"""Settings that do not matter to a run that draws nothing."""


@dataclass(frozen=True)
class Results:
    """All results that could be read, and one line for each problem or note."""

    cells: tuple[CellRuns, ...]
    others: tuple[Source, ...]
    """What plugins read from files beside the outcomes."""
    faults: tuple[str, ...]
    """Files and runs that were left out, and why."""
    notes: tuple[str, ...]
    """Mixed versions or devices, missing and diverged seeds."""
    paths: tuple[Path, ...] = ()
    """The paths from which they were read, as given."""

    @property
    def runs(self) -> int:
        """How many runs were read."""
        return sum(len(method.runs) for cell in self.cells for method in cell.methods.values())

    @property
    def untold(self) -> tuple[CellRuns, ...]:
        """The cells without remarks. Those of other cells are stored, and are not computed from their runs."""
        return tuple(cell for cell in self.cells if cell.remarks is None)

    def remarked(self, remarks: Remarks) -> "Results":
        """The same with remarks on the cell that they name. Statistics are stored by method, and not computed again."""
        cells = (replace(cell, remarks=remarks) if cell.key == remarks.cell else cell for cell in self.cells)
        return replace(self, cells=tuple(cells))

    def of(self, experiment: str | None = None, regime: str | None = None) -> list[CellRuns]:
        """The cells of an experiment, a regime, or both."""
        return [cell for cell in self.cells if experiment in (None, cell.experiment) and regime in (None, cell.regime)]


def load(paths: Sequence[Path]) -> Results:
    """Read files of outcomes, files of plugins, folders of runs, and folders of any of these."""
    outputs()  # plugins also register the order of experiments, and readers of their files
    faults: list[str] = []
    others: dict[str, Source] = {}
    remarks: list[tuple[Path, Remarks]] = []
    stale: list[str] = []
    files: dict[int, Path] = {}
    runs: list[Outcome] = []
    for path in _found(paths, faults):
        try:
            if path.name.endswith((outcome.LINES, outcome.PACKED)):
                inside = [_fitting(run, path) for run in outcome.read(path)]
                files |= {id(run): path for run in inside}
                runs += inside
            elif path.name == REMARKS:
                if (told := read_remarks(path)) is not None:
                    remarks.append((path, told))
                else:
                    stale.append(f"{path}: was written by an earlier metasched; the verdict is computed from the runs")
            else:
                if path.name not in READERS:
                    raise DataError(
                        f"{path}: is not a file of outcomes; give .jsonl files, run folders, or folders of them"
                    )
                item = READERS[path.name](path)
                if item.key in others:
                    faults.append(f"{path}: {item.key} is already in an earlier file; left out")
                others.setdefault(item.key, item)
        except MetaschedError as error:
            faults.append(f"{error}; left out")
    cells: dict[str, CellRuns] = {}
    left_out: dict[Path, list[str]] = {}
    for members in outcome.by_cell(runs).values():
        cell = _cell(members, lambda run, why: left_out.setdefault(files[id(run)], []).append(why))
        same = sum(key == cell.key or key.startswith(f"{cell.key} (") for key in cells)
        mark = f" ({same + 1})" if same else ""
        names = {name: getattr(cell, name) + mark for name in ("key", "variant", "title")}
        cells[cell.key + mark] = replace(cell, **names)
    for path, found in remarks:
        if found.cell in cells and found.fits(cells[found.cell].methods, cells[found.cell].seeds):
            cells[found.cell] = replace(cells[found.cell], remarks=found)
        else:
            stale.append(f"{path}: does not belong to these runs; run the comparison again")
    faults += [f"{path}: {len(whys)} of its runs are left out: {whys[0]}" for path, whys in left_out.items()]
    if not cells and not others:
        first = f"; {faults[0]}" if faults else ""
        raise DataError(f"{', '.join(map(str, paths)) or 'no path given'}: no results to report{first}")
    ordered = tuple(sorted(cells.values(), key=_rank))
    beside = tuple(sorted(others.values(), key=lambda item: _known_first(EXPERIMENTS.names, item.experiment)))
    return Results(ordered, beside, tuple(faults), (*_notes(ordered, beside), *stale), tuple(paths))


def of_outcomes(runs: Iterable[Outcome]) -> Results:
    """Order runs that are in memory, as those of files are."""
    cells = tuple(_cell(members, lambda _, __: None) for members in outcome.by_cell(runs).values())
    return Results(cells, (), (), tuple(_notes(cells, ())))


def _found(paths: Sequence[Path], faults: list[str]) -> Iterator[Path]:
    """The files to read under ``paths``, each once, in a stable order."""
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            faults.append(f"{path}: no such file or folder; left out")
            continue
        for item in [path] if path.is_file() else _within(path, faults):
            if item.resolve() not in seen:
                seen.add(item.resolve())
                yield item


def _within(folder: Path, faults: list[str]) -> Iterator[Path]:
    """The files of a folder: for a run only its outcome, for a comparison its outcomes and remarks, otherwise all
    results.
    """
    if _is_comparison(folder):
        there = [folder / name for name in COMPARED if (folder / name).exists()]
        if folder / COMPARED[0] not in there:
            faults.append(f"{folder}: the comparison has not ended and is left out; run its command again")
        yield from there
        return
    run = (folder / RUN).exists()
    if run and not any(next(folder.rglob(name), None) for name in OWN):
        faults.append(f"{folder}: has no finished run and is left out; continue with 'metasched resume {folder}'")
    for item in sorted(folder.iterdir(), key=lambda item: natural_order(item.name)):
        if item.name.startswith("."):
            continue
        if item.is_dir():
            yield from _within(item, faults)
        elif item.name in (*OWN, *READERS, REMARKS) or (
            not run and item.name.endswith((outcome.LINES, outcome.PACKED)) and item.name != METRICS
        ):
            yield item


def _is_comparison(folder: Path) -> bool:
    """Whether a folder is that of a comparison with its own outcomes. Earlier ones contain only runs."""
    try:
        known = untrusted.read_json(folder / COMPARISON, dict[str, Any], "give the command of the comparison again")
    except MetaschedError:
        return (folder / COMPARISON).exists() and (folder / COMPARED[0]).exists()
    return bool(known.get("format") == COMPARISON_FORMAT)


def _fitting(run: Outcome, path: Path) -> Outcome:
    """The same run, if its values by task and class have as many entries as there are tasks and classes."""
    tasks, final = len(run.about.tasks), run.final
    by_label = (final and final.drawn_by_label) or ()
    fits = (
        len(run.drawn or run.about.tasks) == tasks
        and len(run.rewards or run.about.tasks) == tasks
        and len((final and final.test_accuracy_by_class) or run.about.classes) == len(run.about.classes)
        and len(by_label or run.about.tasks) == tasks
        and len({len(row) for row in by_label}) <= 1
        and all(len(row) == tasks + 1 for row in run.schedule or ())
        and all(share <= 1 for share in (*run.test_accuracy, *([final.test_accuracy] if final else [])))
    )
    if not fits:
        raise DataError(f"{path}: the numbers of {run.method}, seed {run.spec.seed}, do not fit its tasks and classes")
    return run


def _cell(runs: Sequence[Outcome], leave_out: Callable[[Outcome, str], object]) -> CellRuns:
    """Runs that are compared with each other. ``leave_out`` is called for those that are not, with the reason."""
    first = runs[0]
    about = next((run.about for run in runs if run.about.useful), first.about)
    methods: dict[str, list[Outcome]] = {}
    for run in runs:
        name = run.method if run.study else _called(run, first)
        same = methods.setdefault(name, [])
        differs = run.spec.differences(same[0].spec) if same else {}
        parts = [path for path in differs if path.split(".")[0] not in MAY_DIFFER]
        if run.spec.seed in [other.spec.seed for other in same]:
            leave_out(run, f"{name}, seed {run.spec.seed}, occurs twice")
        elif parts or _rows_of(run.about) != _rows_of(about):
            what = part_in_words(parts[0]) if parts else "data"
            leave_out(run, f"{name}, seed {run.spec.seed}, differs in {what} from the runs before it")
        else:
            same.append(run)
    members = [run for same in methods.values() for run in same]
    options = ", ".join(f"{key}={value}" for key, value in first.spec.data.options.items())
    study = first.study or Study(
        experiment=first.about.name,
        regime=OWN_RUNS,
        variant=options or OWN_RUNS,
        cell=f"{first.about.name}/{options or OWN_RUNS}",
        title=f"{first.about.name}, {OWN_RUNS}" + (f", {options}" if options else ""),
    )
    origin = Origin(
        created=first.origin.created,
        command="; ".join(dict.fromkeys(run.origin.typed for run in members)),
        device=", ".join(dict.fromkeys(run.origin.device for run in members)),
    )
    chance = first.metric.guess(len(first.about.classes), first.about.deviation)
    by_name = {name: MethodRuns(name, tuple(same), chance) for name, same in methods.items() if same}
    setting = (study.cell, study.experiment, study.regime, study.variant, study.title, study.threshold)
    return CellRuns(*setting, about, origin, first.spec.versions, by_name)


def _rows_of(about: About) -> About:
    """What must be equal in runs that are compared. Earlier runs do not say which tasks are useful.

    The deviation is that of the labelled rows, which may differ between seeds.
    """
    return msgspec.structs.replace(about, useful=(), deviation=None)


def _called(run: Outcome, first: Outcome) -> str:
    """The name of an own run: its method, its scheduler's options, and the settings that differ from ``first``."""
    extra = dict(run.spec.options) if run.method == run.spec.scheduler else {}
    for path, (mine, _) in run.spec.differences(first.spec).items():
        part, _, setting = path.partition(".")
        implied = run.method == TARGET_ONLY and setting in WITHOUT_SOURCES
        if part in ("settings", "learner", "network", "reward", "abstain") and not implied:
            extra[setting or part] = mine
    return run.method + (f" ({', '.join(f'{key} {value}' for key, value in extra.items())})" if extra else "")


def _known_first(names: Sequence[str], name: str) -> tuple[int, str]:
    """Sort key: registered names in their order, then other names alphabetically."""
    return (names.index(name) if name in names else len(names), name)


def _rank(cell: CellRuns) -> tuple[Any, ...]:
    regime = _known_first(EXPERIMENTS.regimes, cell.regime)
    return _known_first(EXPERIMENTS.names, cell.experiment), regime, natural_order(cell.variant), cell.key


def _notes(cells: Sequence[CellRuns], others: Sequence[Source]) -> Iterable[str]:
    """What a reader must know about the origin of the numbers."""
    runs = [run for cell in cells for method in cell.methods.values() for run in method.runs]
    versions = [*(run.spec.versions for run in runs), *(item.versions for item in others)]
    for package in ("metasched", "jax", "python"):
        yield from _mixed(f"versions of {package}", [packages.get(package, "unknown") for packages in versions])
    yield from _mixed("devices", [*(run.origin.device for run in runs), *(item.origin.device for item in others)])
    for cell in cells:
        for method in cell.methods.values():
            missing = [str(seed) for seed in cell.seeds if seed not in method.seeds]
            if missing:
                what = f"{cell.key}: {method.name} lacks seeds {', '.join(missing)}"
                yield f"{what}; it is compared on the seeds that both have"
            diverged = [(str(run.spec.seed), run.diverged) for run in method.runs if run.diverged]
            if diverged:
                seeds = f"seed{'s' * (len(diverged) > 1)} {', '.join(seed for seed, _ in diverged)}"
                why = f"at update {diverged[0][1].update}: {diverged[0][1].cause}"
                what = f"{cell.key}: {method.name} diverged with {seeds} ({why})"
                yield f"{what}; that counts as chance accuracy and as never reaching a threshold"


def _mixed(what: str, values: Sequence[str]) -> Iterable[str]:
    kinds = Counter(values)
    if len(kinds) > 1:
        listed = ", ".join(f"{kind} ({count})" for kind, count in kinds.items())
        yield f"these results come from different {what}: {listed}"
