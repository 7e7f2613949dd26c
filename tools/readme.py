"""Rewrite what is shown of the results: tables, numbers and figures of README and docs, the numbers behind ``auto``.

A table stands between ``<!-- contrasts: begin -->`` and ``<!-- contrasts: end -->``, a number in a sentence between
``<!-- = scripts/joint-30 ours -->`` and ``<!-- / -->``: a cell and a method, ``ours - uniform`` for a difference with
its interval, ``ours - uniform in points`` for hundredths alone.

python tools/readme.py            # rewrite
python tools/readme.py --check    # exit 1 if something is not that of the results
"""

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

from metasched.optional import require
from metasched.report import compare, page, results, tables
from metasched.report.cells import CellRuns, MethodRuns
from metasched.schedulers.resolve import BASELINE
from tables import BLIND, ORDERED, TABLES, expected, of_order, plain

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
MEASURED = ROOT / "src" / "metasched" / "learners" / "reference_results.json"
NUMBER = re.compile(r"(<!-- = (\S+) (.*?) -->).*?(<!-- / -->)", re.DOTALL)


class Drawing(NamedTuple):
    """Outputs of the report as one figure: of which results, in how many columns, under which titles if not theirs."""

    file: str
    outputs: tuple[str, ...]
    of: str
    columns: int
    title: str | None = None
    panels: tuple[str, ...] = ()


FIRST = Drawing(
    "sources-scripts",
    ("sources", "schedules"),
    "scripts/joint-30",
    2,
    "Twelve collections of digits and letters teach USPS, of which 30 rows have labels",
    ("How good the model gets", "Which source its rows come from"),
)
DRAWN = (
    Drawing("few-label-digits", ("few-label",), "digits", page.FIGURE_COLUMNS),
    FIRST,
    FIRST._replace(file="sources-scripts-tall", columns=1, title="Twelve sources teach one target"),
)


def filled(text: str, cells: dict[str, CellRuns]) -> str:
    """A page with every table and number that it marks."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
        if begin in text:
            before, rest = text.split(begin)
            _, after = rest.split(end)
            text = before + begin + make(cells) + end + after
    return NUMBER.sub(lambda mark: mark[1] + number(cells[mark[2]], mark[3]) + mark[4], text)


def number(cell: CellRuns, words: str) -> str:
    """The final accuracy of a method, or of one less another."""
    names, in_points, _ = words.partition(" in points")
    first, _, second = names.partition(" - ")
    if not second:
        return plain(method_of(cell, first))
    gap = compare.difference(method_of(cell, first), method_of(cell, second))
    assert gap is not None, (cell.key, words)
    return f"{abs(gap.value) * 100:.1f}" if in_points else str(tables.signed(gap))


def method_of(cell: CellRuns, name: str) -> MethodRuns:
    """A method by its name, ours by that."""
    return expected(cell)[0] if name == "ours" else cell.methods[name]


def measured(cells: dict[str, CellRuns]) -> str:
    """By learner and scheduler, 30 labels: how far above uniform it ended; what knowing the order adds."""
    gains: dict[str, dict[str, dict[str, float]]] = {}
    for key, cell in cells.items():
        for name, method in cell.methods.items():
            spec = method.runs[0].spec
            learner, scheduler = spec.learner, spec.scheduler
            gap = compare.difference(method, cell.methods.get(BASELINE))
            usual = f"{scheduler}-transfer" if learner == "meta" else scheduler
            active = method.family == "active" and name == usual
            if key == f"{cell.experiment}/{learner}-30" and active and gap:
                gains.setdefault(learner, {}).setdefault(scheduler, {})[cell.experiment] = round(gap.value, 3) + 0.0
    order = {
        learner: {
            knowing.removesuffix("-transfer"): {
                blind.removesuffix("-transfer"): [
                    round(end, 3) + 0.0 for end in of_order(cells, learner, knowing, blind)
                ]
                for blind in BLIND
            }
            for knowing in ORDERED
        }
        for learner in gains
    }
    return json.dumps({"gains": gains, "order": order}, indent=2) + "\n"


def main() -> None:
    """Rewrite, or check."""
    found = results.load([ROOT / "results"])
    cells = {cell.key: cell for cell in found.cells}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text()
        fresh = filled(text, cells)
        if "--check" not in sys.argv:
            path.write_text(fresh)
        elif fresh != text:
            sys.exit(f"{path.relative_to(ROOT)}: a table or number is not that of results/; run 'make results'")
    if "--check" in sys.argv:
        if measured(cells) != MEASURED.read_text():
            sys.exit(f"{MEASURED.name}: not that of results/; run 'make results'")
        return
    MEASURED.write_text(measured(cells))
    FIGURES.mkdir(parents=True, exist_ok=True)
    for drawing in DRAWN:
        (FIGURES / f"{drawing.file}.svg").write_text(drawn(drawing, found))


def drawn(drawing: Drawing, found: results.Results) -> str:
    """A figure as SVG."""
    cells = tuple(cell for cell in found.cells if drawing.of in (cell.key, cell.experiment))
    alone = results.Results(cells, found.others, (), ())
    figures = [figure for output in drawing.outputs for figure in page.make(output, alone)]
    panels = tuple(panel for figure in figures for panel in figure.panels)
    if drawing.panels:
        panels = tuple(panel._replace(title=title) for panel, title in zip(panels, drawing.panels, strict=True))
    whole = figures[0]._replace(title=drawing.title or figures[0].title, panels=panels)
    return str(require("vl_convert", "report").vegalite_to_svg(page.whole_spec(whole, drawing.columns)))


if __name__ == "__main__":
    main()
