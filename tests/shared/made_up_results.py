"""Outcomes with made-up numbers, as experiments and runs of one's own write them, and evidence."""

import json
from pathlib import Path

import msgspec
import numpy as np

from metasched.report import remarks
from metasched.report.results import load
from metasched.runs import outcome
from metasched.runs.outcome import About, Diverged, Final, Origin, Outcome, Study
from metasched.runs.spec import DataSpec, RunSpec

LEARNED = {
    "cyclic": 0.55,
    "sequential": 0.50,
    "uniform": 0.54,
    "target-only": 0.52,
    "single:1": 0.60,
    "single:2": 0.45,
    "ucb": 0.56,
    "gittins": 0.58,
    "mdp": 0.60,
    "ucb-gain": 0.62,
    "gittins-refresh": 0.65,
    "mdp-refresh": 0.64,
    "ucb-gain+abstain": 0.63,
    "supervised": 0.9,
}
"""Final accuracy around which the seeds of each method lie."""
TASKS = ("Semeion 1", "Semeion 2", "Optical 1", "Optical 2", "Optical 3")
EVENTS = ("tropical depression", "tropical cyclone", "extratropical cyclone", "atmospheric river")
DIGITS = tuple(map(str, range(10)))
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&</caption>"
VERSIONS = {"metasched": "0.1.0", "jax": "0.10.0", "python": "3.12.1"}
ORIGIN = Origin(
    created="2026-01-01T00:00:00+00:00", command="metasched paper digits --seeds 10", device="gpu: NVIDIA H200"
)
changed = msgspec.structs.replace


def family(name):
    if name in ("cyclic", "sequential", "uniform"):
        return "static"
    if name == "supervised":
        return "ceiling"
    return "control" if name == "target-only" or name.startswith("single:") else "active"


def study(experiment="digits", regime="few-label", variant="30 labels", **changes):
    slug = variant.replace(" ", "-").replace("=", "")
    title, cell = f"{experiment}, {regime}: {variant}", f"{experiment}/{regime}-{slug}"
    known = {"experiment": experiment, "regime": regime, "variant": variant, "cell": cell, "title": title}
    return Study(**{**known, "threshold": 0.5, **changes})


def about(experiment="digits", **changes):
    known = {
        "name": experiment,
        "simulated": experiment == "weather",
        "tasks": TASKS[:4] if experiment == "cifar" else TASKS,
        "classes": EVENTS if experiment.startswith("weather") else DIGITS,
        "source_rows": 7000,
        "target_rows": 30,
        "test_rows": 60000,
    }
    return About(**{**known, **changes})


def spec(method="ucb", seed=0, **changes):
    known = {"data": DataSpec(fingerprint="0a", set="digits"), "network": "mlp", "settings": {"batch_size": 20}}
    known |= {"learner": "meta", "reward": "scaled"}
    return RunSpec(**{**known, "scheduler": method, "seed": seed, "versions": VERSIONS, **changes})


def run(method="ucb", seed=0, curve=(0.1, 0.3, 0.5), samples=(100, 200, 300), **changes):
    """One run whose every number is given."""
    known = {
        "spec": spec(method, seed),
        "method": method,
        "family": family(method),
        "study": study(),
        "about": about(),
        "origin": ORIGIN,
        "updates": tuple(range(1, len(curve) + 1)),
        "samples": tuple(samples)[: len(curve)],
        "test_accuracy": tuple(curve),
        "final": Final(test_accuracy=curve[-1]),
    }
    known |= changes
    return Outcome(run=known["spec"].name, **known)


def diverged(method="ucb", seed=0, update=7, cause="loss is not finite", **changes):
    gone = {"updates": (), "samples": (), "test_accuracy": (), "final": None}
    return changed(run(method, seed, **changes), **gone, diverged=Diverged(update=update, cause=cause))


def own(method="ucb", seed=0, **changes):
    """A run of one's own."""
    return run(method, seed, **{"study": None, "about": about("mine"), **changes})


def plain_cell(methods, *, samples=(100, 200, 300), target_rows=30, source_rows=7000, **changes):
    """A cell whose every number is given: by method, the accuracy of each seed at each of ``samples``."""
    place = study(**changes)
    rows = about(place.experiment, target_rows=target_rows, source_rows=source_rows)
    return [
        run(name, seed, curve, samples, study=place, about=rows)
        for name, curves in methods.items()
        for seed, curve in enumerate(curves)
    ]


