import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.errors import ConfigError
from metasched.learners.networks import cnn, default_network, mlp, strided_patches


def test_the_digits_network_has_four_layers_of_the_papers_sizes():
    weights = mlp(10).init(jax.random.key(0), jnp.zeros((1, 28, 28)))
    assert [layer["w"].shape for layer in weights] == [(784, 300), (300, 300), (300, 300), (300, 10)]


def test_the_image_network_has_four_strided_convolutions_of_64_filters():
    network = cnn(5)
    weights = network.init(jax.random.key(0), jnp.zeros((1, 32, 32, 3)))
    assert [layer["w"].shape for layer in weights] == [(27, 64), (576, 64), (576, 64), (576, 64), (256, 5)]
    assert network.apply(weights, jnp.zeros((7, 32, 32, 3))).shape == (7, 5)


@pytest.mark.parametrize(("height", "width"), [(32, 32), (7, 10), (9, 5), (1, 2)])
def test_patches_times_matrix_is_the_native_convolution(height, width):
    images = jax.random.normal(jax.random.key(0), (3, height, width, 4))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 4, 6))
    native = jax.lax.conv_general_dilated(
        images,
        kernel,
        window_strides=(2, 2),
        padding=((1, 1 if height % 2 else 0), (1, 1 if width % 2 else 0)),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    ours = strided_patches(images) @ kernel.reshape(36, 6)
    np.testing.assert_allclose(ours, native, atol=1e-5)


def test_initial_logits_are_of_moderate_size():
    for network, shape in ((mlp(10), (64, 28, 28)), (cnn(5), (64, 32, 32, 3))):
        inputs = jax.random.normal(jax.random.key(0), shape)
        spread = float(network.apply(network.init(jax.random.key(1), inputs), inputs).std())
        assert 0.3 < spread < 5


class TestDefault:
    def test_images_with_channels_are_convolved_and_everything_else_is_not(self):
        flat, grey, colour = (make_tasks(shape=shape) for shape in ((4,), (4, 4), (4, 4, 2)))
        weights = [
            default_network(tasks).init(jax.random.key(0), jnp.zeros((1, *tasks.shape)))
            for tasks in (flat, grey, colour)
        ]
        assert [layers[0]["w"].shape[0] for layers in weights] == [4, 16, 18]

    def test_a_shared_label_set_has_one_head_and_others_one_for_each_task_and_the_target(self):
        shared = make_tasks(classes=3)
        own = ms.TaskSet.from_arrays(
            {"a": (np.eye(4), [0, 1, 2, 3]), "b": (np.eye(4) * 2, [0, 1, 0, 1])},
            validation=(np.eye(4) * 3, [0, 1, 2, 0]),
            test=(np.eye(4) * 4, [0, 1, 2, 0]),
            classes={"a": "pqrs", "b": "tu", "target": "xyz"},
        )
        for tasks, outputs in ((shared, 3), (own, 12)):
            network = default_network(tasks)
            weights = network.init(jax.random.key(0), jnp.zeros((1, 4)))
            assert network.apply(weights, jnp.zeros((1, 4))).shape == (1, outputs)

    def test_a_wrong_kind_is_refused(self):
        with pytest.raises(ConfigError, match="unknown network 'rnn'"):
            default_network(make_tasks(), "rnn")
        with pytest.raises(ConfigError, match="a cnn needs inputs"):
            default_network(make_tasks(), "cnn")


@pytest.mark.parametrize(("shape", "layers"), [((100,), 2), ((101,), 4), ((5, 20), 2)])
def test_auto_has_one_hidden_layer_for_short_inputs_and_three_for_long_ones(shape, layers):
    network = default_network(make_tasks(shape=shape), "auto")
    weights = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, *shape)))
    assert len(weights) == layers
