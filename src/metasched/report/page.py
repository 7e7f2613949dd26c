"""One self-contained page from results, the verdict first, with the figures and tables also as files."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from metasched.errors import RunError, unknown
from metasched.files import write_error, write_whole
from metasched.optional import require
from metasched.report import tables
from metasched.report.cells import Source
from metasched.report.figures import Figure, Panel
from metasched.report.outputs import OF_ANY_RUNS, Output, UnavailableError, outputs
from metasched.report.results import Results
from metasched.report.tables import Number, Table
from metasched.report.verdict import Opening, opening

TEMPLATE = Path(__file__).parent / "template"
FIGURE_WIDTH = 300
FIGURE_COLUMNS = 3
OURS = (b'<meta name="generator" content="metasched">', b">Skip to the verdict</a>")
"""Texts near the beginning of our pages. Pages of version 0.1 have only the second."""
Piece = Figure | Table


class Made(NamedTuple):
    """An output, and the figures or tables that it made."""

    output: Output
    pieces: tuple[Piece, ...]


class Report(NamedTuple):
    """Everything on the page: the verdict, the figures next to it, and for each output what is folded below."""

    results: Results
    opening: Opening
    first: tuple[Made, ...]
    folded: tuple[Made, ...]
    missing: tuple[tuple[str, str], ...]
    """Names of figures and tables that could not be made, and why."""
    asked: bool
    """Whether only some outputs were asked for. Then they are not folded."""

    @property
    def compared(self) -> bool:
        """Whether this is the page of one comparison."""
        return len(self.results.cells) == 1 and self.results.cells[0].remarks is not None and not self.asked

    @property
    def figures(self) -> list[Figure]:
        """All of them."""
        return [piece for piece in self._pieces() if isinstance(piece, Figure)]

    @property
    def tables(self) -> list[Table]:
        """All of them."""
        return [piece for piece in self._pieces() if isinstance(piece, Table)]

    def _pieces(self) -> Iterable[Piece]:
        return (piece for made in (*self.first, *self.folded) for piece in made.pieces)


def check_names(only: Sequence[str]) -> None:
    """Refuse an unknown name of a figure or table."""
    for name in only:
        if name not in outputs():
            raise unknown("figure or table", name, outputs())


def make(name: str, results: Results) -> Sequence[Piece]:
    """Make the figures or tables of this name."""
    output = outputs()[name]
    return output.make(output, results)


def build(results: Results, only: Sequence[str] = ()) -> Report:
    """Make every figure and table, or only the named ones. Those without data are listed with the reason."""
    check_names(only)
    some_own = any(cell.own for cell in results.cells)
    own = not results.others and all(cell.own for cell in results.cells)
    names = only or [
        name
        for name, output in outputs().items()
        if (not own or output.section in OF_ANY_RUNS) and (some_own or name not in ("runs", "methods", "sources-worth"))
    ]
    found: list[Made] = []
    missing: list[tuple[str, str]] = []
    for name in names:
        try:
            pieces = make(name, results)
            shown = (tables.without_gaps(piece) if isinstance(piece, Table) else piece for piece in pieces)
            found.append(Made(outputs()[name], tuple(shown)))
        except UnavailableError as reason:
            missing.append((name, str(reason)))
    curves = [name for name, output in outputs().items() if output.curves]
    wanted = [["contrasts"], curves, ["schedules"]] + [["methods"], ["sources-worth"]] * (len(results.cells) == 1)
    made = {one.output.name: one for one in found}
    first = (next((made[name] for name in names if name in made), None) for names in wanted)
    above = tuple(Made(one.output, one.pieces[:1]) for one in first if one)
    seen = {piece.key for one in above for piece in one.pieces}
    rest = (Made(one.output, tuple(piece for piece in one.pieces if piece.key not in seen)) for one in found)
    below = tuple(one for one in rest if one.pieces)
    return Report(results, opening(results), above, below, tuple(missing) if only or not own else (), bool(only))


def check_place(out: Path) -> None:
    """Refuse to write the page over a file that is not one of our pages."""
    if not out.is_file():
        return
    try:
        with out.open("rb") as stream:
            begin = stream.read(2**16)
    except OSError as error:
        raise RunError(f"{out}: cannot be read ({error.strerror or error}); choose another name for the page") from None
    if begin and not any(mark in begin for mark in OURS):
        raise RunError(f"{out}: already exists and was not written by metasched; choose another name, or remove it")


def write(report: Report, out: Path, on_step: Callable[[int, int], object] = max) -> Path:
    """Write the page and, in a folder next to it, every figure (SVG, PNG, PDF) and table (CSV, LaTeX)."""
    check_place(out)
    folder = out.with_name(f"{out.stem}_files")
    total = len(report.figures) + len(report.tables) + 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{folder}: cannot write ({error.strerror or error}); choose another --out") from None
    for done, figure in enumerate(report.figures):
        on_step(done, total)
        _save_figure(figure, folder)
    for table in report.tables:
        _put(folder / f"{file_name(table.key)}.csv", tables.as_csv(table).encode())
        _put(folder / f"{file_name(table.key)}.tex", tables.as_latex(table).encode())
    on_step(total - 1, total)
    write_whole(out, render(report, folder.name).encode())
    on_step(total, total)
    return folder


def file_name(key: str) -> str:
    """A key as the name of a file and of an anchor on the page."""
    return re.sub(r"[^A-Za-z0-9.=-]+", "-", key).strip("-.").lower() or "piece"


def _save_figure(figure: Figure, folder: Path) -> None:
    convert = require("vl_convert", "report")
    svg = convert.vegalite_to_svg(whole_spec(figure))
    name = file_name(figure.key)
    _put(folder / f"{name}.svg", svg.encode())
    _put(folder / f"{name}.png", convert.svg_to_png(svg, scale=2))
    _put(folder / f"{name}.pdf", convert.svg_to_pdf(svg))


def _put(path: Path, content: bytes) -> None:
    """Write a file that can be made again at any time, without waiting for the disk. No link is followed."""
    try:
        path.unlink(missing_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise write_error(path, error) from None


def whole_spec(figure: Figure, columns: int = FIGURE_COLUMNS) -> dict[str, Any]:
    """All panels of a figure in this many columns, for a file."""
    altair = require("altair", "report")
    panels = [panel.plot.chart.properties(title=panel.title, width=FIGURE_WIDTH) for panel in figure.panels]
    chart = altair.concat(*panels, columns=columns).resolve_scale(
        color="independent", strokeDash="independent", opacity="independent", fill="independent"
    )
    chart = chart.properties(title=tables.caption(figure.title, figure.sources), background="white")
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec["datasets"] = {name: rows for panel in figure.panels for name, rows in panel.plot.data.items()}
    return spec


def panel_spec(panel: Panel) -> dict[str, Any]:
    """A panel for the page, which sets its width, without a background."""
    spec: dict[str, Any] = panel.plot.chart.to_dict(validate=False)
    return spec | {
        "autosize": {"type": "fit-x", "contains": "padding"},
        "background": None,
        "description": panel.alt,
        "datasets": panel.plot.data,
    }


def render(report: Report, files: str) -> str:
    """The page as text. ``files`` is the folder next to it that its links point to."""
    jinja = require("jinja2", "report")
    convert = require("vl_convert", "report")
    environment = jinja.Environment(
        loader=jinja.PackageLoader("metasched", "report/template"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja.StrictUndefined,
    )
    command = shlex.join(["metasched", "report", *map(str, report.results.paths), "--only"])
    environment.filters |= {"file_name": file_name, "sort_key": _sort_key, "origins": origins}
    environment.globals |= {"caption": tables.caption, "is_number": lambda value: isinstance(value, Number)}
    specs = {
        f"{file_name(figure.key)}-{index}": panel_spec(panel)
        for figure in report.figures
        for index, panel in enumerate(figure.panels, start=1)
    }
    titles = dict.fromkeys(output.section for output in outputs().values())
    sections = {title: [made for made in report.folded if made.output.section == title] for title in titles}
    above = [piece for made in report.first for piece in made.pieces if isinstance(piece, Figure)]
    groups = [panel.group for figure in above for panel in figure.panels if panel.group]
    page: str = environment.get_template("page.html").render(
        report=report,
        results=report.results,
        sections={title: members for title, members in sections.items() if members},
        groups=list(dict.fromkeys(groups)),
        command=command,
        files=files,
        style=(TEMPLATE / "page.css").read_text(encoding="utf-8"),
        script=(TEMPLATE / "page.js").read_text(encoding="utf-8"),
        vega=_inside_script(convert.javascript_bundle()) if specs else "",
        specs=_inside_script(json.dumps(specs, allow_nan=False, separators=(",", ":"), ensure_ascii=True)),
    )
    return page


def _inside_script(text: str) -> str:
    """Escape text so that it cannot end its script element. In JSON and in JavaScript strings its meaning does not
    change.
    """
    return re.sub(r"<(?=/?script|!--)", r"\\u003c", text, flags=re.IGNORECASE)


def _sort_key(value: str | Number) -> str:
    if isinstance(value, str):
        return value
    return "" if value.value != value.value else f"{value.value:.10g}".replace("inf", "Infinity")


def origins(sources: Sequence[Source]) -> list[dict[str, str]]:
    """Where numbers come from: ``cells`` made by one ``command``, and ``how``: seeds, device, versions."""
    groups: dict[tuple[str, str], list[str]] = {}
    for source in sources:
        versions = (f"{package} {source.versions.get(package, '?')}" for package in ("metasched", "jax"))
        count = f"{len(source.seeds)} seed{'s' * (len(source.seeds) != 1)} ({ranges(source.seeds)})"
        parts = [count if source.seeds else "", source.origin.device, *versions, "simulated data" * source.simulated]
        groups.setdefault((source.origin.command, ", ".join(filter(None, parts))), []).append(source.key)
    return [{"cells": ", ".join(keys), "command": command, "how": how} for (command, how), keys in groups.items()]


def ranges(numbers: Sequence[int]) -> str:
    """Whole numbers in increasing order, with neighbours joined to ranges.

    >>> ranges([0, 1, 2, 5])
    '0–2, 5'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