def method(name, level, place, rows, random, *, seeds=10, points=15, drawn=700, shift=0.0):
    """Runs whose curves rise to ``level`` + ``shift``, with noise by seed; no two methods rise equally fast."""
    updates = np.linspace(2, 30, points).astype(int)
    drawn = 0 if name in ("target-only", "supervised") else drawn
    ends = np.clip(level + shift + 0.01 * random.normal(size=seeds), 0, 1)
    curves = 0.1 + (ends[:, None] - 0.1) * (1 - np.exp(-updates / (3 + 12 * max(0.0, 0.75 - level))))
    curves = np.clip(curves + 0.004 * random.normal(size=curves.shape), 0, 1).round(4)
    tasks, classes = len(rows.tasks), len(rows.classes)
    if name.startswith("single:"):
        share = np.eye(tasks)[int(name.removeprefix("single:")) - 1]
    else:
        share = random.dirichlet(np.full(tasks, 50.0 if family(name) == "static" else 1.0))
    counts = np.round(share * drawn * 30).astype(int)
    by_class = np.clip(curves[:, -1:] + 0.05 * random.normal(size=(seeds, classes)), 0, 1).round(4)
    by_label = (counts[:, None] * random.dirichlet(np.ones(classes), tasks)).round(1)
    abstained = random.integers(0, 5, size=30) * ("abstain" in name)
    schedule = np.column_stack([random.multinomial(35 if drawn else 0, share, size=30), abstained])
    for seed, curve in enumerate(curves.tolist()):
        yield run(
            name,
            seed,
            curve,
            (updates * drawn).tolist(),
            updates=tuple(updates.tolist()),
            study=place,
            about=rows,
            role="paper" if name in ("cyclic", "ucb", "gittins", "mdp") else name,
            final=Final(
                test_accuracy=curve[-1],
                initial_test_accuracy=0.1,
                balanced_test_accuracy=round(curve[-1] - 0.01, 4),
                test_accuracy_by_class=tuple(by_class[seed].tolist()),
                validation_accuracy=min(round(curve[-1] + 0.02, 4), 1.0),
                drawn_by_label=tuple(map(tuple, by_label.tolist())),
            ),
            drawn=tuple(counts.tolist()),
            abstained=int(abstained.sum()),
            schedule=tuple(map(tuple, schedule.tolist())) if seed == 0 else None,
            seconds=round(20 + random.random(), 2),
            scheduling_seconds=1e-4 * (1 + len(name)),
        )


def cell(experiment="digits", regime="few-label", variant="30 labels", *, names=None, seeds=10, **changes):
    """A cell as experiments write it; ``names`` chooses its methods."""
    place, rows = study(experiment, regime, variant, **changes), about(experiment)
    random = np.random.default_rng(sum(map(ord, experiment + regime + variant)))
    shift = -0.03 if "noisy" in variant else 0.0
    made = (method(name, LEARNED[name], place, rows, random, seeds=seeds, shift=shift) for name in names or LEARNED)
    return [one for runs in made for one in runs]


def evidence(experiment="digits", **changes):
    rows = about(experiment)
    sticky = (0.7 * np.eye(len(rows.classes)) + 0.3 / len(rows.classes)).round(4).tolist()
    steps = list(range(1, 121, 3))
    tests = {"rows": 1400, "p_permutation": 1e-4, "p_asymptotic": 1e-9, "p_diagonal": 2e-4, "association": 0.4}
    return {
        "format": 1,
        "kind": "evidence",
        "experiment": experiment,
        "simulated": rows.simulated,
        "versions": VERSIONS,
        **msgspec.to_builtins(ORIGIN),
        "order": [{"task": task, **tests} for task in rows.tasks],
        "transitions": dict.fromkeys(rows.tasks, sticky),
        "classes": rows.classes,
        "scaled_error": {
            "steps": steps,
            "by_class": {name: [0.5 + 0.05 * k + 0.01 * t**0.5 for t in steps] for k, name in enumerate(rows.classes)},
            "exponent": 0.1,
        },
        **changes,
    }


VARIANTS = {
    ("digits", "paper"): ["B=1", "B=20", "B=100"],
    ("digits", "few-label"): ["10 labels", "30 labels", "100 labels"],
    ("digits", "robust"): ["40% noisy", "80% noisy", "irrelevant task"],
    ("cifar", "paper"): ["own heads", "shared head"],
    ("cifar", "few-label"): ["30 labels"],
    ("weather", "paper"): ["UBOT", "TMQ", "U850", "V850", "VBOT", "Z100"],
    ("weather-points", "few-label"): ["10 labels", "30 labels", "100 labels"],
}


def write(folder: Path, content):
    """Put a cell or evidence where experiments put them, or one run of one's own into a folder of its own."""
    if isinstance(content, dict):
        path = folder / content["experiment"] / "evidence.json"
    elif content[0].study:
        path = folder / f"{content[0].study.cell}.jsonl"
    else:
        path = folder / content[0].run / "outcome.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        path.write_text(json.dumps(content))
    else:
        outcome.write(path, content)
    return path


