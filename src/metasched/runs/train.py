"""``train`` and ``resume``: Algorithm 1 over seeds, recorded so that it can be stopped and continued anywhere."""

import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import optax

from metasched import datasets, schedulers
from metasched.errors import ConfigError, RunError, unknown
from metasched.meta import loop
from metasched.meta.config import TrainConfig
from metasched.meta.diagnose import diagnose
from metasched.meta.loop import Program, Record
from metasched.meta.networks import Network, default_network
from metasched.meta.objective import Loss, Losses, cross_entropy, squared_error
from metasched.meta.outer import MetaParameters, MetaState
from metasched.meta.plan import plan
from metasched.runs import checkpoint, folder
from metasched.runs import trackers as tracker_room
from metasched.runs.origin import origin
from metasched.runs.trackers import Tracker
from metasched.schedulers import Scheduler
from metasched.tasks import TaskSet

TARGET_ONLY = "target-only"
SINGLE = "single:"
BEST_SINGLE = "oracle-best-single"
AUTO = "auto"
RECOMMENDED = {"bandit": "ucb", "gittins": "gittins", "mdp": "mdp"}
"""The scheduler behind each recommendation of a diagnosis."""
CHECKPOINT_SECONDS = 10.0
PLAN_OPTIONS = ("discount", "stride", "smoothing", "rewards", "method")
"""Options of a planned scheduler that are meant for :func:`metasched.plan`."""

OnRecord = Callable[[Record], None]


@dataclass(frozen=True)
class Run:
    """A finished run: every record, and the meta-parameters of each seed.

    A record is one meta-update of one seed (``seed``, ``update``, ``samples``, ``test_accuracy``, …); the last of a
    seed has ``final``, measured on all test rows.
    """

    records: Sequence[Record]
    parameters: Mapping[int, MetaParameters]
    tasks: TaskSet
    out: Path | None = None

    @property
    def final(self) -> dict[int, dict[str, Any]]:
        """Final test accuracy by seed: of the adapted model and of the initial one."""
        return {record["seed"]: record["final"] for record in self.records if "final" in record}

    @property
    def diverged(self) -> dict[int, Record]:
        """The last record of each seed whose loss was no longer finite: its ``update``, and why (``diverged``)."""
        return {record["seed"]: record for record in self.records if "diverged" in record}


def methods() -> tuple[str, ...]:
    """What ``train`` takes by name, besides ``auto``: schedulers, and the control that draws nothing from sources.

    ``single:<task>`` and ``oracle-best-single`` are further controls.
    """
    return (*schedulers.names(), TARGET_ONLY)


