"""One engine: whatever runs side by side, or after one another in one program, is the same run alone, bit for bit."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import optax
import pytest

import metasched as ms
from helpers import Stop, make_regression, make_tasks, stop_after
from metasched.errors import ConfigError, RunError
from metasched.learners import engine, evaluation, model_file
from metasched.learners.evaluation import evaluation_order, judged_rows
from metasched.learners.networks import Network, mlp
from metasched.runs import checkpoint
from metasched.runs import outcome as outcomes
from metasched.runs import runner as runs
from metasched.runs.folder import describe
from metasched.runs.jobs import claim_folders, make_jobs, stored_job
from metasched.runs.outcome import outputs_of
from metasched.runs.runner import Programs, outcome_of
from metasched.schedulers.resolve import methods
from scenes import program_for

CONFIG = ms.AlgorithmOne(batch_size=5, updates=3, batches_per_update=5, eval_every=2, target_batch="all")
NETWORK = mlp(3, (6,))
RATES = ((0.05, 3e-3), (0.3, 1e-3))
OPTIONS = {"gittins-planned": ("gittins", {"refresh": 0}), "mdp-planned": ("mdp", {"refresh": 0})}
NAMES = (*methods(), "single:2", *OPTIONS)


def source(seed=0):
    return make_tasks(sizes=(60, 50, 40), validation=12, test=80, seed=seed)


def jobs_for(name, tasks, seeds=(3,), config=CONFIG, **more):
    word, options = OPTIONS.get(name, (name, {}))
    return make_jobs(tasks, word, options=options, network=NETWORK, learner=config, seeds=seeds, **more)


@pytest.fixture(scope="module")
def tasks():
    return source()


@pytest.fixture(scope="module")
def mixed(tasks):
    """Every method with two seeds, rates, rewards, and now and then abstaining, in as few programs as there can be."""
    jobs = []
    for number, name in enumerate(NAMES):
        inner, outer = RATES[number % 2]
        reward = ("scaled", "accuracy", "gain")[number % 3]
        may_abstain = name in ("ucb", "exp3", "cyclic")
        config = replace(CONFIG, inner_rate=inner, outer_rate=outer)
        jobs += jobs_for(name, tasks, (3, 8), config, reward=reward, abstain=may_abstain)
    return jobs


@pytest.fixture(scope="module")
def together(mixed):
    return runs.run(mixed)


def same_numbers(found, expected):
    assert found.records == expected.records
    assert msgspec.structs.replace(found.outcome, origin=expected.outcome.origin) == expected.outcome
    mine, other = (jax.tree.leaves(result.state.parameters) for result in (found, expected))
    assert [np.asarray(leaf).tobytes() for leaf in mine] == [np.asarray(leaf).tobytes() for leaf in other]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_among_others_is_the_run_alone_bit_for_bit(mixed, together, name):
    place = 2 * NAMES.index(name) + 1
    (alone,) = runs.run([mixed[place]])
    same_numbers(together[place], alone)


def test_methods_differ_in_what_they_draw(together):
    drawn = {name: together[2 * place].outcome.drawn for place, name in enumerate(NAMES)}
    assert drawn["target-only"] == (0, 0, 0)
    assert drawn["single:2"] == (0, 75, 0)
    assert len({drawn["cyclic"], drawn["ucb"], drawn["gittins"], drawn["thompson"], drawn["single:2"]}) >= 4


def test_side_by_side_is_one_after_another_bit_for_bit(tasks):
    jobs = [job for name in ("uniform", "gittins") for job in jobs_for(name, tasks, (4, 0, 7), reward="gain")]
    for found, expected in zip(runs.run(jobs, together=4), runs.run(jobs), strict=True):
        same_numbers(found, expected)


def test_every_seed_and_every_rate_has_a_plan_of_its_own(tasks):
    """Static Gittins follows the rewards of the initial model, which the seed decides, at the rate of the run."""
    jobs = []
    for rate in (0.003, 3.0):
        jobs += jobs_for("gittins-planned", tasks, range(6), replace(CONFIG, inner_rate=rate, steps_per_batch=3))
    compiled = runs.Compiled(jobs, None)
    tables = [np.asarray(compiled.first_state(place).stream.scheduler.inner) for place in range(len(jobs))]
    for job, table in zip(jobs, tables, strict=True):
        plan = ms.plan(tasks, NETWORK, job.settings, seed=job.description.spec.seed)
        np.testing.assert_allclose(table, plan.indices, rtol=1e-6)
    assert len({table.tobytes() for table in tables}) > 6


def test_programs_are_compiled_once_for_all_rows_of_one_shape(tasks, monkeypatch):
    made = []
    real = engine.prepare
    monkeypatch.setattr(engine, "prepare", lambda *given, **more: made.append(1) or real(*given, **more))
    monkeypatch.setattr(runs, "_PROGRAMS", Programs())
    other = source(seed=1)
    names = ("cyclic", "gittins", "mdp-planned", "single:1", "single:3")
    for rows in (tasks, other):
        shared = runs.run([job for name in names for job in jobs_for(name, rows)])
    assert made == [1]
    monkeypatch.setattr(runs, "_PROGRAMS", Programs())
    fresh = runs.run([job for name in names for job in jobs_for(name, other)])
    for found, expected in zip(shared, fresh, strict=True):
        same_numbers(found, expected)


def test_numbers_to_predict_that_are_divided_anew_share_a_program_whose_unit_is_an_input(monkeypatch):
    whole = make_regression(validation=20, test=40)
    sets = [whole, whole.redrawn(1), whole.redrawn(2)]
    learner = ms.Joint(batch_size=5, updates=3, batches_per_update=4, eval_every=1)

    network, made, prepare = mlp(2, (6,)), [], engine.prepare
    monkeypatch.setattr(engine, "prepare", lambda *given: made.append(1) or prepare(*given))
    each = [make_jobs(tasks, "ucb", network=network, learner=learner, predictions=True)[0] for tasks in sets]
    monkeypatch.setattr(runs, "_PROGRAMS", Programs())
    shared = [runs.run([job])[0] for job in each]
    assert made == [1]
    for job, found in zip(each, shared, strict=True):
        monkeypatch.setattr(runs, "_PROGRAMS", Programs())
        (alone,) = runs.run([job])
        same_numbers(found, alone)
        said = outputs_of(found.outcome)
        np.testing.assert_allclose(said, found.model().predict(job.tasks.test.inputs), rtol=1e-5, atol=1e-6)
    assert len({result.model().about.centre for result in shared}) == 3
    monkeypatch.setattr(runs, "_PROGRAMS", Programs())
    for found, expected in zip(runs.run(each, together=3), shared, strict=True):
        assert found.outcome.final.test_accuracy == pytest.approx(expected.outcome.final.test_accuracy, rel=1e-4)


def test_an_unfinished_run_whose_targets_were_not_standardised_is_refused(tmp_path, monkeypatch):
    learner = ms.Joint(batch_size=5, updates=3, batches_per_update=4, eval_every=1)
    jobs = claim_folders(make_jobs(make_regression(), "uniform", learner=learner, out=tmp_path), tmp_path)
    monkeypatch.setattr(runs._Group, "_unit_tensors", lambda *_: {})
    stop = stop_after(1)
    with pytest.raises(Stop):
        runs.run(jobs, on_record=lambda _, record: stop(record), checkpoint_seconds=0)
    monkeypatch.undo()
    with pytest.raises(RunError, match="did not standardise the numbers to predict; start the run again"):
        runs.run(jobs)


def test_of_programs_the_last_used_are_kept_and_none_keeps_rows(tasks, monkeypatch):
    made = []
    monkeypatch.setattr(Programs, "most", 2)
    programs = Programs()
    program = program_for(tasks, NETWORK, told=())

    def get(key):
        return programs.get(key, tasks, lambda: made.append(key) or program)

    for key in "abac":  # b is the one that was not used for longest
        get(key)
    assert all(get(key).rows is not None for key in "acb")
    assert made == ["a", "b", "c", "b"]
    assert all(kept.rows is None for kept in programs._programs.values())


def test_timing_a_run_gives_seconds(tasks):
    jobs = [job for name in ("gittins", "target-only") for job in jobs_for(name, tasks)]
    began = time.monotonic()
    seconds = runs.seconds_per_update(jobs, updates=2)
    whole = time.monotonic() - began
    assert len(seconds) == 2
    assert all(each > 0 for each in seconds)
    assert 2 * sum(seconds) < whole


class TestFolders:
    def test_a_run_goes_on_among_other_neighbours(self, tasks, tmp_path):
        """What a run stores is its own state, whatever program it was in."""
        names = ("ucb", "gittins", "exp3")

        def jobs(names):
            found = [job for name in names for job in jobs_for(name, tasks, out=tmp_path / name)]
            return [
                job for name, job in zip(names, found, strict=True) for job in claim_folders([job], tmp_path / name)
            ]

        whole = runs.run([job._replace(folder=None) for job in jobs(names)])
        stop = stop_after(7)
        with pytest.raises(Stop):
            runs.run(jobs(names), on_record=lambda _, record: stop(record), checkpoint_seconds=0)
        (alone,) = runs.run(jobs(["gittins"]))
        same_numbers(alone, whole[1])
        for found, expected in zip(runs.run(jobs(names)), whole, strict=True):
            same_numbers(found, expected)

    def test_a_finished_run_has_its_outcome_as_one_line(self, tasks, tmp_path):
        jobs = claim_folders(jobs_for("ucb", tasks, out=tmp_path / "a"), tmp_path / "a")
        (result,) = runs.run(jobs)
        (line,) = outcomes.read(tmp_path / "a" / "outcome.jsonl")
        assert line == result.outcome
        assert (tmp_path / "a" / "outcome.jsonl").read_bytes().count(b"\n") == 1


def test_an_outcome_has_the_curve_the_schedule_and_what_was_drawn(tasks):
    (job,) = jobs_for("cyclic", tasks, config=replace(CONFIG, batching="per_source"), abstain=True)
    (result,) = runs.run([job])
    outcome = result.outcome
    assert outcome.run == job.description.spec.name
    assert (outcome.method, outcome.family) == ("cyclic", "static")
    assert outcome.updates == (2, 3)
    assert outcome.samples == tuple(record["samples"] for record in result.records[1:])
    assert outcome.schedule == ((2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1))
    assert outcome.abstained == 3
    assert sum(outcome.drawn) == sum(map(sum, outcome.final.drawn_by_label)) == outcome.samples[-1] == 60
    assert outcome.final.test_accuracy == result.records[-1]["final"]["test_accuracy"]
    assert outcome_of(job.description, [{"update": 2, "diverged": "why"}]).diverged.cause == "why"


def test_the_schedule_of_mixed_batches_counts_rows(tasks):
    (result,) = runs.run(jobs_for("cyclic", tasks, abstain=True))
    assert result.outcome.schedule == ((7, 6, 6, 6), (6, 7, 6, 6), (6, 6, 7, 6))
    assert result.outcome.abstained == 18
    assert result.outcome.drawn == (19, 19, 19)


class TestPredictions:
    @pytest.mark.parametrize("network", [NETWORK, "mlp"])
    def test_they_are_what_the_model_says_of_the_test_rows(self, tasks, network):
        (result,) = runs.run(make_jobs(tasks, "ucb", network=network, learner=CONFIG, predictions=True))
        said = outputs_of(result.outcome)
        assert said.shape == (80, 3)
        assert (said == result.model().predict_proba(tasks.test.inputs)).all()
        assert (said.argmax(axis=1) == tasks.test.labels).mean() == result.outcome.final.test_accuracy

    def test_of_many_rows_they_are_of_a_fixed_subset_in_order(self, tasks, monkeypatch):
        for module in (evaluation, outcomes):
            monkeypatch.setattr(module, "MOST_JUDGED", 30)
        rows = judged_rows(tasks)
        assert sorted(rows) == list(rows)
        assert set(rows) == set(evaluation_order(tasks)[:30])
        (result,) = runs.run(make_jobs(tasks, "ucb", network=NETWORK, learner=CONFIG, predictions=True))
        assert (outputs_of(result.outcome) == result.model().predict_proba(tasks.test.inputs[rows])).all()

    def test_there_are_none_where_nobody_asked(self, tasks, together):
        assert together[0].outcome.final.outputs is None
        (job,) = jobs_for("ucb", tasks)
        assert b"predictions" not in msgspec.json.encode(job.description)
        (asked,) = jobs_for("ucb", tasks, predictions=True)
        assert asked.spec.name == job.spec.name

    def test_they_survive_a_kill_at_any_update_and_after_the_last(self, tasks, tmp_path):
        how = {"learner": CONFIG, "network": "auto", "predictions": True}
        (whole,) = runs.run(make_jobs(tasks, "ucb", **how))
        for after in (1, 2, 3):
            out, stop = tmp_path / str(after), stop_after(after)
            (job,) = claim_folders(make_jobs(tasks, "ucb", out=out, **how), out)
            with pytest.raises(Stop):
                runs.run([job], on_record=lambda _, record, stop=stop: stop(record), checkpoint_seconds=0)
            (resumed,) = runs.run([stored_job(out, describe(out), tasks)])
            assert resumed.outcome.final == whole.outcome.final
            assert resumed.outcome.final.outputs is not None


class TestMeanRewards:
    """With a reward that is known, such as the row's label, means follow from what was drawn."""

    @pytest.mark.parametrize("learner", [CONFIG, ms.Joint(batch_size=5, updates=3, batches_per_update=5)])
    def test_of_rows(self, tasks, learner):
        def label(objective, turn):
            return turn.batch.labels.astype(jnp.float32)

        (result,) = runs.run(make_jobs(tasks, "thompson", network=NETWORK, learner=learner, reward=label))
        drawn = np.array(result.outcome.final.drawn_by_label)
        assert result.outcome.rewards == pytest.approx(drawn @ [0, 1, 2] / drawn.sum(axis=1), rel=1e-3)

    def test_of_batches_of_one_source_each(self, tasks):
        def clock(objective, turn):
            return turn.number

        learner = ms.Joint(batch_size=5, updates=3, batches_per_update=5, batching="per_source")
        (result,) = runs.run(make_jobs(tasks, "ucb", network=NETWORK, learner=learner, reward=clock))
        chosen = np.concatenate([record["tasks"] for record in result.records])
        numbers = np.arange(1, 16)
        assert result.outcome.rewards == pytest.approx([numbers[chosen == task].mean() for task in range(3)], rel=1e-3)

    def test_of_copies_that_hold_rows_out(self, tasks):
        def label(objective, turn):
            return turn.batch.labels.astype(jnp.float32)

        for learner in (CONFIG, ms.Joint(batch_size=5, updates=2, batches_per_update=5)):
            folds = replace(learner, reward_folds=2)
            (result,) = runs.run(make_jobs(tasks, "thompson", network=NETWORK, learner=folds, reward=label))
            drawn = np.array(result.outcome.final.drawn_by_label)
            assert result.outcome.rewards == pytest.approx(drawn @ [0, 1, 2] / drawn.sum(axis=1), rel=1e-3)

    def test_a_source_that_is_never_drawn_has_none(self, tasks):
        nobody = ms.schedulers.single(3, task=1)._replace(family="active")
        (result,) = runs.run(make_jobs(tasks, nobody, network=NETWORK, learner=CONFIG, reward="gain"))
        assert [reward is None for reward in result.outcome.rewards] == [True, False, True]

    @pytest.mark.parametrize("name", ["uniform", "single:2", "target-only", "gittins-planned"])
    def test_a_schedule_that_reads_no_rewards_has_none_even_among_others_that_do(self, mixed, together, name):
        result = together[2 * NAMES.index(name)]
        assert result.outcome.rewards is None
        assert result.state.stream.rewards is None

    @pytest.mark.parametrize("name", ["ucb", "gittins", "thompson"])
    def test_one_that_reads_them_has_them(self, together, name):
        assert together[2 * NAMES.index(name)].outcome.rewards is not None

    def test_a_run_that_an_earlier_version_began_goes_on_without_them(self, tasks, tmp_path, monkeypatch):
        (whole,) = runs.run(jobs_for("ucb", tasks))
        jobs = claim_folders(jobs_for("ucb", tasks, out=tmp_path), tmp_path)
        flatten, stop = model_file.flatten, stop_after(1)

        def without_sums(tree):
            return {name: leaf for name, leaf in flatten(tree).items() if name != ".stream.rewards"}

        monkeypatch.setattr(model_file, "flatten", without_sums)
        with pytest.raises(Stop):
            runs.run(jobs, on_record=lambda _, record: stop(record), checkpoint_seconds=0)
        monkeypatch.undo()
        (resumed,) = runs.run(jobs)
        assert resumed.records == whole.records
        assert resumed.outcome.rewards is None
        assert whole.outcome.rewards is not None


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