def write_hostile(folder: Path):
    """A cell and evidence in which every text would like to be markup, a formula or code."""
    place = study(variant=HOSTILE, title=HOSTILE, cell=HOSTILE)
    rows = about(tasks=(HOSTILE,) * 5, classes=(HOSTILE,) * 10)
    random = np.random.default_rng(0)
    runs = [one for name in ("cyclic", "target-only") for one in method(name, 0.6, place, rows, random, seeds=3)]
    runs += [changed(one, method=HOSTILE) for one in method("ucb", 0.7, place, rows, random, seeds=3)]
    runs[-1] = diverged("ucb", 2, cause=HOSTILE, study=place, about=rows)
    runs[-1] = changed(runs[-1], method=HOSTILE)
    origin = Origin(created=HOSTILE, command=HOSTILE, device=HOSTILE)
    runs = [changed(one, origin=origin, spec=changed(one.spec, versions={"metasched": HOSTILE})) for one in runs]
    outcome.write(folder / "cell.jsonl", runs)
    (folder / "evidence.json").write_text(json.dumps(evidence(classes=[HOSTILE] * 10)))


def loaded(folder, *contents):
    """These and nothing else, written and read."""
    for content in contents:
        write(folder, content)
    return load([folder])


OFF = "labels of 'brazil' look shuffled: check how it was labelled"


def line(name, kind, score, over=None, half=0.03):
    """A row of the table of a comparison."""
    ends = [remarks.Between(value, value - half, value + half) for value in (score, 0.0 if over is None else over)]
    return remarks.MethodLine(name=name, kind=kind, score=ends[0], over=None if over is None else ends[1], units=2)


COMPARED = (
    line("boosting, pooled", "reference", 0.7, 0.2),
    line("the final model", "final", 0.69, 0.19),
    line("thompson", "network", 0.6, 0.1),
    line("uniform", "network", 0.5),
    line("target-only", "network", 0.4, -0.1),
)
"""The table of a comparison. The finals of its runs lie elsewhere, so that a number of them would show."""
WORTH = tuple(
    remarks.SourceLine(
        name=name,
        rows=400,
        share=share,
        transfer=remarks.Between(0.04, 0.02, 0.06),
        lost=remarks.Between(0.1, 0.08, 0.12),
        word=word,
        why=why,
    )
    for name, share, word, why in (
        ("peru", 0.6, "keep", "leaving it out lowers the score"),
        ("chile", 0.3, "cannot tell", "neither measure is clear"),
        ("brazil", 0.1, "harmful", "its labels look shuffled"),
    )
)


def told(**changes):
    """Remarks on a comparison."""
    known = {
        "cell": "coffee 0a joint",
        "methods": ("thompson", "uniform", "target-only"),
        "units": (0, 1),
        "ours": "thompson",
        "metric": "accuracy",
        "case": "helps",
        "verdict": "Choosing helps here: +.10 [.07, .13] over uniform; +.20 [.17, .23] over target-only",
        "first": "Boosting, pooled is best here (0.700): +.10 [.07, .13] over thompson",
        "final": "The final model is the mean of boosting, pooled (60%), thompson (40%)",
        "judged": "2 seeds, each with 30 labelled rows of its own and 370 test rows",
        "table": COMPARED,
        "sources": WORTH,
        "lines": (OFF,),
    }
    return remarks.Remarks(**{**known, **changes})


def compared(folder, seeds=(0, 1), **changes):
    """A folder as ``compare`` leaves it, read: runs of three methods, and the remarks on them."""
    place = study("coffee", "own runs", "joint learner", cell="coffee 0a joint")
    levels = {"thompson": 0.6, "uniform": 0.5, "target-only": 0.4}
    notes = told(**changes)
    runs = []
    for name, level in levels.items():
        for seed in seeds:
            asked = spec(name, seed, settings={"batch_size": 20, "metric": notes.metric})
            facts = {"study": place, "about": about("coffee"), "role": "ours" * (level == 0.6)}
            runs.append(run(name, seed, (0.1, level - 0.05), spec=asked, **facts))
    folder.mkdir(parents=True, exist_ok=True)
    outcome.write(folder / "outcomes.jsonl", runs)
    (folder / "comparison.json").write_text('{"format": 2}')
    remarks.write(folder / remarks.REMARKS, notes)
    return load([folder])


def column(sheet, name):
    """What stands under a heading of a table."""
    place = [column.name for column in sheet.columns].index(name)
    return [str(row[place]) for row in sheet.rows]


def write_all(folder: Path, **options):
    """Every cell and every piece of evidence that the page has a place for."""
    for (experiment, regime), variants in VARIANTS.items():
        for variant in variants:
            write(folder, cell(experiment, regime, variant, **options))
    for experiment in ("digits", "cifar", "weather"):
        write(folder, evidence(experiment))
    return folder