def train(
    tasks: TaskSet,
    network: Network | str = "auto",
    scheduler: Scheduler | str = "cyclic",
    config: TrainConfig | None = None,
    *,
    seeds: Sequence[int] = (0,),
    scheduler_options: Mapping[str, Any] | None = None,
    loss: Loss | None = None,
    target_loss: Loss | None = None,
    optimiser: optax.GradientTransformation | None = None,
    seeds_at_once: int | None = None,
    out: str | os.PathLike[str] | None = None,
    on_record: OnRecord | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    trackers: Sequence[str | Tracker] = (),
) -> Run:
    """Meta-train on ``tasks`` and measure on their test rows.

    Args:
        tasks: the sources and the target.
        network: a :class:`Network`, or ``"auto"``, ``"mlp"``, ``"cnn"``.
        scheduler: a :class:`Scheduler`, a name from ``ms.schedulers.names()``, ``"auto"``: what the evidence on label
            order calls for, or a control: ``"target-only"``, no source rows; ``"single:<task>"``, one task by name or
            number from 1; ``"oracle-best-single"``, the single task that did best, known only in hindsight. With
            ``config.abstain`` a scheduler of your own chooses among one arm more than there are tasks.
        config: the settings; defaults when left out.
        seeds: each decides initial weights, validation batches and the scheduler's chance. A seed whose loss is no
            longer finite ends alone, with a record that says why (``diverged``).
        scheduler_options: options of a scheduler given by name; for ``gittins`` and ``mdp`` also those of
            :func:`metasched.plan`, which is then made from the initial model of the first seed.
        loss: of one source row, ``loss(outputs, label) -> number``; by default cross-entropy, or half the squared error
            where the tasks have ``targets``.
        target_loss: of one target row; by default the same as that of a source row.
        optimiser: an Optax transformation for the outer step, in place of the one in ``config``.
        seeds_at_once: seeds that run side by side in one program; by default one on a CPU, where side by side is
            slower, and on accelerators as many as fit, spread over all devices.
        out: folder of the run. A run that was interrupted there continues; without it nothing is written.
        on_record: called after every meta-update.
        checkpoint_seconds: at least this long between checkpoints.
        trackers: where else records go: ``"tensorboard"``, ``"mlflow"``, ``"wandb"``, or a ``Tracker`` of your own.
    """
    sinks = tracker_room.make(trackers, out)
    where = None if out is None else Path(out)
    named = isinstance(scheduler, str) and (scheduler == BEST_SINGLE or scheduler.startswith(SINGLE))
    if named and scheduler_options:
        raise ConfigError(f"scheduler '{scheduler}' takes no options: leave out {', '.join(scheduler_options)}")
    if scheduler == BEST_SINGLE:
        alike = {
            "seeds": seeds,
            "loss": loss,
            "target_loss": target_loss,
            "optimiser": optimiser,
            "seeds_at_once": seeds_at_once,
            "on_record": on_record,
            "checkpoint_seconds": checkpoint_seconds,
            "trackers": trackers,
        }
        return _best_single(tasks, network, config, where, alike)
    program, description = _plan(
        tasks,
        network,
        scheduler,
        config or TrainConfig(),
        seeds,
        scheduler_options or {},
        losses=_losses(tasks, loss, target_loss),
        optimiser=optimiser,
        seeds_at_once=seeds_at_once,
    )
    if where is not None:
        if (where / folder.RUN).exists():
            _refuse_other_run(where, description)
        else:
            folder.create(where, description)
    return _execute(program, seeds, where, on_record, checkpoint_seconds, sinks)


def resume(where: Path, on_record: OnRecord | None = None, trackers: Sequence[str | Tracker] = ()) -> Run:
    """Continue the run in ``where`` from its last checkpoint; it ends with the numbers it would have had anyway."""
    sinks = tracker_room.make(trackers, where)
    description = folder.describe(where)
    recipe = description["data"]["recipe"]
    named = (recipe, description["scheduler"]["name"], description["network"])
    if None in named or description.get("made_in_python"):
        raise RunError(
            f"{where}: has data, a scheduler, a network, a loss or an optimiser made in Python; "
            f"call metasched.train(..., out={str(where)!r}) again to go on"
        )
    tasks = datasets.load(recipe["set"], **recipe["options"])
    if tasks.fingerprint != description["data"]["fingerprint"]:
        raise RunError(f"{where}: the data '{recipe['set']}' are not those the run began with; restore them to go on")
    program, _ = _plan(
        tasks,
        description["network"],
        description["scheduler"]["name"],
        TrainConfig(**description["config"]),
        description["seeds"],
        description["scheduler"]["options"],
        seeds_at_once=description.get("seeds_at_once"),
    )
    return _execute(program, description["seeds"], where, on_record, CHECKPOINT_SECONDS, sinks)


def _losses(tasks: TaskSet, loss: Loss | None, target_loss: Loss | None) -> Losses | None:
    """The losses asked for; None when both are left to us."""
    if loss is None and target_loss is None:
        return None
    own = loss or (cross_entropy if tasks.target_size is None else squared_error)
    return Losses(own, target_loss or own)


