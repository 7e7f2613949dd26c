"""Seeds side by side give the numbers of seeds one after another; one that diverges ends alone."""

import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import metasched as ms
from helpers import Stop, make_tasks, stop_after
from metasched.cli import main
from metasched.errors import RunError
from metasched.meta import loop
from metasched.meta.networks import Network, mlp
from metasched.runs import train as runs

CONFIG = ms.TrainConfig(batch_size=4, meta_updates=6, eval_every=2)
EXACT = ("seed", "update", "samples", "drawn", "tasks", "abstained", "test_rows")


def run(tasks, network=None, scheduler="uniform", **options):
    return ms.train(tasks, network or mlp(3, (16,)), scheduler, **{"config": CONFIG, **options})


def in_order(records):
    return sorted(records, key=lambda record: (record["seed"], record["update"]))


def alike(found, expected, tolerance=1e-5):
    """The same records, up to rounding; integers exactly."""
    assert len(found) == len(expected)
    for mine, other in zip(in_order(found), in_order(expected), strict=True):
        assert set(mine) == set(other)
        for name in EXACT:
            assert mine.get(name) == other.get(name), f"seed {mine['seed']}, update {mine['update']}: {name}"
        for name in ("loss", "inner_rate", "validation_accuracy", "test_accuracy", "initial_test_accuracy"):
            assert mine.get(name) == pytest.approx(other.get(name), abs=tolerance)
        if "final" in mine:
            assert mine["final"]["drawn_by_label"] == other["final"]["drawn_by_label"]
            assert mine["final"]["test_accuracy"] == pytest.approx(other["final"]["test_accuracy"], abs=tolerance)


class TestSideBySide:
    @pytest.mark.parametrize("scheduler", ["uniform", "ucb"])
    def test_five_seeds_three_at_a_time_are_five_seeds_one_at_a_time(self, tasks, scheduler):
        options = {"scheduler": scheduler, "seeds": (4, 0, 7, 2, 9)}
        together = run(tasks, seeds_at_once=3, **options)
        alone = run(tasks, seeds_at_once=1, **options)
        assert set(together.final) == {4, 0, 7, 2, 9}
        alike(together.records, alone.records)
        for seed, parameters in alone.parameters.items():
            jax.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), together.parameters[seed], parameters
            )

    def test_more_places_than_seeds_change_nothing(self, tasks):
        alike(run(tasks, seeds=(1, 2), seeds_at_once=3).records, run(tasks, seeds=(1, 2)).records)

    @pytest.mark.parametrize("count", [1, 9, 25])
    def test_cut_off_anywhere_they_end_with_the_same_numbers(self, tasks, tmp_path, count):
        options = {"seeds": (0, 1, 2, 3, 4), "seeds_at_once": 3}
        whole = run(tasks, **options)
        with pytest.raises(Stop):
            run(tasks, **options, out=tmp_path / "cut", on_record=stop_after(count), checkpoint_seconds=0)
        result = run(tasks, **options, out=tmp_path / "cut")
        assert in_order(result.records) == in_order(whole.records)
        lines = (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()
        assert in_order(map(json.loads, lines)) == in_order(whole.records)
        for a, b in zip(jax.tree.leaves(result.parameters), jax.tree.leaves(whole.parameters), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()

    @pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 1)])
    def test_a_run_may_go_on_with_more_or_fewer_at_once(self, tasks, tmp_path, first, then):
        """Seeds that stand at different meta-updates cannot share a group; none may be left behind."""
        options = {"seeds": (0, 1, 2), "out": tmp_path / "cut"}
        with pytest.raises(Stop):
            run(tasks, **options, seeds_at_once=first, on_record=stop_after(8), checkpoint_seconds=0)
        alike(run(tasks, **options, seeds_at_once=then).records, run(tasks, seeds=(0, 1, 2)).records)

    def test_resume_takes_as_many_at_once_as_the_run_began_with(self, tmp_path):
        ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")
        tasks = ms.datasets.load(tmp_path / "set.npz")
        options = {"network": "mlp", "seeds": (0, 1, 2), "seeds_at_once": 2}
        whole = run(tasks, **options)
        with pytest.raises(Stop):
            run(tasks, **options, out=tmp_path / "a", on_record=stop_after(7), checkpoint_seconds=0)
        assert json.loads((tmp_path / "a" / "run.json").read_text())["seeds_at_once"] == 2
        assert in_order(ms.resume(tmp_path / "a").records) == in_order(whole.records)

    def test_validation_batches_chosen_by_a_bandit_resume_exactly(self, tmp_path):
        tasks = make_tasks(validation=40)
        config = ms.TrainConfig(batch_size=4, meta_updates=6, validation_batch="ucb")
        options = {"seeds": (0, 1), "seeds_at_once": 2, "config": config}
        whole = run(tasks, **options)
        with pytest.raises(Stop):
            run(tasks, **options, out=tmp_path / "cut", on_record=stop_after(7), checkpoint_seconds=0)
        assert in_order(run(tasks, **options, out=tmp_path / "cut").records) == in_order(whole.records)


