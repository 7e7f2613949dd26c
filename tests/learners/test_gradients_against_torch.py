"""The second-order meta-gradient against an independent one: torch.func, with torch's own convolution.

Nothing is shared between the two sides but the numbers they start from. Rows, schedule, networks, loss and the
derivative of the inner loop are written a second time here, on torch tensors.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from metasched.learners import gradients
from metasched.learners.networks import cnn, mlp
from metasched.learners.stream import device_data
from scenes import first_of, objective_for, scene_of

torch = pytest.importorskip("torch")

CLASSES, TASKS, STEPS, BATCH, OUTER_ROWS = 10, 2, 5, 10, 30
INNER_RATE = 0.05
TOLERANCE = {"float32": 1e-5, "float64": 1e-11}


def make_tasks(shape):
    random = np.random.default_rng(3)

    def rows(count):
        return random.normal(size=(count, *shape)), random.integers(0, CLASSES, count)

    sources = {f"task-{number}": rows(BATCH * STEPS) for number in range(TASKS)}
    return ms.TaskSet.from_arrays(
        sources, validation=rows(OUTER_ROWS), test=rows(CLASSES), classes=[str(c) for c in range(CLASSES)]
    )


def ours_meta_gradient(tasks, network, precision):
    """Initial weights, and the derivative of the outer loss by them and by the logarithm of the inner rate."""
    settings = {"batch_size": BATCH, "batches_per_update": STEPS, "inner_rate": INNER_RATE}
    objective = objective_for(tasks, network, **settings)
    with jax.enable_x64(precision == "float64"):
        data = cast(device_data(tasks, objective.settings), precision)
        schedule, state = first_of(objective, data)
        parameters = cast(state.parameters, precision)
        scene = scene_of(objective, schedule, data, state)
        _, gradient = jax.jit(lambda parameters: gradients.find("stored").find(scene, parameters))(parameters)
    return parameters.weights, parameters.log_rate, gradient.weights, gradient.log_rate


def cast(tree, precision):
    """Every float of a pytree in that precision."""
    return jax.tree.map(
        lambda x: jnp.asarray(x, precision) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.asarray(x), tree
    )


def torch_mlp(weights, inputs):
    values = inputs.flatten(1)
    for matrix, bias in weights[:-1]:
        values = torch.relu(values @ matrix + bias)
    matrix, bias = weights[-1]
    return values @ matrix + bias


def torch_cnn(weights, inputs):
    """Rows of a matrix (9c, f) are the pixels (dy, dx, channel) of a 3 × 3 patch."""
    values = inputs.movedim(-1, 1)
    for matrix, bias in weights[:-1]:
        kernel = matrix.reshape(3, 3, -1, matrix.shape[1]).permute(3, 2, 0, 1)
        values = torch.relu(torch.nn.functional.conv2d(values, kernel, bias, stride=2, padding=1))
    matrix, bias = weights[-1]
    return values.movedim(1, -1).flatten(1) @ matrix + bias


def torch_meta_gradient(tasks, apply, weights, log_rate, precision, order):
    """The same derivative; of first ``order`` when the inner gradients are constants."""
    dtype = getattr(torch, precision)
    outer = [torch.tensor(array) for array in (tasks.validation.inputs, tasks.validation.labels)]
    start = [tuple(torch.tensor(np.asarray(layer[name]), dtype=dtype) for name in ("w", "b")) for layer in weights]

    def loss(weights, inputs, labels):
        return torch.nn.functional.cross_entropy(apply(weights, inputs.to(dtype)), labels.long())

    def outer_loss(weights, log_rate):
        for step in range(STEPS):
            task, first = tasks.tasks[step % TASKS], step // TASKS * BATCH
            rows = slice(first, first + BATCH)
            batch = torch.tensor(task.inputs[rows]), torch.tensor(task.labels[rows])
            gradient = torch.func.grad(loss)(weights, *batch)
            if order == "first":
                gradient = [tuple(part.detach() for part in layer) for layer in gradient]
            weights = [
                tuple(part - log_rate.exp() * slope for part, slope in zip(layer, slopes, strict=True))
                for layer, slopes in zip(weights, gradient, strict=True)
            ]
        return loss(weights, *outer)

    return torch.func.grad(outer_loss, argnums=(0, 1))(start, torch.tensor(float(log_rate), dtype=dtype))


def relative_error(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@pytest.fixture(autouse=True)
def _one_thread():
    """Torch's threads wait for each other, which takes seconds where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["mlp", "cnn"])
def network(request):
    """The task set, our network and torch's: the paper's for digits, and for CIFAR and weather."""
    if request.param == "mlp":
        return make_tasks((784,)), mlp(CLASSES), torch_mlp
    return make_tasks((32, 32, 3)), cnn(CLASSES), torch_cnn


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_meta_gradient_equals_torchs(network, precision):
    tasks, built, theirs = network
    weights, log_rate, by_weights, by_log_rate = ours_meta_gradient(tasks, built, precision)
    second, rate_slope = torch_meta_gradient(tasks, theirs, weights, log_rate, precision, "second")
    for number, (ours, layer) in enumerate(zip(by_weights, second, strict=True)):
        for name, expected in zip(("w", "b"), layer, strict=True):
            error = relative_error(ours[name], expected)
            assert error <= TOLERANCE[precision], f"{name} of layer {number} is off by {error:.1e}"
    assert relative_error(by_log_rate, rate_slope) <= TOLERANCE[precision]

    first, _ = torch_meta_gradient(tasks, theirs, weights, log_rate, precision, "first")
    for ours, layer in zip(by_weights, first, strict=True):
        assert relative_error(ours["w"], layer[0]) > 0.01, "the first-order gradient would have passed as well"
