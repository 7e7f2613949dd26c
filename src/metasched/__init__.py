"""metasched: which rows of which data sources should the next training batch contain?

>>> import metasched as ms
>>> tasks = ms.datasets.load("demo")
>>> run = ms.train(tasks)  # joint training; the source of every row is chosen
>>> accuracy = run.final[0]["test_accuracy"]
"""

import importlib
from typing import TYPE_CHECKING

# All public names, for type checkers and readers. At run time each is imported when it is first used.
if TYPE_CHECKING:
    from metasched import datasets, dependence, planning, schedulers
    from metasched.chooser import Chooser, Draw
    from metasched.chooser.mix import MixedStream, mix
    from metasched.chooser.mixture_file import MixtureFile, read_mixture
    from metasched.comparison.compare import Comparison, compare
    from metasched.errors import MetaschedError
    from metasched.learners import networks, rewards
    from metasched.learners.diagnose import Diagnosis, diagnose
    from metasched.learners.model import Model
    from metasched.learners.networks import Network
    from metasched.learners.predictor import Predictor
    from metasched.learners.probe import plan
    from metasched.learners.settings import AlgorithmOne, Joint
    from metasched.planning.plan import Plan
    from metasched.rl.prompts import PromptChooser
    from metasched.runs.sweep import Method
    from metasched.runs.trackers import Tracker
    from metasched.runs.train import Run, load_model, resume, train
    from metasched.schedulers import Scheduler
    from metasched.tasks import Provenance, Split, Task, TaskSet, Unlabelled

    __version__: str

__all__ = [
    "AlgorithmOne",
    "Chooser",
    "Comparison",
    "Diagnosis",
    "Draw",
    "Joint",
    "MetaschedError",
    "Method",
    "MixedStream",
    "MixtureFile",
    "Model",
    "Network",
    "Plan",
    "Predictor",
    "PromptChooser",
    "Provenance",
    "Run",
    "Scheduler",
    "Split",
    "Task",
    "TaskSet",
    "Tracker",
    "Unlabelled",
    "__version__",
    "compare",
    "datasets",
    "dependence",
    "diagnose",
    "load_model",
    "mix",
    "networks",
    "plan",
    "planning",
    "read_mixture",
    "resume",
    "rewards",
    "schedulers",
    "train",
]

_MODULES = {
    "datasets": "datasets",
    "dependence": "dependence",
    "networks": "learners.networks",
    "planning": "planning",
    "rewards": "learners.rewards",
    "schedulers": "schedulers",
}
_HOMES = {
    "chooser": ("Chooser", "Draw"),
    "chooser.mix": ("MixedStream", "mix"),
    "chooser.mixture_file": ("MixtureFile", "read_mixture"),
    "comparison.compare": ("Comparison", "compare"),
    "errors": ("MetaschedError",),
    "learners.diagnose": ("Diagnosis", "diagnose"),
    "learners.model": ("Model",),
    "learners.networks": ("Network",),
    "learners.predictor": ("Predictor",),
    "learners.probe": ("plan",),
    "learners.settings": ("AlgorithmOne", "Joint"),
    "planning.plan": ("Plan",),
    "rl.prompts": ("PromptChooser",),
    "runs.sweep": ("Method",),
    "runs.trackers": ("Tracker",),
    "runs.train": ("Run", "load_model", "resume", "train"),
    "schedulers": ("Scheduler",),
    "tasks": ("Provenance", "Split", "Task", "TaskSet", "Unlabelled"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used. Names that need no JAX do not import it."""
    if name == "TrainConfig":  # from version 0.1
        raise AttributeError("ms.TrainConfig is now ms.Joint(…) or ms.AlgorithmOne(…); pass it as learner=")
    if name not in __all__:
        raise AttributeError(f"module 'metasched' has no attribute '{name}'")
    if name == "__version__":
        value: object = importlib.import_module("metasched.optional").version_of("metasched")
    elif name in _MODULES:
        value = importlib.import_module(f"metasched.{_MODULES[name]}")
    else:
        value = getattr(importlib.import_module(f"metasched.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
