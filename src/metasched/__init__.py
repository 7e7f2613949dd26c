"""metasched: which data source should the next training batch come from?

>>> import metasched as ms
>>> tasks = ms.datasets.load("demo")
>>> run = ms.train(tasks)  # joint training; which source comes next is chosen by what its batches teach the target
>>> accuracy = run.final[0]["test_accuracy"]
"""

from metasched import datasets, dependence, planning, schedulers
from metasched.chooser import Chooser, Draw
from metasched.chooser.mix import MixedStream, mix
from metasched.comparison.compare import Comparison, compare
from metasched.errors import MetaschedError
from metasched.learners import networks, rewards
from metasched.learners.diagnose import Diagnosis, diagnose
from metasched.learners.model import Model
from metasched.learners.networks import Network
from metasched.learners.predictor import Predictor
from metasched.learners.probe import plan
from metasched.learners.settings import AlgorithmOne, Joint
from metasched.optional import version_of
from metasched.planning.plan import Plan
from metasched.runs.sweep import Method
from metasched.runs.trackers import Tracker
from metasched.runs.train import Run, load_model, resume, train
from metasched.schedulers import Scheduler
from metasched.tasks import Provenance, Split, Task, TaskSet, Unlabelled

__version__ = version_of("metasched")

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
    "Model",
    "Network",
    "Plan",
    "Predictor",
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
    "resume",
    "rewards",
    "schedulers",
    "train",
]


def __getattr__(name: str) -> object:
    """Say what became of a name of version 0.1."""
    if name == "TrainConfig":
        raise AttributeError("ms.TrainConfig is now ms.Joint(…) or ms.AlgorithmOne(…); give it as learner=")
    raise AttributeError(f"module 'metasched' has no attribute '{name}'")