def _best_single(
    tasks: TaskSet, network: Network | str, config: TrainConfig | None, out: Path | None, arguments: Mapping[str, Any]
) -> Run:
    """A run for each task alone, in folders of their own; the one with the best mean test accuracy is handed back."""
    runs = [
        train(
            *(tasks, network, f"{SINGLE}{number}", config),
            **arguments,
            out=None if out is None else out / f"single-{number}",
        )
        for number in range(1, len(tasks.tasks) + 1)
    ]
    return max(runs, key=lambda run: float(np.mean([final["test_accuracy"] for final in run.final.values()])))


def _single_task(tasks: TaskSet, name: str) -> int:
    """The task that ``single:<task>`` names, by name or by number from 1."""
    word = name.removeprefix(SINGLE)
    names = [task.name for task in tasks.tasks]
    if word in names:
        return names.index(word)
    if word.isdecimal() and 1 <= int(word) <= len(names):
        return int(word) - 1
    raise unknown("task", word, names)


def _plan(
    tasks: TaskSet,
    network: Network | str,
    scheduler: Scheduler | str,
    config: TrainConfig,
    seeds: Sequence[int],
    options: Mapping[str, Any],
    *,
    losses: Losses | None = None,
    optimiser: optax.GradientTransformation | None = None,
    seeds_at_once: int | None = None,
) -> tuple[Program, dict[str, Any]]:
    """Check everything and build the program, before anything is written; and the description for ``run.json``."""
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0:
        raise ConfigError(f"seeds are {list(seeds)}; give one or more different whole numbers ≥ 0")
    name = scheduler if isinstance(scheduler, str) else None
    if name is not None and name.startswith(SINGLE):
        scheduler, options = "single", {"task": _single_task(tasks, name)}
    elif name is not None and name not in (AUTO, *methods()):
        raise unknown("scheduler", name, (AUTO, *methods(), f"{SINGLE}1", BEST_SINGLE))
    reason = None
    if name == AUTO:
        evidence = diagnose(tasks, permutations=999, steps=0)
        scheduler, reason = RECOMMENDED[evidence.recommendation], evidence.reason
    if name == TARGET_ONLY:
        config = replace(config, batches_per_update=0)
        scheduler = schedulers.cyclic(len(tasks.tasks))
    config = config.resolve(tasks)
    chosen = scheduler if isinstance(scheduler, str) else None
    if isinstance(scheduler, str):
        own = {key: value for key, value in options.items() if key not in PLAN_OPTIONS}
        asked = {key: value for key, value in options.items() if key in PLAN_OPTIONS}
        planned = None
        if schedulers.needs_plan(scheduler):
            planned = plan(tasks, network, config, seed=seeds[0], **asked)
        elif asked:
            raise ConfigError(f"scheduler '{scheduler}' makes no plan: leave out {', '.join(asked)}")
        passes = [size // config.batch_size for size in tasks.sizes]
        own = {"passes": passes, **own}
        scheduler = schedulers.make(scheduler, num_tasks=len(passes), plan=planned, abstain=config.abstain, **own)
    elif options:
        raise ConfigError(f"scheduler_options {sorted(options)} need a scheduler given by name")
    if seeds_at_once is not None and (type(seeds_at_once) is not int or seeds_at_once < 1):
        raise ConfigError(f"seeds_at_once is {seeds_at_once!r}; give a whole number ≥ 1")
    built = default_network(tasks, network, config.heads == "shared")
    together = loop.side_by_side(tasks, built, config, len(seeds)) if seeds_at_once is None else seeds_at_once
    program = loop.prepare(tasks, built, scheduler, config, losses=losses, outer=optimiser, together=together)
    description = {
        "data": {
            "name": tasks.name,
            "recipe": tasks.recipe,
            "fingerprint": tasks.fingerprint,
            "simulated": tasks.simulated,
            "tasks": [task.name for task in tasks.tasks],
            "files": {file: digest for item in tasks.provenance.values() for file, digest in item.files.items()},
        },
        "scheduler": {
            "name": name,
            "options": {} if name and name.startswith(SINGLE) else dict(options),
            **({"chosen": chosen, "reason": reason} if reason else {}),
        },
        "network": network if isinstance(network, str) else None,
        "config": asdict(program.learner.config),
        **({"made_in_python": True} if losses or optimiser else {}),
        "seeds": list(seeds),
        "seeds_at_once": together,
        **origin(" ".join(sys.argv)),
    }
    return program, description


def _refuse_other_run(where: Path, description: Mapping[str, Any]) -> None:
    found = folder.describe(where)
    for part in ("scheduler", "network", "config", "seeds"):
        if found[part] != description[part]:
            raise RunError(f"{where}: holds a run with another {part} ({found[part]}); choose another folder")
    if found["data"]["fingerprint"] != description["data"]["fingerprint"]:
        raise RunError(f"{where}: holds a run on other data; choose another folder")


def _execute(
    program: Program,
    seeds: Sequence[int],
    where: Path | None,
    on_record: OnRecord | None,
    checkpoint_seconds: float,
    sinks: Sequence[Tracker] = (),
) -> Run:
    """Run every seed from where it stands to its end; an interruption leaves a checkpoint behind."""
    with folder.locked(where) if where else nullcontext(), tracker_room.tracking(sinks, where) as track:
        states, records = _restore(program, seeds, where)
        try:
            for record in records:
                track(record)
                if on_record:
                    on_record(record)
            unfinished = {seed: states.get(seed) or loop.start(program, seed) for seed in seeds}
            ended = {record["seed"] for record in records if "diverged" in record}
            for record in _run(program, unfinished, ended, states, where, checkpoint_seconds):
                records.append(record)
                track(record)
                if on_record:
                    on_record(record)
        except KeyboardInterrupt:
            if where and states:
                _save(where, states)
            raise
    result = Run(records, {seed: state.parameters for seed, state in states.items()}, program.tasks, where)
    if result.diverged and not result.final:
        first = next(iter(result.diverged.values()))
        raise RunError(f"seed {first['seed']}, meta-update {first['update']}: {first['diverged']}")
    return result


def _run(
    program: Program,
    begun: Mapping[int, MetaState],
    ended: Collection[int],
    states: dict[int, MetaState],
    where: Path | None,
    checkpoint_seconds: float,
) -> Iterator[Record]:
    """The remaining meta-updates of all seeds but those that ``ended`` early.

    ``states`` always holds the latest state of every seed begun.
    """
    saved = time.monotonic()
    for moved, records in loop.run(program, begun, ended):
        if where:
            folder.append_records(where, records)
        states.update(moved())
        last = any("final" in record or "diverged" in record for record in records)
        if where and (last or time.monotonic() - saved >= checkpoint_seconds):
            _save(where, states)
            saved = time.monotonic()
        yield from records


def _save(where: Path, states: Mapping[int, MetaState]) -> None:
    folder.sync_metrics(where)
    done = {str(seed): int(state.update) for seed, state in states.items()}
    tensors = {
        name: tensor for seed, state in states.items() for name, tensor in checkpoint.flatten(state, f"{seed}").items()
    }
    checkpoint.save(where, tensors, {"step": sum(done.values()), "updates": done})


def _restore(program: Program, seeds: Sequence[int], where: Path | None) -> tuple[dict[int, MetaState], list[Record]]:
    """States by seed and the records that led to them, as the last checkpoint has them; nothing for a new run."""
    stored = checkpoint.load(where) if where else None
    if where is None or stored is None:
        if where:
            folder.keep_records(where, {})
        return {}, []
    tensors, facts = stored
    done = {int(seed): int(updates) for seed, updates in facts["updates"].items()}
    template = loop.start(program, seeds[0])
    states = {seed: checkpoint.unflatten(template, tensors, f"{seed}") for seed in done}
    return states, folder.keep_records(where, done)
