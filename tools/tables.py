"""The tables of README and docs that show results, each a function of all cells by name."""

import json
from pathlib import Path

import numpy as np

from metasched.experiments.pooled import MODELS
from metasched.report import compare, statistics, tables
from metasched.report.cells import TARGET_ONLY, USEFUL, CellRuns, MethodRuns
from metasched.schedulers.resolve import BASELINE

SHOWN = (
    *(f"digits/few-label-{labels}" for labels in (10, 30, 100)),
    *(f"digits/robust-{kind}" for kind in ("40", "80", "irrelevant")),
    *(f"{name}/few-label-30" for name in ("cifar", "weather", "weather-points")),
    *("digits/paper-B20", "cifar/paper-own-heads", "weather/paper-U850"),
)


FRESH = Path(__file__).parent.parent / "benchmarks" / "results" / "fresh.json"
SETS = {
    "scripts": "scripts/joint-30",
    "rotated": "rotated/joint-30",
    "many": "many/joint-30",
    "noisy, 80 % noisy": "noisy/joint-30-80",
    "noisy, none noisy": "noisy/joint-30",
    "activity, user 33": "activity/joint-30",
    "activity, user 13": "activity/joint-30-user-13",
    "activity, user 29": "activity/joint-30-user-29",
    "gas": "gas/joint-30",
    "reviews, target books": "reviews/joint-30",
    "reviews, target dvd": "reviews/joint-30-dvd",
}


def on_fresh_seeds(key: str) -> str:
    """The default scheduler less uniform, on seeds that no decision was made with (``benchmarks/fresh_seeds.py``)."""
    found = json.loads(FRESH.read_text()).get(key)
    if found is None:
        return "–"
    gaps = np.array(found["thompson"]) - np.array(found["uniform"])
    return str(tables.signed(statistics.mean_of_means([gaps])))


def summary(cells: dict[str, CellRuns]) -> str:
    """One line for each set, the most telling first: joint training with 30 labels, ours against uniform."""
    head = [
        "",
        "target only",
        "uniform",
        "**ours**",
        "ours − uniform",
        "on fresh seeds",
        "useful alone",
        "pooled rows: linear, boosting",
    ]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, key in SETS.items():
        cell = cells[key]
        ours, uniform = expected(cell)
        models = [plain(cell.methods.get(name)) for name in MODELS]
        words = [
            name,
            plain(cell.methods.get(TARGET_ONLY)),
            plain(uniform),
            f"**{plain(ours)}**",
            str(tables.signed(compare.difference(ours, uniform))),
            on_fresh_seeds(key),
            plain(cell.methods.get(USEFUL)),
            "–" if set(models) == {"–"} else ", ".join(models),
        ]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def contrasts(cells: dict[str, CellRuns]) -> str:
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
            str(tables.signed(compare.difference(ours, uniform))),
            str(tables.ratio(compare.gain_to_final(uniform, ours))),
            with_name(compare.best_static(cell)),
            with_name(compare.best_single(cell)).replace("single:", "task "),
            plain(cell.methods.get(USEFUL)),
        ]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


ACTIVE = ("ucb", "gittins", "mdp", "exp3-alignment", "ucb-transfer", "gittins-transfer", "mdp-transfer")
MIXED = (
    *("proportional", "mirror", "mirror-plain", "per-source uniform", "per-source thompson-transfer"),
    *("per-source ucb-transfer", "per-source exp3-alignment"),
)


def others(cells: dict[str, CellRuns]) -> str:
    """Final accuracy of every active method beside ours, 30 labels, Algorithm 1."""
    return _beside(cells, "meta", ACTIVE, "thompson-transfer")


def mixed(cells: dict[str, CellRuns]) -> str:
    """Final accuracy of the methods beside ours, 30 labels, joint training."""
    return _beside(cells, "joint", MIXED, "thompson")