DIVERGING = ms.AlgorithmOne(batch_size=4, updates=6, eval_every=2)
EXPLOSIVE = {"network": marked(1), "learner": replace(DIVERGING, optimiser=explosive(2))}


@pytest.mark.parametrize("at_once", [1, 3])
class TestDiverging:
    def train(self, tasks, at_once, **options):
        known = {"scheduler": "uniform", "seeds": (0, 1, 2), "learner": DIVERGING, "seeds_at_once": at_once}
        return ms.train(tasks, **{**known, **options})

    def test_a_seed_ends_alone_with_update_and_cause_also_after_resuming(self, tasks, tmp_path, at_once):
        """Step 2, counted from 0, belongs to meta-update 3: the loss of the fourth is the first that is not finite."""
        result = self.train(tasks, at_once, **EXPLOSIVE)
        assert set(result.diverged) == {1}
        assert result.diverged[1]["update"] == 4
        assert "the loss is no longer finite" in result.diverged[1]["diverged"]
        assert set(result.final) == set(result.models) == {0, 2}
        with pytest.raises(ConfigError, match="seed 1 diverged and has no model; seeds 0, 2 have one"):
            result.model(1)
        assert [record["update"] for record in result.records if record["seed"] == 1] == [1, 2, 3, 4]
        others = [record for record in result.records if record["seed"] != 1]
        assert others == self.train(tasks, 1, **EXPLOSIVE, seeds=(0, 2)).records
        with pytest.raises(Stop):
            self.train(
                tasks, at_once, **EXPLOSIVE, out=tmp_path / "cut", on_record=stop_after(14), checkpoint_seconds=0
            )
        for _ in range(2):
            assert self.train(tasks, at_once, **EXPLOSIVE, out=tmp_path / "cut").records == result.records

    def test_an_infinite_loss_with_finite_weights_ends_the_seed_for_good(self, tasks, tmp_path, at_once):
        network = marked(1)._replace(apply=lambda weights, x: x @ weights["w"] + 100 * weights["mark"])

        def loss(outputs, label):
            return -jax.nn.log_softmax(outputs)[label] + jnp.where(outputs[0] > 50, jnp.inf, 0)

        options = {"network": network, "target_loss": loss, "out": tmp_path / "a"}
        whole = self.train(tasks, at_once, **options)
        assert whole.diverged[1]["update"] == 1
        assert self.train(tasks, at_once, **options).records == whole.records
        assert np.isfinite(whole.parameters[1].weights["w"]).all()


