"""Rewrite what is shown of the results: tables and figures of README and docs/results.md, the numbers behind ``auto``.

python tools/readme.py            # rewrite
python tools/readme.py --check    # exit 1 if something is not that of the results
"""

import json
import sys
from pathlib import Path

from metasched.optional import require
from metasched.report import compare, page, results, sheets, statistics
from metasched.report.cells import TARGET_ONLY, USEFUL, Cell, Method
from metasched.runs.choices import BASELINE

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
MEASURED = ROOT / "src" / "metasched" / "learners" / "measured.json"
SHOWN = (
    *(f"digits/few-label-{labels}" for labels in (10, 30, 100)),
    *(f"digits/robust-{kind}" for kind in ("40", "80", "irrelevant")),
    *(f"{name}/few-label-30" for name in ("cifar", "weather", "weather-points")),
    *("digits/paper-B20", "cifar/paper-own-heads", "weather/paper-U850"),
)


LEARNERS = ("Algorithm 1", "joint")
WORDS = ("uniform", "ours", "ours − uniform", "useful alone")


DRAWN = (("few-label", ("digits",), page.FIGURE_COLUMNS), ("sources+schedules", ("scripts/joint-30",), 1))
"""Outputs of the report that are drawn, one below the other where there are several, of which results."""


def sources(cells: dict[str, Cell]) -> str:
    """One line for each set with 30 labels: both learners, ours against uniform."""
    head = ["30 labels", "target only", *(f"{learner}: {word}" for learner in LEARNERS for word in WORDS)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for key, joint in cells.items():
        experiment, name = key.split("/")
        if not name.startswith("joint-30"):
            continue
        variant = joint.variant.removeprefix("joint, 30 labels").removeprefix(", ")
        words = [f"{experiment}{variant and f', {variant}'}", plain(joint.methods.get(TARGET_ONLY))]
        for cell in (cells[f"{experiment}/{name.replace('joint', 'meta')}"], joint):
            ours, uniform = expected(cell)
            words += [plain(uniform), f"**{plain(ours)}**", str(sheets.signed(compare.difference(ours, uniform)))]
            words.append(plain(cell.methods.get(USEFUL)))
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def contrasts(cells: dict[str, Cell]) -> str:
    """One line for each cell with a planned contrast: ours against uniform, between no source and the useful ones."""
    head = [
        "target only",
        "uniform",
        "**ours**",
        "ours − uniform",
        "fewer rows",
        "best static",
        "best single",
        "useful",
    ]
    lines = [f"|  | {' | '.join(head)} |", "|---|---|---|---|---|---|---|---|---|"]
    for cell in cells.values():
        if compare.named(cell) is None:
            continue
        ours, uniform = expected(cell)
        words = [
            cell.label,
            plain(cell.methods.get(TARGET_ONLY)),
            plain(uniform),
            f"**{plain(ours)}**",
            str(sheets.signed(compare.difference(ours, uniform))),
            str(sheets.ratio(compare.gain_to_final(uniform, ours))),
            told(compare.best_static(cell)),
            told(compare.best_single(cell)).replace("single:", "task "),
            plain(cell.methods.get(USEFUL)),
        ]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


ACTIVE = ("ucb", "gittins", "mdp", "exp3-alignment", "ucb-transfer", "gittins-transfer", "mdp-transfer")


def others(cells: dict[str, Cell]) -> str:
    """Final accuracy of every active method beside ours, 30 labels."""
    names = (*ACTIVE, "thompson-transfer")
    lines = [f"|  | {' | '.join(names[:-1])} | **ours** |", "|---" * (len(names) + 1) + "|"]
    for key, cell in cells.items():
        if cell.regime == "sources" and "-30" in key:
            lines.append(f"| {cell.label} | {' | '.join(plain(cell.methods.get(name)) for name in names)} |")
    return "\n".join(lines) + "\n"


ORDERED = ("gittins-transfer", "mdp-transfer")
BLIND = ("thompson-transfer", "ucb-transfer")


def order(cells: dict[str, Cell]) -> str:
    """On activity: schedulers that know the label order less those that do not, three target users together."""
    lines = ["|  | Algorithm 1 | joint |", "|---|---|---|"]
    for knowing in ORDERED:
        for blind in BLIND:
            gaps = [of_order(cells, learner, knowing, blind) for learner in ("meta", "joint")]
            words = [str(sheets.signed(gap)) for gap in gaps]
            lines.append(f"| {knowing} − {blind} | {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def of_order(cells: dict[str, Cell], learner: str, knowing: str, blind: str) -> statistics.Interval:
    """Final accuracy of one less that of the other on all target users of activity together."""
    mine = [cell for key, cell in cells.items() if key.startswith(f"activity/{learner}-30")]
    return statistics.mean_of_means([compare.differences(cell.methods[knowing], cell.methods[blind]) for cell in mine])


def expected(cell: Cell) -> tuple[Method, Method]:
    """The method named beforehand and uniform."""
    pair = compare.named(cell)
    assert pair is not None, cell.key
    return pair


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


def measured(cells: dict[str, Cell]) -> str:
    """By learner and scheduler on transfer, 30 labels: how far above uniform it ended; what knowing the order adds."""
    gains: dict[str, dict[str, dict[str, float]]] = {}
    for key, cell in cells.items():
        for name, method in cell.methods.items():
            learner, scheduler = method.runs[0].spec.learner, name.removesuffix("-transfer")
            gap = compare.difference(method, cell.methods.get(BASELINE))
            if key == f"{cell.experiment}/{learner}-30" and scheduler != name and gap:
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
    cells = {cell.key: cell for cell in found.cells}
    wanted = {
        ROOT / "README.md": {"results": table, "sources": sources},
        ROOT / "docs" / "results.md": {"contrasts": contrasts, "others": others, "order": order},
    }
    for path, tables in wanted.items():
        text = path.read_text()
        fresh = text
        for name, make in tables.items():
            fresh = between(fresh, name, make(cells))
        if "--check" not in sys.argv:
            path.write_text(fresh)
        elif fresh != text:
            sys.exit(f"{path.relative_to(ROOT)}: a table is not that of results/; run 'make results'")
    if "--check" in sys.argv:
        if measured(cells) != MEASURED.read_text():
            sys.exit(f"{MEASURED.name}: not that of results/; run 'make results'")
        return
    MEASURED.write_text(measured(cells))
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name, experiments, columns in DRAWN:
        kept = [cell for key, cell in cells.items() if key in experiments or cell.experiment in experiments]
        alone = results.Results(tuple(kept), found.evidence, (), ())
        figures = [figure for output in name.split("+") for figure in page.make(output, alone)]
        whole = figures[0]._replace(panels=tuple(panel for figure in figures for panel in figure.panels))
        drawn = require("vl_convert", "report").vegalite_to_svg(page.whole_spec(whole, columns))
        (FIGURES / f"{name.partition('+')[0]}-{experiments[0].partition('/')[0]}.svg").write_text(drawn)


if __name__ == "__main__":
    main()