def marked(*seeds):
    """A linear network with one more weight, which nothing trains: 1 for these seeds, 0 for the others."""
    keys = [jax.random.key_data(jax.random.split(jax.random.key(seed), 3)[0]) for seed in seeds]

    def init(key, inputs):
        mark = jnp.any(jnp.stack([jnp.all(jax.random.key_data(key) == other) for other in keys]))
        return {"w": 0.1 * jax.random.normal(key, (inputs.shape[1], 3)), "mark": mark.astype(jnp.float32)}

    return Network(init, lambda weights, x: x @ weights["w"] + 0 * weights["mark"])


def explosive(at):
    """SGD whose step number ``at`` throws marked weights to infinity."""

    def update(gradient, count, parameters):
        bad = (count == at) & (parameters.weights["mark"] > 0)
        return jax.tree.map(lambda g: jnp.where(bad, jnp.inf, -0.1 * g), gradient), count + 1

    return optax.GradientTransformation(lambda parameters: jnp.int32(0), update)


@pytest.mark.parametrize("at_once", [1, 3])
class TestDiverging:
    def test_a_seed_ends_alone_with_update_and_cause(self, tasks, tmp_path, at_once):
        """Step 2, counted from 0, belongs to meta-update 3: the loss of the fourth is the first that is not finite."""
        options = {"network": marked(1), "seeds": (0, 1, 2), "seeds_at_once": at_once, "optimiser": explosive(2)}
        result = run(tasks, **options)
        assert set(result.diverged) == {1}
        assert result.diverged[1]["update"] == 4
        assert "the loss is no longer finite" in result.diverged[1]["diverged"]
        assert set(result.final) == {0, 2}
        assert [record["update"] for record in result.records if record["seed"] == 1] == [1, 2, 3, 4]
        others = [record for record in result.records if record["seed"] != 1]
        alike(others, run(tasks, **{**options, "seeds": (0, 2), "seeds_at_once": 1}).records)

    def test_resuming_keeps_it_so(self, tasks, tmp_path, at_once):
        options = {"network": marked(1), "seeds": (0, 1, 2), "seeds_at_once": at_once, "optimiser": explosive(2)}
        whole = run(tasks, **options, out=tmp_path / "whole")
        with pytest.raises(Stop):
            run(tasks, **options, out=tmp_path / "cut", on_record=stop_after(14), checkpoint_seconds=0)
        result = run(tasks, **options, out=tmp_path / "cut")
        assert in_order(result.records) == in_order(whole.records)
        again = run(tasks, **options, out=tmp_path / "cut")
        assert in_order(again.records) == in_order(whole.records)

    def test_weights_that_overflow_from_the_start_are_said_too(self, tasks, at_once):
        network = marked(1)

        def init(key, inputs):
            weights = network.init(key, inputs)
            return {**weights, "w": jnp.where(weights["mark"] > 0, jnp.inf, weights["w"])}

        result = run(tasks, network._replace(init=init), seeds=(0, 1), seeds_at_once=at_once)
        assert result.diverged[1]["update"] == 1
        assert set(result.final) == {0}

    def test_an_infinite_loss_with_finite_weights_ends_the_seed_for_good(self, tasks, tmp_path, at_once):
        network = marked(1)._replace(apply=lambda weights, x: x @ weights["w"] + 100 * weights["mark"])

        def loss(outputs, label):
            return -jax.nn.log_softmax(outputs)[label] + jnp.where(outputs[0] > 50, jnp.inf, 0)

        options = {"network": network, "seeds": (0, 1, 2), "seeds_at_once": at_once, "target_loss": loss}
        whole = run(tasks, **options, out=tmp_path / "a")
        assert whole.diverged[1]["update"] == 1
        assert in_order(run(tasks, **options, out=tmp_path / "a").records) == in_order(whole.records)
        assert np.isfinite(whole.parameters[1].weights["w"]).all()

    def test_when_all_diverge_that_is_an_error_and_stays_one(self, tasks, tmp_path, at_once):
        config = ms.TrainConfig(batch_size=4, meta_updates=3, inner_rate=1e30)
        for _ in range(2):
            with pytest.raises(
                RunError, match=r"seed 0, meta-update 1: the loss is no longer finite.*lower inner_rate"
            ):
                run(tasks, seeds=(0, 1), seeds_at_once=at_once, config=config, out=tmp_path / "a")


