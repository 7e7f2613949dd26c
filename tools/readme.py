"""Rewrite what the README shows of the results: the figures and the tables between its markers.

python tools/readme.py            # rewrite
python tools/readme.py --check    # exit 1 if the table is not that of the results
"""

import sys
from pathlib import Path

from metasched.optional import require
from metasched.report import compare, page, results, sheets
from metasched.report.cells import TARGET_ONLY, USEFUL, Cell, Method

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
SHOWN = (
    *(f"digits/few-label-{labels}" for labels in (10, 30, 100)),
    *(f"digits/robust-{kind}" for kind in ("40", "80", "irrelevant")),
    *(f"{name}/few-label-30" for name in ("cifar", "weather", "weather-points")),
    *("digits/paper-B20", "cifar/paper-own-heads", "weather/paper-U850"),
)


def sources(cells: dict[str, Cell]) -> str:
    """One line for each cell with a planned contrast: ours against uniform, between no source and the useful ones."""
    head = ["", "target only", "uniform", "**ours**", "ours − uniform", "fewer rows", "best static", "useful alone"]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|---|---|---|"]
    for cell in cells.values():
        pair = compare.planned(cell)
        if pair is None:
            continue
        ours, uniform = pair
        words = [
            cell.label,
            plain(cell.methods.get(TARGET_ONLY)),
            plain(uniform),
            f"**{plain(ours)}**",
            str(sheets.signed(compare.difference(ours, uniform))),
            str(sheets.ratio(compare.gain_to_final(uniform, ours))),
            told(compare.best_static(cell)),
            plain(cell.methods.get(USEFUL)),
        ]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def table(cells: dict[str, Cell]) -> str:
    """One line for each cell shown: the control, the best static, the best active scheduler, the best single task."""
    head = ["", "target only", "best static", "best active", "active − static", "best single task"]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|---|"]
    for key in SHOWN:
        cell = cells[key]
        static, active = compare.best_static(cell), compare.best_active(cell)
        words = [
            f"{cell.label}{', paper’s protocol' * (cell.regime == 'paper')}",
            plain(cell.methods[TARGET_ONLY]),
            told(static),
            told(active),
            str(sheets.signed(compare.difference(active, static))),
            told(compare.best_single(cell)).replace("single:", "task "),
        ]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def told(method: Method | None) -> str:
    """The interquartile mean of final test accuracies, and the name."""
    found = compare.score(method)
    return f"{found.value:.3f} {method.name}" if method and found else "–"


def plain(method: Method | None) -> str:
    """The interquartile mean alone."""
    found = compare.score(method)
    return f"{found.value:.3f}" if found else "–"


def between(text: str, name: str, content: str) -> str:
    """The text with ``content`` between the markers of that name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return before + begin + content + end + after


def main() -> None:
    """Rewrite, or check."""
    found = results.load([ROOT / "results"])
    path = ROOT / "README.md"
    text = path.read_text()
    cells = {cell.key: cell for cell in found.cells}
    wanted = between(between(text, "results", table(cells)), "sources", sources(cells))
    if "--check" in sys.argv:
        sys.exit(0 if wanted == text else "README.md: a table is not that of results/; run 'make results'")
    path.write_text(wanted)
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name, experiments in (("few-label", ("digits",)), ("sources", ("scripts",))):
        kept = tuple(cell for cell in found.cells if cell.experiment in experiments)
        (figure,) = page.make(name, results.Results(kept, found.evidence, (), ()))
        drawn = require("vl_convert", "report").vegalite_to_svg(page.whole_spec(figure))
        (FIGURES / f"{name}-{experiments[0]}.svg").write_text(drawn)


if __name__ == "__main__":
    main()
