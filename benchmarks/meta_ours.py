"""Our side of `meta.py`: the one place where it touches the insides of the engine."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import meta_work
from meta_work import TASKS, Work

import metasched as ms
from metasched.learners import engine, gradients, rewards
from metasched.learners.checks import checked_objective
from metasched.learners.inner import Scene, Schedule
from metasched.learners.losses import task_loss
from metasched.schedulers.base import Scheduler

UPDATES = 8
"""Meta-updates of one call: the engine runs them as one program, and the time is divided by their number."""


class Run(NamedTuple):
    """Something to time: a call, and the meta-updates it makes."""

    call: Callable[[], Any]
    updates: int

    def __call__(self) -> Any:
        """Make them."""
        return self.call()


class Gradient(NamedTuple):
    """Where the meta-gradient was taken, its value, and the tasks that the schedule drew.

    ``weights`` and ``by_weights`` are lists of layers {w, b}.
    """

    weights: Any
    by_weights: Any
    by_log_rate: float
    tasks: list[int]


def program_of(
    work: Work, scheduler: Scheduler | None = None, config: dict[str, Any] | None = None, seeds: int = 1
) -> engine.Program:
    """A learner on the rows of ``work``, ready to run."""
    tasks = meta_work.tasks_of(work)
    if scheduler is None and work.scheduler == "ucb":
        scheduler = ms.schedulers.ucb(TASKS, upper=meta_work.UCB_WIDTH, xi=meta_work.UCB_XI, scale="fixed")
    settings = ms.AlgorithmOne(
        batch_size=work.rows,
        batches_per_update=work.steps,
        inner_rate=meta_work.INNER_RATE,
        outer_rate=meta_work.OUTER_RATE,
        target_batch="all" if work.outer_rows == work.validation else "uniform",
        updates=1000,
        eval_every=1000,
        **(config or {}),
    )
    objective = checked_objective(tasks, work.network, settings)
    schedule = Schedule(scheduler or ms.schedulers.cyclic(TASKS), (rewards.scaled,))
    return engine.prepare(tasks, objective, schedule, together=seeds)


def start(program: engine.Program, seed: int) -> Any:
    """The state before the first meta-update."""
    return program.start(program.rows.data, seed, engine.hyperparameters_of(program.objective.settings))


def ours_meta_gradient(work: Work, **config: Any) -> Gradient:
    """The meta-gradient at the first state, outer loss on the first ``outer_rows`` validation rows."""
    program = program_of(work, config=config)
    state = start(program, seed=0)
    batch = program.rows.data.validation.take(slice(0, work.outer_rows))
    schedule = Schedule(ms.schedulers.cyclic(TASKS), (rewards.scaled,))

    def find(parameters):
        scene = Scene(
            program.objective, schedule, program.rows.data, batch, state.stream, state.hyperparameters.reward_index
        )
        return gradients.find(program.objective.settings.gradient).find(scene, parameters)

    (_, adapted), gradient = jax.jit(find)(state.parameters)
    return Gradient(state.parameters.weights, gradient.weights, float(gradient.log_rate), adapted.tasks.tolist())


def ours_update(program: engine.Program) -> Run:
    """Meta-updates of one seed, always from the same state."""
    state = start(program, seed=0)
    return Run(
        lambda: jax.block_until_ready(program.chunk(program.rows.data, program.rows.test, state, 0, UPDATES)), UPDATES
    )


def ours_seeds(work: Work, seeds: int, config: dict[str, Any]) -> Run:
    """Meta-updates of many seeds at once."""
    program = program_of(work, config=config, seeds=seeds)
    states = engine._stack_states(program, [start(program, seed) for seed in range(seeds)])
    return Run(
        lambda: jax.block_until_ready(program.chunk(program.rows.data, program.rows.test, states, 0, UPDATES)), UPDATES
    )


def xla_step_flops(work: Work) -> tuple[float, float]:
    """What XLA counts for the gradient of one inner step, and for that and a Hessian-vector product together."""
    program = program_of(work)
    weights = start(program, seed=0).parameters.weights
    batch = program.rows.data.sources.take(slice(0, work.rows))

    def gradient(weights):
        return jax.grad(task_loss, argnums=1)(program.objective, weights, None, batch, program.objective.heads.target)

    def product(weights, direction):
        return jax.jvp(gradient, (weights,), (direction,))

    def counted(function, *arguments):
        analysis = jax.jit(function).lower(*arguments).compile().cost_analysis()
        return float((analysis[0] if isinstance(analysis, list) else analysis).get("flops", float("nan")))

    return counted(gradient, weights), counted(product, weights, weights)


def reads_its_reward(num_tasks: int) -> Scheduler:
    """Round robin that keeps the last reward: the schedule of cyclic at the cost of measuring rewards."""
    return Scheduler(
        lambda key: (jnp.int32(0), jnp.float32(0)),  # noqa: ARG005
        lambda state, labels: state[0],  # noqa: ARG005
        lambda state, labels, task, reward: ((state[0] + 1) % num_tasks, reward),  # noqa: ARG005
    )


def planned(work: Work, name: str) -> Scheduler:
    """A scheduler that needs a plan."""
    plan = ms.plan(meta_work.tasks_of(work), work.network, ms.Joint(batch_size=work.rows))
    return ms.schedulers.make(name, num_tasks=TASKS, plan=plan)
