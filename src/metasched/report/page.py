"""One self-contained page from results, and beside it the figures and tables as files."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from metasched.errors import RunError, unknown
from metasched.experiments.outputs import OUTPUTS
from metasched.files import write_error, write_whole
from metasched.optional import require
from metasched.report import compare, figures, orderings, own_tables, paper_tables, sheets  # noqa: F401 (all makers)
from metasched.report.cells import Source
from metasched.report.figures import Figure, Panel
from metasched.report.headlines import Headline, headlines
from metasched.report.pieces import MAKERS, UnavailableError
from metasched.report.results import Results
from metasched.report.sheets import Number, Sheet

FIGURE_WIDTH = 300
FIGURE_COLUMNS = 3


class Report(NamedTuple):
    """Everything on the page."""

    results: Results
    headlines: tuple[Headline, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Sheet, ...]
    missing: tuple[tuple[str, str], ...]
    """Names of figures and tables that could not be made, and why."""


def check_names(only: Sequence[str]) -> None:
    """Refuse a name that no figure or table has."""
    for name in only:
        if name not in OUTPUTS:
            raise unknown("figure or table", name, OUTPUTS)


def make(name: str, results: Results) -> Sequence[Figure | Sheet]:
    """The figures or tables of that name."""
    if name not in MAKERS:
        raise LookupError(f"{name} is declared in experiments/outputs.py, but no function of report/ @makes it")
    return MAKERS[name](OUTPUTS[name], results)


def build(results: Results, only: Sequence[str] = ()) -> Report:
    """Make every figure and table, or only those named; what lacks data is listed with the reason."""
    check_names(only)
    pieces: list[Figure | Sheet] = []
    missing: list[tuple[str, str]] = []
    for name in only or OUTPUTS:
        try:
            pieces += make(name, results)
        except UnavailableError as reason:
            missing.append((name, str(reason)))
    drawn = tuple(piece for piece in pieces if isinstance(piece, Figure))
    tabled = tuple(sheets.without_gaps(piece) for piece in pieces if isinstance(piece, Sheet))
    return Report(results, tuple(headlines(results)), drawn, tabled, tuple(missing))


def write(report: Report, out: Path, on_step: Callable[[int, int], object] = max) -> Path:
    """Write the page and, in a folder beside it, every figure (SVG, PNG, PDF) and table (CSV, LaTeX)."""
    folder = out.with_name(f"{out.stem}_files")
    total = len(report.figures) + len(report.tables) + 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{folder}: cannot write ({error.strerror or error}); choose another --out") from None
    for done, figure in enumerate(report.figures):
        on_step(done, total)
        _save_figure(figure, folder)
    for sheet in report.tables:
        _put(folder / f"{file_name(sheet.key)}.csv", sheets.as_csv(sheet).encode())
        _put(folder / f"{file_name(sheet.key)}.tex", sheets.as_latex(sheet).encode())
    on_step(total - 1, total)
    write_whole(out, render(report, folder.name).encode())
    on_step(total, total)
    return folder


def file_name(key: str) -> str:
    """A key as the name of a file and of a place on the page."""
    return re.sub(r"[^A-Za-z0-9.=-]+", "-", key).strip("-.").lower() or "piece"


def _save_figure(figure: Figure, folder: Path) -> None:
    convert = require("vl_convert", "report")
    svg = convert.vegalite_to_svg(whole_spec(figure))
    name = file_name(figure.key)
    _put(folder / f"{name}.svg", svg.encode())
    _put(folder / f"{name}.png", convert.svg_to_png(svg, scale=2))
    _put(folder / f"{name}.pdf", convert.svg_to_pdf(svg))


def _put(path: Path, content: bytes) -> None:
    """Write a file that can be made again at any time: no waiting for the disk."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise write_error(path, error) from None


