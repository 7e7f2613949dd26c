"""Result files with made-up numbers in the shape that experiments write."""

import json
from pathlib import Path

import numpy as np

from metasched.report.results import load

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
TASKS = ["Semeion 1", "Semeion 2", "Optical 1", "Optical 2", "Optical 3"]
EVENTS = ["tropical depression", "tropical cyclone", "extratropical cyclone", "atmospheric river"]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&</caption>"
ABOUT = {
    "format": 1,
    "simulated": False,
    "versions": {"metasched": "0.1.0", "jax": "0.10.0", "python": "3.12.1"},
    "device": "gpu: NVIDIA H200",
    "command": "metasched paper digits --seeds 10",
    "created": "2026-01-01T00:00:00+00:00",
}


def family(name):
    if name in ("cyclic", "sequential", "uniform"):
        return "static"
    if name == "supervised":
        return "ceiling"
    return "control" if name == "target-only" or name.startswith("single:") else "active"


def method(name, level, *, seeds=10, points=15, batch=20, batches=35, tasks=5, classes=10, random=None, shift=0.0):
    """Curves that rise to ``level`` + ``shift``, with noise by seed; no two methods rise equally fast."""
    random = random or np.random.default_rng(0)
    updates = np.linspace(2, 30, points).astype(int)
    drawn = 0 if name in ("target-only", "supervised") else batch * batches
    ends = np.clip(level + shift + 0.01 * random.normal(size=seeds), 0, 1)
    pace = 3 + 12 * max(0.0, 0.75 - level)
    curve = 0.1 + (ends[:, None] - 0.1) * (1 - np.exp(-updates / pace))
    curve = np.clip(curve + 0.004 * random.normal(size=curve.shape), 0, 1)
    if name.startswith("single:"):
        share = np.eye(tasks)[int(name.removeprefix("single:")) - 1]
    else:
        share = random.dirichlet(np.full(tasks, 50.0 if family(name) == "static" else 1.0))
    rows = np.round(share * drawn * 30)
    schedule = random.multinomial(batches if drawn else 0, share, size=30)
    abstained = random.integers(0, 5, size=30) * ("abstain" in name)
    return {
        "family": family(name),
        "role": "paper" if name in ("cyclic", "ucb", "gittins", "mdp") else name,
        "seeds": list(range(seeds)),
        "updates": updates.tolist(),
        "samples": [(updates * drawn).tolist()] * seeds,
        "test_accuracy": curve.round(4).tolist(),
        "final": {
            "test_accuracy": curve[:, -1].round(4).tolist(),
            "initial_test_accuracy": [0.1] * seeds,
            "balanced_accuracy": (curve[:, -1] - 0.01).round(4).tolist(),
            "validation_accuracy": np.clip(curve[:, -1] + 0.02, 0, 1).round(4).tolist(),
        },
        "per_class": np.clip(curve[:, -1:] + 0.05 * random.normal(size=(seeds, classes)), 0, 1).round(4).tolist(),
        "drawn": [rows.tolist()] * seeds,
        "drawn_by_label": (rows[:, None] * random.dirichlet(np.ones(classes), tasks)).round(1).tolist(),
        "abstained": [int(abstained.sum())] * seeds,
        "schedule": np.column_stack([schedule, abstained]).tolist(),
        "seconds": (20 + random.random(seeds)).round(2).tolist(),
        "scheduling_seconds": 1e-4 * (1 + len(name)),
        "diverged": {},
    }


def cell(experiment="digits", regime="few-label", variant="30 labels", *, names=None, seeds=10, **changes):
    """A cell as a dictionary; ``names`` chooses its methods."""
    slug = variant.replace(" ", "-").replace("=", "")
    random = np.random.default_rng(sum(map(ord, experiment + regime + variant)))
    tasks = TASKS[:4] if experiment == "cifar" else TASKS
    classes = EVENTS if experiment.startswith("weather") else [str(digit) for digit in range(10)]
    shift = -0.03 if "noisy" in variant else 0.0
    return {
        **ABOUT,
        "kind": "cell",
        "experiment": experiment,
        "regime": regime,
        "variant": variant,
        "cell": f"{experiment}/{regime}-{slug}",
        "title": f"{experiment}, {regime}: {variant}",
        "simulated": experiment == "weather",
        "tasks": tasks,
        "classes": classes,
        "target_rows": 30,
        "test_rows": 60000,
        "source_rows": 7000,
        "config": {"batch_size": 20},
        "tuning": None,
        "threshold": 0.5,
        "methods": {
            name: method(
                name,
                LEARNED[name],
                seeds=seeds,
                tasks=len(tasks),
                classes=len(classes),
                random=random,
                shift=shift,
            )
            for name in names or LEARNED
        },
        **changes,
    }


def plain_cell(methods, *, samples=(100, 200, 300), **changes):
    """A cell whose every number is given: by method, the accuracy of each seed at each of ``samples``."""
    content = cell(seeds=1, names=["cyclic"], **changes)
    content["methods"] = {}
    for name, curves in methods.items():
        one = method(name, 0.5, seeds=len(curves), points=len(samples))
        one["updates"] = list(range(1, len(samples) + 1))
        one["samples"] = [list(samples)] * len(curves)
        one["test_accuracy"] = [list(curve) for curve in curves]
        one["final"] = {"test_accuracy": [curve[-1] for curve in curves]}
        content["methods"][name] = one
    return content


def evidence(experiment="digits", **changes):
    tasks = TASKS[:4] if experiment == "cifar" else TASKS
    classes = EVENTS if experiment.startswith("weather") else [str(digit) for digit in range(10)]
    sticky = (0.7 * np.eye(len(classes)) + 0.3 / len(classes)).round(4).tolist()
    steps = list(range(1, 121, 3))
    return {
        **ABOUT,
        "kind": "evidence",
        "experiment": experiment,
        "simulated": experiment == "weather",
        "order": [
            {
                "task": task,
                "rows": 1400,
                "p_permutation": 1e-4,
                "p_asymptotic": 1e-9,
                "p_diagonal": 2e-4,
                "association": 0.4,
            }
            for task in tasks
        ],
        "transitions": dict.fromkeys(tasks, sticky),
        "classes": classes,
        "scaled_error": {
            "steps": steps,
            "by_class": {name: [0.5 + 0.05 * k + 0.01 * t**0.5 for t in steps] for k, name in enumerate(classes)},
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
    """Put one result file where experiments put it."""
    slug = content["cell"].split("/")[1] if content["kind"] == "cell" else "evidence"
    path = folder / content["experiment"] / f"{slug}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def write_hostile(folder: Path):
    """A cell and evidence in which every text would like to be markup, a formula or code."""
    content = cell(seeds=3, names=["cyclic", "target-only"])
    content["methods"][HOSTILE] = method("ucb", 0.7, seeds=3)
    content["methods"][HOSTILE]["diverged"] = {"1": {"update": HOSTILE, "cause": HOSTILE}}
    content |= dict.fromkeys(("title", "device", "command", "created", "variant"), HOSTILE)
    content |= {"cell": "digits/" + HOSTILE, "versions": {"metasched": HOSTILE}}
    content |= {"tasks": [HOSTILE] * 5, "classes": [HOSTILE] * 10}
    (folder / "cell.json").write_text(json.dumps(content))
    (folder / "evidence.json").write_text(json.dumps(evidence(classes=[HOSTILE] * 10)))


def loaded(folder, *contents):
    """These and nothing else, written and read."""
    for content in contents:
        write(folder, content)
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
