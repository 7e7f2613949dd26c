"""metasched: which data source should the next training batch come from?

>>> import metasched as ms
>>> tasks = ms.datasets.load("demo")
>>> run = ms.train(tasks, scheduler="cyclic")
>>> accuracy = run.final[0]["test_accuracy"]
"""

from metasched import datasets, schedulers
from metasched.chooser import Chooser, Draw
from metasched.errors import MetaschedError
from metasched.meta import networks
from metasched.meta.config import TrainConfig
from metasched.meta.networks import Network
from metasched.runs.train import Run, resume, train
from metasched.schedulers import Scheduler
from metasched.tasks import Provenance, Split, Task, TaskSet

__all__ = [
    "Chooser",
    "Draw",
    "MetaschedError",
    "Network",
    "Provenance",
    "Run",
    "Scheduler",
    "Split",
    "Task",
    "TaskSet",
    "TrainConfig",
    "datasets",
    "networks",
    "resume",
    "schedulers",
    "train",
]