def whole_spec(figure: Figure) -> dict[str, Any]:
    """All panels of a figure side by side with their legend, for a file, which has no use for invisible points."""
    altair = require("altair", "report")
    panels = [panel.chart.properties(title=panel.title, width=FIGURE_WIDTH) for panel in figure.panels]
    chart = altair.concat(*panels, columns=FIGURE_COLUMNS).properties(
        title=sheets.caption(figure.title, figure.sources), background="white"
    )
    spec: dict[str, Any] = chart.to_dict(validate=False)
    for panel in spec["concat"]:
        panel["layer"] = [layer for layer in panel["layer"] if layer["mark"].get("opacity") != 0]
    spec["datasets"] = {name: rows for panel in figure.panels for name, rows in panel.data.items()}
    return spec


def panel_spec(panel: Panel) -> dict[str, Any]:
    """A panel for the page: as wide as its place, without a legend (the page has one) or a background."""
    spec: dict[str, Any] = panel.chart.to_dict(validate=False)
    for layer in spec.get("layer", [spec]):
        for channel in ("color", "strokeDash"):
            if channel in layer.get("encoding", {}):
                layer["encoding"][channel]["legend"] = None
    spec |= {
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "background": None,
        "description": panel.alt,
        "datasets": panel.data,
    }
    return spec


def render(report: Report, files: str) -> str:
    """The page as text; ``files`` is the folder beside it that its links point to."""
    jinja = require("jinja2", "report")
    convert = require("vl_convert", "report")
    environment = jinja.Environment(
        loader=jinja.PackageLoader("metasched", "report/template"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja.StrictUndefined,
    )
    environment.filters |= {"file_name": file_name, "sort_key": _sort_key, "seeds": seeds_text}
    environment.globals |= {"caption": sheets.caption, "is_number": lambda value: isinstance(value, Number)}
    specs = {
        f"{file_name(figure.key)}-{place}": panel_spec(panel)
        for figure in report.figures
        for place, panel in enumerate(figure.panels, start=1)
    }
    page: str = environment.get_template("page.html").render(
        report=report,
        plan=_plan(report.results),
        results=report.results,
        files=files,
        in_folds=[sheet for sheet in report.tables if sheet.folded],
        in_sight=[sheet for sheet in report.tables if not sheet.folded],
        style=_own("page.css"),
        script=_own("page.js"),
        vega=_inside_script(convert.javascript_bundle()) if specs else "",
        specs=_inside_script(json.dumps(specs, allow_nan=False, separators=(",", ":"), ensure_ascii=True)),
    )
    return page


def _plan(results: Results) -> str:
    """Whether something was to be shown, in a sentence."""
    planned = sum(compare.planned(cell) is not None for cell in results.cells)
    if not planned:
        return own_tables.NONE_NAMED[0].upper() + own_tables.NONE_NAMED[1:] + "."
    return f"{planned} of {len(results.cells)} cells have a planned contrast; every other comparison is exploratory."


def _own(name: str) -> str:
    """A file of ours that is put into the page."""
    return (Path(__file__).parent / "template" / name).read_text(encoding="utf-8")


def _inside_script(text: str) -> str:
    """Text that cannot end the script element it stands in; in JSON and in JavaScript strings it means the same."""
    return re.sub(r"<(?=/?script|!--)", r"\\u003c", text, flags=re.IGNORECASE)


def _sort_key(value: str | Number) -> str:
    if isinstance(value, str):
        return value
    return "" if value.value != value.value else f"{value.value:.10g}".replace("inf", "Infinity")


def seeds_text(source: Source) -> str:
    """How many seeds, and which.

    >>> ranges([0, 1, 2, 5])
    '0–2, 5'
    """
    count = len(source.seeds)
    return f"{count} seed{'s' if count != 1 else ''} ({ranges(source.seeds)})" if count else ""


def ranges(numbers: Sequence[int]) -> str:
    """Whole numbers in increasing order, runs of neighbours drawn together."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
