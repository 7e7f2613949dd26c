"""Rewrite what the README shows of the results: the figure and the table between its markers.

python tools/readme.py            # rewrite
python tools/readme.py --check    # exit 1 if the table is not that of the results
"""

import sys
from pathlib import Path

from metasched.optional import require
from metasched.report import compare, figures, page, results
from metasched.report.cells import TARGET_ONLY, Cell

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
        static, active, single = compare.best_static(cell), compare.best_active(cell), compare.best_single(cell)
        found = compare.against_best_static(cell)[str(active)]
        gap = found.difference
        words = [
            f"{cell.label}{', paper’s protocol' * (cell.regime == 'paper')}",
            accuracy(cell, TARGET_ONLY),
            f"{accuracy(cell, str(static))} {static}",
            f"{accuracy(cell, str(active))} {active}",
            f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]",
            f"{accuracy(cell, str(single))} {str(single).replace('single:', 'task ')}",
        ]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def accuracy(cell: Cell, name: str) -> str:
    """The interquartile mean of final test accuracies."""
    found = compare.score(cell, name)
    return "–" if found is None else f"{found.value:.3f}"


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
    (figure,) = figures.few_label(digits)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    FIGURE.write_text(require("vl_convert", "report").vegalite_to_svg(page.whole_spec(figure)))


if __name__ == "__main__":
    main()