DEVICES = """
import json, sys
import jax
import metasched as ms
from metasched.learners import engine, rewards
from metasched.learners.checks import checked_objective
from metasched.learners.inner import Schedule
from metasched.learners.networks import mlp
from metasched.schedulers.rows import by_rows
tasks = ms.datasets.load(sys.argv[1])
settings = ms.AlgorithmOne(batch_size=4, updates=3, eval_every=1)
objective = checked_objective(tasks, mlp(3, (6,)), settings)
schedule = Schedule(by_rows(ms.schedulers.uniform(3), 3), (rewards.scaled,))
program = engine.prepare(tasks, objective, schedule, together=8)
states = {seed: program.start(program.rows.data, seed, engine.hyperparameters_of(settings)) for seed in range(8)}
stacked = engine._stack_states(program, list(states.values()))
after = program.chunk(program.rows.data, program.rows.test, stacked, 0, 1)[0]
devices = [len({shard.device for shard in tree.update.addressable_shards}) for tree in (stacked, after)]
records = [[seed, record] for _, chunk in engine.run(program, states) for seed, record in chunk]
print(json.dumps({"found": len(jax.devices()), "devices": devices, "records": records}))
"""

EIGHT = "--xla_force_host_platform_device_count=8"


def test_eight_seeds_are_dealt_out_to_eight_devices_and_give_the_same_numbers(tmp_path):
    ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")
    done = subprocess.run(
        [sys.executable, "-c", DEVICES, str(tmp_path / "set.npz")],
        env={**os.environ, "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {EIGHT}", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    eight = json.loads(done.stdout)
    assert eight["found"] == 8
    assert eight["devices"] == [8, 8]
    config = ms.AlgorithmOne(batch_size=4, updates=3, eval_every=1)
    one = ms.train(make_tasks(), "uniform", network=mlp(3, (6,)), learner=config, seeds=range(8)).records
    expected = {(record["seed"], record["update"]): record for record in one}
    assert len(eight["records"]) == len(expected)
    for seed, record in eight["records"]:
        other = expected[seed, record["update"]]
        assert record["drawn"] == other["drawn"]
        assert record["loss"] == pytest.approx(other["loss"], abs=1e-5)
        assert record["test_accuracy"] == pytest.approx(other["test_accuracy"], abs=1e-5)


def test_an_interrupt_between_two_records_leaves_a_checkpoint(tmp_path):
    """Ctrl-C may come while somebody else, a tracker or a progress bar, has the record."""
    config = ms.AlgorithmOne(batch_size=2, updates=4)
    jobs = claim_folders(
        make_jobs(make_tasks(), "uniform", network="mlp", learner=config, seeds=[0], out=tmp_path), tmp_path
    )

    def interrupted(_, record):
        if record["update"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.run(jobs, on_record=interrupted)
    assert checkpoint.updates(jobs[0].folder) >= 2
