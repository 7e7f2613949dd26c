"""What is refused before anything is compiled or written, and the setting that each refusal names."""

import re

import jax.numpy as jnp
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.errors import ConfigError
from metasched.learners import checks
from metasched.learners.networks import Network, mlp

CONFIG = ms.AlgorithmOne(batch_size=4, updates=2)


def refused(tmp_path, message, tasks=None, network=None, **options):
    """Training is refused with ``message`` and leaves nothing behind."""
    known = {"learner": CONFIG, **options}
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        ms.train(tasks or make_tasks(), network=network or mlp(3, (6,)), out=tmp_path / "run", **known)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def integer_network():
    return Network(lambda key, x: {"w": jnp.ones((4, 3)), "steps": jnp.int32(0)}, lambda weights, x: x @ weights["w"])


def test_a_network_with_too_few_outputs(tmp_path):
    refused(tmp_path, "into (2, 2), but the tasks need (2, 3); give it 3 outputs", network=mlp(2, (6,)))


def test_a_network_whose_outputs_are_no_table(tmp_path):
    flat = mlp(3, (6,))
    refused(tmp_path, "give it 3 outputs", network=flat._replace(apply=lambda w, x: flat.apply(w, x).ravel()))


def test_a_network_for_numbers_needs_an_output_for_each_of_them(tmp_path):
    refused(tmp_path, "(2, 2); give it 2 outputs", tasks=make_regression(), network=mlp(3, (6,)))


def test_a_network_with_whole_numbers_among_its_weights(tmp_path):
    refused(tmp_path, "weights of type int32; all must be floating point", network=integer_network())


@pytest.mark.parametrize("which", ["loss", "target_loss"])
def test_a_loss_of_a_row_that_is_more_than_one_number(tmp_path, which):
    said = {"loss": "the task loss", "target_loss": "the target loss"}[which]
    refused(tmp_path, f"{said} of one row has shape (3,); it must return one number", **{which: lambda out, label: out})


def test_a_batch_that_no_task_can_fill(tmp_path):
    refused(
        tmp_path,
        "batch_size is 10, but task 'task-2' has 9 rows; give at most 9",
        learner=ms.AlgorithmOne(batch_size=10, batching="per_source"),
    )


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "two"])
def test_a_number_of_seeds_side_by_side_that_is_none(tmp_path, value):
    refused(tmp_path, "seeds_at_once is", seeds_at_once=value)


class TestMemory:
    @pytest.fixture
    def network(self):
        """1000 float32 weights and little else: 4 kB of weights in every step."""
        return mlp(3, (124,))

    def weights(self, network):
        return checks.weight_bytes(make_tasks(), network)

    def small_device(self, monkeypatch, sets_of_weights, network):
        """A device in which, beside the rows, so many sets of weights fit."""
        tasks = make_tasks()
        rows = sum(task.inputs.nbytes for task in tasks.tasks) + tasks.validation.inputs.nbytes
        size = int((sets_of_weights * self.weights(network) + rows) / checks.USABLE) + 1
        monkeypatch.setattr(checks, "device_memory", lambda: size)

    def settled(self, network, **config):
        """The way to the gradient that is chosen for 100 batches an update."""
        settings = ms.AlgorithmOne(batch_size=4, batches_per_update=100, **config)
        return checks.checked_objective(make_tasks(), network, settings).settings.gradient

    def test_bytes_of_weights_are_counted(self, network):
        assert self.weights(network) == 4 * (4 * 124 + 124 + 124 * 3 + 3)

    def test_what_fits_keeps_the_weights_of_every_step(self, network, monkeypatch):
        self.small_device(monkeypatch, 110, network)
        assert self.settled(network) == "stored"

    def test_what_does_not_fit_is_computed_again(self, network, monkeypatch):
        self.small_device(monkeypatch, 109, network)
        assert self.settled(network) == "remat"

    def test_neither_way_fits(self, network, monkeypatch, tmp_path):
        config = ms.AlgorithmOne(batch_size=4, batches_per_update=100)
        self.small_device(monkeypatch, 29, network)
        refused(tmp_path, "give fewer batches_per_update or a smaller network", network=network, learner=config)

    def test_a_mode_of_ones_own_is_not_changed_but_another_named(self, network, monkeypatch, tmp_path):
        config = ms.AlgorithmOne(batch_size=4, batches_per_update=100, gradient="stored")
        self.small_device(monkeypatch, 109, network)
        refused(tmp_path, "give gradient remat or first-order, fewer batches", network=network, learner=config)

    def test_seeds_side_by_side_need_as_much_each(self, network, monkeypatch, tmp_path):
        config = ms.AlgorithmOne(batch_size=4, batches_per_update=100)
        self.small_device(monkeypatch, 50, network)
        refused(
            tmp_path,
            "give fewer seeds at once (now 4), fewer batches_per_update",
            network=network,
            learner=config,
            seeds=range(4),
            seeds_at_once=4,
        )

    def test_first_order_needs_least(self, network, monkeypatch):
        self.small_device(monkeypatch, 10, network)
        assert self.settled(network, gradient="first-order") == "first-order"

    def test_the_machine_has_memory(self):
        assert checks.device_memory() > 1e8
