"""Networks as two functions, and the two networks of the paper."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from msgspec import Meta, Struct

from metasched.errors import ConfigError
from metasched.tasks import TaskSet

__all__ = ["Network", "cnn", "mlp"]

Weights: TypeAlias = Any
"""A pytree of float arrays."""


class Network(NamedTuple):
    """A model as two pure functions. A Flax module fits as ``Network(module.init, module.apply)``.

    Attributes:
        init: ``init(key, inputs) -> weights``; ``inputs`` is a batch that shows the shape.
        apply: ``apply(weights, inputs (n, *shape)) -> outputs (n, classes)``.
        head: ``head(weights) -> bools`` of the same structure, true for the arrays of the output layer. If tasks have
            their own heads, the rewards ``transfer`` and ``alignment`` leave out these arrays.

    Examples:
        >>> import jax
        >>> def init(key, inputs):
        ...     return {"slope": jax.random.normal(key, (inputs.shape[1], 2))}
        >>> linear = ms.Network(init, lambda weights, inputs: inputs @ weights["slope"])
        >>> learner = ms.Joint(batch_size=10, updates=1)
        >>> ms.train(tasks, network=linear, learner=learner).model().predict(tasks.test.inputs).shape
        (50,)
    """

    init: Callable[[jax.Array, jax.Array], Weights]
    apply: Callable[[Weights, jax.Array], jax.Array]
    head: Callable[[Weights], Any] | None = None


Size: TypeAlias = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class Mlp(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="mlp", weakref=True):
    """A fully connected, rectified network. Calling it applies weights to inputs. A saved model stores it as JSON."""

    outputs: Size
    hidden: tuple[Size, ...]

    def init(self, key: jax.Array, inputs: jax.Array) -> Weights:
        """The weights of every layer, for inputs of this shape."""
        sizes = [math.prod(inputs.shape[1:]), *self.hidden, self.outputs]
        keys = jax.random.split(key, len(sizes) - 1)
        return [_dense(key, fan_in, fan_out) for key, fan_in, fan_out in zip(keys, sizes, sizes[1:], strict=False)]

    def __call__(self, weights: Weights, inputs: jax.Array) -> jax.Array:
        """Outputs (n, outputs) of inputs (n, *shape)."""
        values: jax.Array = inputs.reshape(inputs.shape[0], -1)
        for layer in weights[:-1]:
            values = jax.nn.relu(linear(values, layer))
        return linear(values, weights[-1])


class Cnn(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="cnn", weakref=True):
    """A network of strided, rectified convolutions. Calling it applies weights to inputs. A saved model stores it as
    JSON.
    """

    outputs: Size
    filters: Size
    layers: Annotated[int, Meta(ge=0, le=64)]

    def init(self, key: jax.Array, inputs: jax.Array) -> Weights:
        """The weights of every layer, for inputs of this shape."""
        height, width, channels = inputs.shape[1:]
        keys = jax.random.split(key, self.layers + 1)
        sizes = [channels] + [self.filters] * self.layers
        weights = [_dense(key, 9 * old, new) for key, old, new in zip(keys, sizes, sizes[1:], strict=False)]
        for _ in range(self.layers):
            height, width = -(-height // 2), -(-width // 2)
        return [*weights, _dense(keys[-1], height * width * self.filters, self.outputs)]

    def __call__(self, weights: Weights, inputs: jax.Array) -> jax.Array:
        """Outputs (n, outputs) of inputs (n, *shape)."""
        values = inputs
        for layer in weights[:-1]:
            values = jax.nn.relu(linear(strided_patches(values), layer))
        return linear(values.reshape(values.shape[0], -1), weights[-1])


def mlp(outputs: int, hidden: Sequence[int] = (300, 300, 300)) -> Network:
    """Make a fully connected, rectified network. The paper's network for digits has three hidden layers of 300 nodes.

    Args:
        outputs: the number of nodes of the last layer, one per class.
        hidden: the number of nodes of each hidden layer.

    Returns:
        The network.

    Examples:
        >>> import jax
        >>> network = ms.networks.mlp(outputs=2, hidden=[16])
        >>> weights = network.init(jax.random.key(0), tasks.test.inputs[:1])
        >>> network.apply(weights, tasks.test.inputs).shape
        (50, 2)
    """
    return build(Mlp(outputs, tuple(hidden)))


def cnn(outputs: int, filters: int = 64, layers: int = 4) -> Network:
    """Make a network of 3 × 3 convolutions with stride 2 and a linear output, as in the paper for CIFAR and weather.

    Args:
        outputs: the number of nodes of the last layer, one per class.
        filters: the number of filters of each convolution.
        layers: the number of convolutions.

    Returns:
        The network, for inputs (height, width, channels).

    Examples:
        >>> import jax
        >>> network = ms.networks.cnn(outputs=5, filters=8, layers=1)
        >>> images = np.zeros((3, 8, 8, 1), "float32")
        >>> network.apply(network.init(jax.random.key(0), images), images).shape
        (3, 5)
    """
    return build(Cnn(outputs, filters, layers))


def build(layers: Mlp | Cnn) -> Network:
    """The network with these layers."""
    return Network(layers.init, layers, _last_layer)


def strided_patches(images: jax.Array) -> jax.Array:
    """3 × 3 patches at stride 2, one pixel of zero padding: (n, h, w, c) to (n, ⌈h/2⌉, ⌈w/2⌉, 9c).

    A convolution is then a matrix product, and its second derivatives are matrix products, too. This is several times
    faster to differentiate twice than the native convolution.
    """
    number, height, width, channels = images.shape
    rows, columns = -(-height // 2), -(-width // 2)
    padded = jnp.pad(images, ((0, 0), (1, 2 * rows + 1 - height), (1, 2 * columns + 1 - width), (0, 0)))
    # Pairs of columns side by side, so that two of a patch's three columns are one slice without gaps.
    pairs = padded.reshape(number, rows + 1, 2, columns + 1, 2 * channels)
    lines = (pairs[:, :rows, 0], pairs[:, :rows, 1], pairs[:, 1:, 0])
    return jnp.concatenate(
        [part for line in lines for part in (line[:, :, :columns], line[:, :, 1:, :channels])], axis=-1
    )


def linear(values: jax.Array, layer: dict[str, jax.Array]) -> jax.Array:
    """Values (…, fan_in) to (…, fan_out)."""
    return values @ layer["w"] + layer["b"]


def _dense(key: jax.Array, fan_in: int, fan_out: int) -> dict[str, jax.Array]:
    """He initialisation: the variance 2 / fan_in keeps rectified layers at the same scale."""
    scale = math.sqrt(2 / fan_in)
    return {"w": scale * jax.random.normal(key, (fan_in, fan_out)), "b": jnp.zeros(fan_out)}


def _last_layer(weights: Weights) -> Weights:
    """Which arrays belong to the output layer, for a list of layers."""
    last = len(weights) - 1
    return [jax.tree.map(lambda _, mine=number == last: mine, layer) for number, layer in enumerate(weights)]


SMALL_INPUT = 100
"""For inputs with at most this many values, ``"auto"`` takes one hidden layer. It is faster than three, and as good."""
SMALL_HIDDEN = (300,)


class Heads(NamedTuple):
    """How outputs are read: ``number`` heads of ``width`` outputs each. Head h has ``classes[h]`` real classes."""

    number: int
    width: int
    classes: tuple[int, ...]

    @property
    def target(self) -> int:
        """The target's head: the only one, or the last."""
        return self.number - 1

    def of_task(self, task: jax.Array) -> jax.Array:
        """The head of a task: its own, or the one that all tasks share."""
        return task if self.number > 1 else jnp.zeros_like(task)


