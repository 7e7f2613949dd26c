"""Small learners for tests: objective, schedule, data and state put together in one place."""

import jax.numpy as jnp

import metasched as ms
from metasched import schedulers
from metasched.learners import engine, rewards
from metasched.learners.checks import checked_objective
from metasched.learners.inner import Scene, Schedule
from metasched.learners.meta import meta
from metasched.learners.networks import mlp, num_outputs
from metasched.schedulers.base import Scheduler
from metasched.schedulers.rows import by_rows


def objective_for(tasks, network=None, hidden=(6,), abstain=False, learner=ms.AlgorithmOne, **changes):
    """The objective of a small network; settings are resolved. Batches are of one source unless it says otherwise."""
    settings = learner(**{"batch_size": 4, "batching": "per_source", **changes})
    network = network or mlp(num_outputs(tasks, settings.heads == "shared"), hidden)
    return checked_objective(tasks, network, settings, abstain=abstain)


def schedule_for(scheduler, reward="transfer"):
    """That scheduler, told that reward."""
    return Schedule(scheduler, (rewards.find(reward),))


def chooser_for(objective, scheduler, arms):
    """What chooses the batches of an objective, or the rows of its mixed ones: a scheduler of so many arms."""
    return by_rows(scheduler, arms) if objective.settings.batching == "mixed" else scheduler


def first_of(objective, data, scheduler=None, seed=0, reward="transfer"):
    """The schedule, by default round robin, and the state before any meta-update."""
    arms = len(data.sizes) + objective.abstain
    chooser = chooser_for(objective, scheduler or schedulers.cyclic(len(data.sizes)), arms)
    schedule = schedule_for(chooser, reward)
    learner = meta(objective, schedule)
    return schedule, learner.init(data, seed, engine.hyperparameters_of(objective.settings))


def scene_of(objective, schedule, data, state):
    """What an estimator needs to go on from a state, with all validation rows in the outer loss."""
    return Scene(objective, schedule, data, data.validation, state.stream, state.hyperparameters.reward_index)


def follow(order):
    """A scheduler that follows a list and keeps what it is told: its state is (turn, rewards)."""
    turns = jnp.array(order)

    def update(state, labels, task, reward):
        return state[0] + 1, state[1].at[state[0]].set(reward)

    return Scheduler(
        lambda key: (jnp.int32(0), jnp.zeros(len(order))), lambda state, labels: turns[state[0] % len(order)], update
    )


def program_for(tasks, network=None, scheduler=None, told=("scaled",), together=1, own_rows=False, **changes):
    """A small compiled program: six updates of four rows a batch, evaluated after each."""
    objective = objective_for(tasks, network, **{"updates": 6, "eval_every": 1, **changes})
    arms = len(tasks.tasks) + objective.abstain
    chooser = chooser_for(objective, scheduler or schedulers.cyclic(len(tasks.tasks)), arms)
    schedule = Schedule(chooser, tuple(map(rewards.find, told)))
    return engine.prepare(tasks, objective, schedule, together, own_rows)


def start(program, seed=0, reward=0, **rates):
    """The state of a run before its first meta-update; ``rates`` are ``inner_rate`` and ``outer_rate``."""
    hyperparameters = engine.hyperparameters_of(program.objective.settings, reward)
    return program.start(
        program.rows.data, seed, hyperparameters._replace(**{name: jnp.float32(rate) for name, rate in rates.items()})
    )


def run_all(program, states):
    """Every record of every replica, by replica."""
    records = {replica: [] for replica in states}
    for _, lines in engine.run(program, states):
        for replica, record in lines:
            records[replica].append(record)
    return records


def records_of(program, seed=0, **hyperparameters):
    """The records of one run."""
    return run_all(program, {seed: start(program, seed, **hyperparameters)})[seed]