class TestCommandLine:
    @pytest.fixture
    def saved(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")
        return "set.npz"

    def test_all_seeds_diverging_is_exit_code_2_and_one_line(self, saved, capsys):
        with pytest.raises(SystemExit) as stopped:
            main(["train", saved, "--batch-size", "4", "--meta-updates", "3", "--inner-rate", "1e30", "--quiet"])
        assert stopped.value.code == 2
        line = capsys.readouterr().err.strip()
        assert line.startswith("metasched: seed 0, meta-update 1: the loss is no longer finite")
        assert "\n" not in line

    def test_a_seed_that_diverged_is_named_beside_those_that_ended(self, saved, capsys, monkeypatch):
        network = marked(1)

        def init(key, inputs):
            weights = network.init(key, inputs)
            return {**weights, "w": jnp.where(weights["mark"] > 0, jnp.inf, weights["w"])}

        monkeypatch.setattr(runs, "default_network", lambda *_: network._replace(init=init))
        words = ["--batch-size", "4", "--meta-updates", "3", "--seeds", "3", "--out", "a", "--quiet"]
        main(["train", saved, *words])
        printed = capsys.readouterr().out
        assert "seed 0: test accuracy" in printed
        assert "seed 1: ended at meta-update 1: the loss is no longer finite" in printed
        assert "seed 2: test accuracy" in printed


DEVICES = """
import json, sys
import jax
import metasched as ms
from metasched.meta import loop
from metasched.meta.networks import mlp
tasks = ms.datasets.load(sys.argv[1])
config = ms.TrainConfig(batch_size=4, meta_updates=3, eval_every=1)
program = loop.prepare(tasks, mlp(3, (16,)), ms.schedulers.uniform(3), config, together=8)
states = {seed: loop.start(program, seed) for seed in range(8)}
stacked = loop.stack(program, list(states.values()))
after = program.chunk(program.data, program.test, stacked, 0, 1)[0]
devices = [len({shard.device for shard in tree.update.addressable_shards}) for tree in (stacked, after)]
shares = [shard.data.shape[0] for shard in after.parameters.weights[0]["w"].addressable_shards]
records = [record for _, chunk in loop.run(program, states) for record in chunk]
print(json.dumps({"found": len(jax.devices()), "devices": devices, "shares": shares, "records": records}))
"""


def test_eight_seeds_are_dealt_out_to_eight_devices_and_give_the_same_numbers(tmp_path):
    ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")
    flags = "--xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", DEVICES, str(tmp_path / "set.npz")],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    eight = json.loads(done.stdout)
    assert eight["found"] == 8
    assert eight["devices"] == [8, 8]
    assert eight["shares"] == [1] * 8
    config = ms.TrainConfig(batch_size=4, meta_updates=3, eval_every=1)
    one = run(make_tasks(), mlp(3, (16,)), config=config, seeds=range(8), seeds_at_once=8)
    alike(eight["records"], one.records)


def test_seeds_that_do_not_come_out_even_stay_on_one_device(tasks):
    program = loop.prepare(tasks, mlp(3, (4,)), ms.schedulers.uniform(3), CONFIG, together=3)
    stacked = loop.stack(program, [loop.start(program, seed) for seed in (0, 1)])
    assert stacked.update.shape == (3,)
    np.testing.assert_array_equal(stacked.parameters.weights[0]["w"][1], stacked.parameters.weights[0]["w"][2])
