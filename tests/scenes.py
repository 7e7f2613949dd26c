"""Small learners for tests: objective, schedule, data and state put together in one place."""

import jax.numpy as jnp

import metasched as ms
from metasched import schedulers
from metasched.learners import engine, rewards
from metasched.learners.gradients import Scene
from metasched.learners.inner import Schedule
from metasched.learners.losses import objective_of
from metasched.learners.meta import meta
from metasched.learners.networks import mlp, num_outputs
from metasched.schedulers.base import Scheduler


def objective_for(tasks, network=None, hidden=(6,), **config):
    """The objective of a small network; settings are resolved."""
    settings = ms.TrainConfig(**{"batch_size": 4, **config}).resolve(tasks)
    network = network or mlp(num_outputs(tasks, settings.heads == "shared"), hidden)
    return objective_of(tasks, network, settings)


def schedule_for(objective, scheduler):
    """That scheduler, told the reward that the settings name."""
    return Schedule(scheduler, (rewards.find(objective.config.reward),))


def first_of(objective, data, scheduler=None, seed=0):
    """The schedule, by default round robin, and the state before any meta-update."""
    schedule = schedule_for(objective, scheduler or schedulers.cyclic(len(data.sizes)))
    learner = meta(objective, schedule, None)
    return schedule, learner.init(data, seed, engine.hyperparameters_of(objective.config))


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


def program_for(tasks, network=None, scheduler=None, told=("scaled",), together=1, **config):
    """A small compiled program: six meta-updates of four rows a batch, measured after each."""
    settings = ms.TrainConfig(**{"batch_size": 4, "meta_updates": 6, "eval_every": 1, **config})
    network = network or mlp(num_outputs(tasks, settings.heads == "shared"), (6,))
    scheduler = scheduler or schedulers.cyclic(len(tasks.tasks))
    return engine.prepare(tasks, network, scheduler, settings, tuple(map(rewards.find, told)), together=together)


def start(program, seed=0, reward=0, **rates):
    """The state of a run before its first meta-update; ``rates`` are ``inner_rate`` and ``outer_rate``."""
    hyperparameters = engine.hyperparameters_of(program.objective.config, reward)
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
