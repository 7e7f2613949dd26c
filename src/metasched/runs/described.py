"""Whether what ``run.json`` says can be run: it may be damaged, or from elsewhere."""

from pathlib import Path

from metasched.errors import ConfigError, MetaschedError, RunError
from metasched.learners.config import TrainConfig
from metasched.runs import scheduler_spec
from metasched.runs.folder import RUN, Description
from metasched.runs.runner import Job, Own
from metasched.runs.settled import settled
from metasched.seeds import check_seed
from metasched.tasks import TaskSet


def stored_job(folder: Path, description: Description, tasks: TaskSet) -> Job:
    """The run that a folder describes, on the rows that it names; nothing has been compiled or written yet."""
    try:
        _check(description, tasks)
    except (MetaschedError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RunError(f"{folder / RUN}: describes no run ({error}); start the run again in another folder") from None
    return Job(description, tasks, folder=folder)


def _check(description: Description, tasks: TaskSet) -> None:
    spec = description.spec
    config = TrainConfig(**spec.config)
    config.resolve(tasks)
    if config.batches_per_update is None or config.eval_every is None:
        raise ConfigError("batches_per_update and eval_every must be settled")
    check_seed(spec.seed)
    settled(tasks, spec.learner, spec.network, config, Own())
    scheduler_spec.check_stored(spec.scheduler, spec.options, tasks, config)
    if len(description.about.tasks) != len(tasks.tasks):
        raise ConfigError(f"it names {len(description.about.tasks)} tasks, the data have {len(tasks.tasks)}")
