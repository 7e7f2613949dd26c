"""Checks before anything is compiled: shapes, losses, memory."""

import os
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from metasched.errors import ConfigError
from metasched.learners import gradients
from metasched.learners.losses import Losses, Objective, objective_of
from metasched.learners.networks import Network, default_network, num_outputs
from metasched.learners.settings import AlgorithmOne, LearnerSettings
from metasched.tasks import TaskSet

USABLE = 0.8
"""The share of a device's memory that a run may use."""


def _shape(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def check_network(tasks: TaskSet, network: Network, settings: LearnerSettings) -> None:
    """Refuse a network that cannot read the inputs, or whose outputs do not match the classes."""
    wanted = num_outputs(tasks, settings.heads == "shared")
    inputs = _shape((2, *tasks.shape), jnp.float32)
    weights = jax.eval_shape(network.init, jax.random.key(0), inputs)
    found = jax.eval_shape(network.apply, weights, inputs)
    if getattr(found, "shape", None) != (2, wanted):
        raise ConfigError(
            f"the network turns 2 inputs {tasks.shape} into {getattr(found, 'shape', found)}, but the tasks need "
            f"(2, {wanted}); give it {wanted} outputs"
        )
    odd = [leaf for leaf in jax.tree.leaves(weights) if not jnp.issubdtype(leaf.dtype, jnp.floating)]
    if odd:
        raise ConfigError(f"the network has weights of type {odd[0].dtype}; all must be floating point")


def check_losses(tasks: TaskSet, losses: Losses) -> None:
    """Refuse a loss that returns anything but one number for one row."""
    regression = tasks.target_size is not None
    width = num_outputs(tasks, shared=True)
    outputs = _shape((width,), jnp.float32)
    answer = _shape((width,), jnp.float32) if regression else _shape((), jnp.int32)
    for name, loss in zip(losses._fields, losses, strict=True):
        found = jax.eval_shape(loss, outputs, answer)
        if getattr(found, "shape", None) != ():
            raise ConfigError(
                f"the {name} loss of one row has shape {getattr(found, 'shape', found)}; it must return one number"
            )


def weight_bytes(tasks: TaskSet, network: Network) -> int:
    """The bytes of one set of weights."""
    weights = jax.eval_shape(network.init, jax.random.key(0), _shape((1, *tasks.shape), jnp.float32))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(weights))


def device_memory() -> int:
    """The bytes of memory of the first device, or of the machine if the device is a CPU."""
    device = jax.devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def kept_weights(settings: LearnerSettings) -> int:
    """How many sets of weights exist at once: the model, two for Adam, gradients and copies, and those of the
    meta-gradient.

    Each copy of the learner that ``reward_folds`` asks for needs the same again.
    """
    kept = gradients.find(settings.gradient).kept(settings) if isinstance(settings, AlgorithmOne) else 0
    return (1 + settings.reward_folds) * (10 + kept)


def checked_objective(
    tasks: TaskSet,
    network: Network | str,
    settings: LearnerSettings,
    losses: Losses | None = None,
    *,
    abstain: bool = False,
    replicas: int = 1,
) -> Objective:
    """Build the network and resolve the settings. Refuse anything that cannot run on these tasks.

    ``replicas`` runs will run side by side, and must fit into memory. An objective from here needs no further check.
    """
    settings = settings.resolve(tasks)
    if isinstance(settings, AlgorithmOne) and settings.gradient != "auto":
        gradients.find(settings.gradient)
    built = default_network(tasks, network, settings.heads == "shared")
    check_network(tasks, built, settings)
    objective = objective_of(tasks, built, settings, losses)
    check_losses(tasks, objective.losses)
    return objective._replace(settings=fit_memory(tasks, built, settings, replicas), abstain=abstain)


def fit_memory(tasks: TaskSet, network: Network, settings: LearnerSettings, replicas: int = 1) -> LearnerSettings:
    """Choose the gradient of Algorithm 1 if it is left open, and refuse a run that does not fit into memory."""
    one = weight_bytes(tasks, network)
    rows = sum(task.inputs.nbytes for task in tasks.tasks) + tasks.validation.inputs.nbytes
    room = USABLE * device_memory() - rows
    if isinstance(settings, AlgorithmOne) and settings.gradient == "auto":
        stored = replace(settings, gradient="stored")
        settings = stored if one * kept_weights(stored) <= room else replace(settings, gradient="remat")
    needed = replicas * one * kept_weights(settings)
    if needed > room:
        changes = [f"fewer seeds at once (now {replicas})"] if replicas > 1 else []
        if isinstance(settings, AlgorithmOne):
            changes += [] if settings.gradient == "remat" else ["gradient remat or first-order"]
            changes += ["fewer batches_per_update"]
        raise ConfigError(
            f"one update would need about {needed / 1e9:.1f} GB for {one / 1e6:.1f} MB of weights and "
            f"{rows / 1e9:.1f} GB of rows, and the device has {device_memory() / 1e9:.1f} GB; "
            f"give {', '.join(changes)}{' or ' if changes else ''}a smaller network"
        )
    return settings


def replicas_that_fit(tasks: TaskSet, objective: Objective) -> int:
    """How many runs, whose weights are kept at every step, fit on a device at once; at least one."""
    settings = objective.settings
    kept = kept_weights(settings)
    if not isinstance(settings, AlgorithmOne):  # activations may take as much memory as the weights of every step
        kept += (1 + settings.reward_folds) * (settings.batches_per_update or 0)
    return max(1, int(USABLE * device_memory() / 2 / (weight_bytes(tasks, objective.network) * kept)))