def heads_of(tasks: TaskSet, shared: bool = False) -> Heads:
    """A single head if labels are shared or ``shared`` forces it. Otherwise one for each task, and the target's head
    last.

    All heads are as wide as the largest number of classes of a task or the target.
    """
    width = max(len(tasks.classes), *(len(task.classes) for task in tasks.tasks))
    if tasks.shared_labels or shared:
        return Heads(1, width, (len(tasks.classes) if tasks.shared_labels else width,))
    return Heads(len(tasks.tasks) + 1, width, (*(len(task.classes) for task in tasks.tasks), len(tasks.classes)))


def num_outputs(tasks: TaskSet, shared: bool = False) -> int:
    """The number of outputs that a network for these tasks needs: all heads, or the targets of a regression."""
    if tasks.target_size is not None:
        return tasks.target_size
    heads = heads_of(tasks, shared)
    return heads.number * heads.width


def default_network(tasks: TaskSet, kind: Network | str = "auto", shared: bool = False) -> Network:
    """Make ``"mlp"``, ``"cnn"``, or ``"auto"``: convolutional for inputs (height, width, channels), otherwise
    connected.

    With at most 100 values in an input, ``"auto"`` has one hidden layer of 300 nodes. ``"mlp"`` always has three. A
    finished network is returned unchanged. ``shared`` forces a single head on tasks with their own labels.
    """
    if not isinstance(kind, str):
        return kind
    outputs = num_outputs(tasks, shared)
    if kind == "auto" and len(tasks.shape) != 3 and math.prod(tasks.shape) <= SMALL_INPUT:
        return mlp(outputs, SMALL_HIDDEN)
    if kind == "auto":
        kind = "cnn" if len(tasks.shape) == 3 else "mlp"
    if kind == "mlp":
        return mlp(outputs)
    if kind != "cnn":
        raise ConfigError(f"unknown network '{kind}'; give auto, mlp or cnn")
    if len(tasks.shape) != 3:
        raise ConfigError(f"a cnn needs inputs (height, width, channels), but these are {tasks.shape}; use network mlp")
    return cnn(outputs)
