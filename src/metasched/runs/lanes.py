"""Many methods, seeds and rates on one task set, through one compiled program.

A *lane* is one run: a method, a seed, two rates. The scheduler that decides is part of a lane's state
(:func:`metasched.schedulers.either`), so all lanes share one program; on accelerators many run side by side, on a CPU
one after another.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metasched import schedulers
from metasched.experiments.methods import DISCOUNT, Method
from metasched.meta import loop
from metasched.meta.config import REWARDS, TrainConfig
from metasched.meta.evaluate import measured_subset
from metasched.meta.inner import device_data
from metasched.meta.loop import Program, Record
from metasched.meta.networks import default_network
from metasched.meta.outer import MetaState, first_state
from metasched.meta.plan import Plan, planner
from metasched.meta.records import Rates
from metasched.schedulers import Scheduler
from metasched.tasks import TaskSet

TIMED_UPDATES = 5


class Lane(NamedTuple):
    """One run of a comparison."""

    method: Method
    seed: int
    inner_rate: float
    outer_rate: float


class Bench(NamedTuple):
    """A compiled program for all methods on tasks of one shape, and the task set that it holds now."""

    program: Program
    network: str
    arms: tuple[Method, ...]
    start: Callable[[Any], MetaState]


def prepare(tasks: TaskSet, network: str, config: TrainConfig, methods: Sequence[Method], together: int) -> Bench:
    """Build the program; every scheduler is there once, however many methods use it."""
    config = replace(config, abstain=True).resolve(tasks)
    arms = _distinct(methods)
    plan = _planner(tasks, network, config)(0) if any(_planned(method) for method in arms) else None
    scheduler = schedulers.either([_scheduler(method, tasks, config, plan) for method in arms])
    built = default_network(tasks, network, config.heads == "shared")
    program = loop.prepare(tasks, built, scheduler, config, together=together)

    def start(seeds: Any) -> MetaState:
        return jax.vmap(partial(first_state, program.learner, program.data, outer=program.outer))(seeds)

    return Bench(program, network, arms, jax.jit(start))


def refill(bench: Bench, tasks: TaskSet) -> Bench:
    """The same program with other rows of the same shapes; nothing is compiled again."""
    learner = bench.program.learner
    program = bench.program._replace(
        tasks=tasks,
        data=device_data(tasks, learner.config),
        test=measured_subset(tasks, learner.config.eval_rows),
    )
    return bench._replace(program=program)


def run(bench: Bench, lanes: Sequence[Lane]) -> Iterator[tuple[int, Record]]:
    """Records of all lanes, each with the number of its lane; a lane's last record has ``final`` or ``diverged``."""
    together = bench.program.together
    plans = _plans(bench, lanes)
    for begin in range(0, len(lanes), together):
        numbers = list(range(begin, min(begin + together, len(lanes))))
        group = [lanes[number] for number in numbers]
        group += [group[-1]] * (together - len(group))
        stacked = _first_states(bench, group, plans)
        if together == 1:
            stacked = jax.tree.map(lambda leaf: leaf[0], stacked)
        rates = {number: Rates(lanes[number].inner_rate, lanes[number].outer_rate) for number in numbers}
        spread = loop.spread(bench.program, stacked)
        for _, records in loop.run_together(bench.program, numbers, spread, rates=rates):
            for record in records:
                yield record.pop("seed"), record