def _beside(cells: dict[str, CellRuns], learner: str, names: tuple[str, ...], ours: str) -> str:
    lines = [f"|  | {' | '.join(names)} | **ours** |", "|---" * (len(names) + 2) + "|"]
    for key, cell in cells.items():
        if key.startswith(f"{cell.experiment}/{learner}-30"):
            lines.append(f"| {cell.label} | {' | '.join(plain(cell.methods.get(name)) for name in (*names, ours))} |")
    return "\n".join(lines) + "\n"


HELD = ("thompson", *MIXED, "target-only")


def choices(cells: dict[str, CellRuns]) -> str:
    """Every method less uniform, joint training, 30 labels: the mean over all sets, where it is best and worst."""
    head = ["", "mean of all sets", "worst set", "best set"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    mine = [cell for key, cell in cells.items() if key == f"{cell.experiment}/joint-30"]
    for name in HELD:
        there = [cell for cell in mine if name in cell.methods]
        gaps = {cell.experiment: compare.differences(cell.methods[name], cell.methods[BASELINE]) for cell in there}
        means = sorted((float(np.mean(gap)), experiment) for experiment, gap in gaps.items())
        words = [f"`{name}`", str(tables.signed(statistics.mean_of_means(list(gaps.values()))))]
        words += [f"{gap:+.3f} {experiment}" for gap, experiment in (means[0], means[-1])]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


ORDERED = ("gittins-transfer", "mdp-transfer")
BLIND = ("thompson-transfer", "ucb-transfer")


def order(cells: dict[str, CellRuns]) -> str:
    """On activity: schedulers that know the label order less those that do not, three target users together."""
    lines = ["|  | Algorithm 1 | joint |", "|---|---|---|"]
    for knowing in ORDERED:
        for blind in BLIND:
            gaps = [of_order(cells, learner, knowing, blind) for learner in ("meta", "joint")]
            words = [str(tables.signed(gap)) for gap in gaps]
            lines.append(f"| {knowing} − {blind} | {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def of_order(cells: dict[str, CellRuns], learner: str, knowing: str, blind: str) -> statistics.Interval:
    """Final accuracy of one less that of the other on all target users of activity together."""
    mine = [cell for key, cell in cells.items() if key.startswith(f"activity/{learner}-30")]
    if learner == "joint":  # whoever looks at labels was run with one source a batch
        knowing, blind = f"per-source {knowing}", f"per-source {blind}"
    return statistics.mean_of_means([compare.differences(cell.methods[knowing], cell.methods[blind]) for cell in mine])


def expected(cell: CellRuns) -> tuple[MethodRuns, MethodRuns]:
    """The method named beforehand and uniform."""
    pair = compare.named(cell)
    assert pair is not None, cell.key
    return pair


def table(cells: dict[str, CellRuns]) -> str:
    """One line for each cell shown: the control, the best static, the best active scheduler, the best single task."""
    head = ["", "target only", "best static", "best active", "active − static", "best single task"]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|---|"]
    for key in SHOWN:
        cell = cells[key]
        static, active = compare.best_static(cell), compare.best_active(cell)
        words = [
            f"{cell.label}{', paper’s protocol' * (cell.regime == 'paper')}",
            plain(cell.methods[TARGET_ONLY]),
            with_name(static),
            with_name(active),
            str(tables.signed(compare.difference(active, static))),
            with_name(compare.best_single(cell)).replace("single:", "task "),
        ]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def with_name(method: MethodRuns | None) -> str:
    """The mean of final test accuracies, and the name."""
    found = compare.mean(method)
    return f"{found.value:.3f} {method.name}" if method and found else "–"


def plain(method: MethodRuns | None) -> str:
    """The mean of final test accuracies, of which differences are means too, so that columns and differences agree."""
    found = compare.mean(method)
    return f"{found.value:.3f}" if found else "–"


TABLES = {
    "choices": choices,
    "mixed": mixed,
    "contrasts": contrasts,
    "order": order,
    "others": others,
    "results": table,
    "summary": summary,
}
"""By the name between the markers of a page."""
