"""Rewrite what the README shows of the results: the figure and the table between its markers.

python tools/readme.py            # rewrite
python tools/readme.py --check    # exit 1 if the table is not that of the results
"""

import sys
from pathlib import Path

from metasched.optional import require
from metasched.report import compare, page, results, sheets
from metasched.report.cells import TARGET_ONLY, Cell, Method

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- results: begin -->\n", "<!-- results: end -->\n"
FIGURE = ROOT / "docs" / "figures" / "few-label-digits.svg"
SHOWN = (
    *(f"digits/few-label-{labels}" for labels in (10, 30, 100)),
    *(f"digits/robust-{kind}" for kind in ("40", "80", "irrelevant")),
    *(f"{name}/few-label-30" for name in ("cifar", "weather", "weather-points")),
    *("digits/paper-B20", "cifar/paper-own-heads", "weather/paper-U850"),
)


def table(cells: dict[str, Cell]) -> str:
    """One line for each cell shown: the control, the best static, the best active scheduler, the best single task."""
    head = ["", "target only", "best static", "best active", "active − static", "best single task"]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|---|"]
    for key in SHOWN:
        cell = cells[key]
        static, active = compare.best_static(cell), compare.best_active(cell)
        words = [
            f"{cell.label}{', paper’s protocol' * (cell.regime == 'paper')}",
            told(cell.methods[TARGET_ONLY]).removesuffix(f" {TARGET_ONLY}"),
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


def main() -> None:
    """Rewrite, or check."""
    found = results.load([ROOT / "results"])
    path = ROOT / "README.md"
    text = path.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    wanted = before + BEGIN + table({cell.key: cell for cell in found.cells}) + END + after
    if "--check" in sys.argv:
        sys.exit(0 if wanted == text else "README.md: the table is not that of results/; run 'make results'")
    path.write_text(wanted)
    digits = results.Results(tuple(cell for cell in found.cells if cell.experiment == "digits"), found.evidence, (), ())
    (figure,) = page.make("few-label", digits)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    FIGURE.write_text(require("vl_convert", "report").vegalite_to_svg(page.whole_spec(figure)))


if __name__ == "__main__":
    main()