def _first_states(bench: Bench, lanes: Sequence[Lane], plans: Mapping[tuple[int, float], Plan]) -> MetaState:
    """States of all lanes before any meta-update, stacked: seeds differ, then method, reward and rates."""
    config = bench.program.learner.config
    state = bench.start(jnp.asarray([lane.seed for lane in lanes]))
    places = [_place(bench.arms, lane.method) for lane in lanes]
    states = list(state.stream.scheduler.states)
    for number, arm in enumerate(bench.arms):
        if arm.scheduler == "single":
            tasks = [lane.method.options.get("task", 0) for lane in lanes]
            states[number] = jnp.asarray(tasks, jnp.int32)
        elif _planned(arm) and number in places:
            mine = {_planned_for(lane) for lane, place in zip(lanes, places, strict=True) if place == number}
            made = {key: _scheduler(arm, bench.program.tasks, config, plans[key]) for key in mine}
            known = {key: scheduler.init(jax.random.key(0)) for key, scheduler in made.items()}
            spare = next(iter(known.values()))
            every = [known.get(_planned_for(lane), spare) for lane in lanes]
            planned = jax.tree.map(lambda *leaves: jnp.stack(leaves), *every)
            fresh = states[number]
            tables = isinstance(planned, jax.Array)
            states[number] = planned if tables else fresh._replace(transitions=planned.transitions)
    which = jnp.asarray(places, jnp.int32)
    rates = jnp.log(jnp.asarray([lane.inner_rate for lane in lanes], jnp.float32))
    rewards = jnp.asarray([REWARDS.index(lane.method.reward) for lane in lanes], jnp.int32)
    outer = jnp.asarray([lane.outer_rate / config.outer_rate for lane in lanes], jnp.float32)
    stream = state.stream._replace(scheduler=state.stream.scheduler._replace(which=which, states=tuple(states)))
    return state._replace(
        parameters=state.parameters._replace(log_rate=rates),
        stream=stream,
        knobs=state.knobs._replace(reward=rewards, outer=outer),
    )


def _key(method: Method) -> tuple[Any, ...]:
    """What makes two methods share a scheduler; the single task is a lane's own."""
    if method.scheduler == "single":
        return ("single",)
    return (method.scheduler, tuple(sorted(method.options.items())), method.abstain)


def _distinct(methods: Sequence[Method]) -> tuple[Method, ...]:
    return tuple({_key(method): method for method in methods}.values())


def _place(arms: Sequence[Method], method: Method) -> int:
    return [_key(arm) for arm in arms].index(_key(method))


def _planned(method: Method) -> bool:
    return schedulers.needs_plan(method.scheduler)


def _planned_for(lane: Lane) -> tuple[int, float]:
    """What a plan depends on: the seed of the initial model, and the rate of the steps that probe it."""
    return lane.seed, lane.inner_rate


def _plans(bench: Bench, lanes: Sequence[Lane]) -> dict[tuple[int, float], Plan]:
    """The plans of all lanes that need one; lanes of the same seed and inner rate share theirs."""
    config, plans = bench.program.learner.config, {}
    wanted = sorted({_planned_for(lane) for lane in lanes if _planned(lane.method)})
    for rate in sorted({rate for _, rate in wanted}):
        make = _planner(bench.program.tasks, bench.network, replace(config, inner_rate=rate))
        plans.update({(seed, rate): make(seed) for seed, other in wanted if other == rate})
    return plans


def _planner(tasks: TaskSet, network: str, config: TrainConfig) -> Callable[[int], Plan]:
    return planner(tasks, network, config, discount=DISCOUNT)


def _scheduler(method: Method, tasks: TaskSet, config: TrainConfig, plan: Plan | None) -> Scheduler:
    passes = [max(1, size // config.batch_size) for size in tasks.sizes]
    if method.scheduler == "single":
        return schedulers.make("single", num_tasks=len(passes), abstain=True)
    return schedulers.make(
        method.scheduler, num_tasks=len(passes), plan=plan, passes=passes, abstain=method.abstain, **method.options
    )


def seconds_per_update(bench: Bench, lane: Lane) -> float:
    """Seconds of one meta-update of a lane that runs alone, its share of measuring included, compilation aside."""
    program = bench.program
    state = jax.tree.map(lambda leaf: leaf[0], _first_states(bench, [lane], _plans(bench, [lane])))
    program.chunk(program.data, program.test, state, 0, 1)[1].loss.block_until_ready()
    began = time.monotonic()
    program.chunk(program.data, program.test, state, 0, TIMED_UPDATES)[1].loss.block_until_ready()
    return (time.monotonic() - began) / TIMED_UPDATES


def lanes_at_once(lanes: int, most: int = 128) -> int:
    """Lanes to run side by side: one on a CPU, else equal groups of at most ``most``."""
    if jax.default_backend() == "cpu":
        return 1
    return math.ceil(lanes / math.ceil(lanes / most))


def mean_drawn(rows: Sequence[Sequence[Sequence[int]]]) -> list[list[float]]:
    """Rows drawn by task and label, mean over runs."""
    return [[round(float(count), 1) for count in task] for task in np.mean(np.asarray(rows, float), axis=0)]
