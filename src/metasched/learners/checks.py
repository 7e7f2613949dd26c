"""What can be said to be wrong before anything is compiled: shapes, losses, memory."""

import os
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from metasched.errors import ConfigError
from metasched.learners import gradients
from metasched.learners.config import TrainConfig
from metasched.learners.gradients import Estimator
from metasched.learners.inner import trained_arrays
from metasched.learners.losses import Losses
from metasched.learners.networks import Network, num_outputs
from metasched.tasks import TaskSet

USABLE = 0.8
"""Share of a device's memory that a run may plan with."""


def _shape(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def check_network(tasks: TaskSet, network: Network, config: TrainConfig) -> None:
    """Refuse a network that cannot read the inputs, or whose outputs do not match the classes."""
    wanted = num_outputs(tasks, config.heads == "shared")
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
    trained_arrays(network, weights, config)


def check_losses(tasks: TaskSet, losses: Losses) -> None:
    """Refuse a loss that gives anything but one number for one row."""
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
    """Bytes of one set of weights."""
    inputs = _shape((1, *tasks.shape), jnp.float32)
    weights = jax.eval_shape(network.init, jax.random.key(0), inputs)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(weights))


def device_memory() -> int:
    """Bytes of the first device, or of the machine where that is the device."""
    device = jax.devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def kept_weights(config: TrainConfig, estimator: Estimator) -> int:
    """Sets of weights alive at once: λ, Adam's two, gradients and copies, and what the way back needs.

    So many again for each copy of the learner that ``reward_folds`` asks for.
    """
    return (1 + config.reward_folds) * (10 + estimator.kept(config))


def settle_memory(
    tasks: TaskSet, network: Network, config: TrainConfig, replicas: int = 1, estimator: Estimator | None = None
) -> TrainConfig:
    """Choose the gradient mode where it is left to us, and refuse what will not fit, saying which setting to change."""
    one = weight_bytes(tasks, network)
    rows = sum(task.inputs.nbytes for task in tasks.tasks) + tasks.validation.inputs.nbytes
    room = USABLE * device_memory() - rows
    gradient = config.gradient
    if gradient == "auto":
        gradient = "stored" if replicas * one * kept_weights(config, gradients.find("stored")) <= room else "remat"
    needed = replicas * one * kept_weights(config, gradients.find(estimator or gradient))
    if needed > room:
        fewer = f"fewer seeds at once (now {replicas}), " if replicas > 1 else ""
        other = "" if gradient == "remat" else "gradient remat or first-order, "
        raise ConfigError(
            f"one meta-update would need about {needed / 1e9:.1f} GB for {one / 1e6:.1f} MB of weights and "
            f"{rows / 1e9:.1f} GB of rows, and the device has {device_memory() / 1e9:.1f} GB; "
            f"give {fewer}{other}fewer batches_per_update or a smaller network"
        )
    return replace(config, gradient=gradient)


def replicas_that_fit(tasks: TaskSet, network: Network, config: TrainConfig) -> int:
    """Runs of which the weights of every step fit on one device at once; at least one."""
    estimator = gradients.find("stored" if config.gradient == "auto" else config.gradient)
    return max(1, int(USABLE * device_memory() / 2 / (weight_bytes(tasks, network) * kept_weights(config, estimator))))
