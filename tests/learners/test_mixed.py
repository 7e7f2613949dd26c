"""Mixed batches inside the learners: which rows they hold, what each row earns, and resuming a run anywhere."""

from dataclasses import asdict, replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import metasched as ms
from helpers import Stop, as_float64, make_own_label_tasks, make_regression, make_tasks
from metasched import schedulers
from metasched.learners import rewards
from metasched.learners.joint import Parameters, step_sizes
from metasched.learners.meta import seed_keys
from metasched.learners.networks import cnn, mlp
from metasched.learners.rewards import Turn
from metasched.learners.stream import advance, device_data, first_stream, loss_arguments, next_batch
from metasched.runs import folder, runner
from metasched.runs.jobs import make_jobs
from metasched.schedulers.rows import by_rows, switch_rows
from scenes import objective_for, program_for, start

BATCH = 8
BATCHES = 12


class ByRow:
    """One gradient for each row, and plain inner products: what a reward by row has to equal."""

    KINDS = ("mlp", "cnn", "own heads", "numbers")

    def __init__(self, kind):
        self.tasks = {
            "mlp": lambda: make_tasks(validation=30),
            "cnn": lambda: make_tasks(shape=(6, 6, 1), validation=30),
            "own heads": make_own_label_tasks,
            "numbers": make_regression,
        }[kind]()
        network = cnn(3, filters=4, layers=2) if kind == "cnn" else None
        self.objective = objective_for(self.tasks, network, hidden=(8, 6), batching="mixed")
        self.data = as_float64(device_data(self.tasks, self.objective.settings))
        first = self.objective.network.init(jax.random.key(0), self.data.validation.inputs[:1])
        self.weights = as_float64(first)
        self.own_heads, self.numbers = kind == "own heads", kind == "numbers"

    def good(self, weights, x, answer, head):
        """Probability of the right label; in regression −½ of the squared error, at most four variances."""
        read = self.objective.network.apply(weights, x[None])[0]
        if self.numbers:
            read = jnp.asarray(self.objective.unit.centre) + jnp.asarray(self.objective.unit.scale) * read
            return -0.5 * jnp.minimum(((read - answer) ** 2).sum() / self.objective.variance, 4)
        return jax.nn.softmax(self.read(read, head))[answer]

    def loss(self, weights, x, answer, head):
        read = self.objective.network.apply(weights, x[None])[0]
        if self.numbers:
            answer = (answer - jnp.asarray(self.objective.unit.centre)) / jnp.asarray(self.objective.unit.scale)
            return 0.5 * ((read - answer) ** 2).sum()
        return -jax.nn.log_softmax(self.read(read, head))[answer]

    def read(self, outputs, head):
        """Of three heads of four outputs, as many as the head has classes."""
        return outputs.reshape(3, 4)[head, : (4, 2, 3)[head]] if self.own_heads else outputs

    def gradient(self, measure, x, answer, head):
        """By the weights that tasks share: all, or all but the last layer."""
        mine = jax.grad(measure)(self.weights, x, answer, head)
        return ravel_pytree(mine[:-1] if self.own_heads else mine)[0]

    def target(self, measure):
        rows, head = self.tasks.validation, 2 if self.own_heads else 0
        answers = rows.targets if self.numbers else rows.labels
        each = [
            self.gradient(measure, jnp.asarray(x, jnp.float64), y, head)
            for x, y in zip(rows.inputs, answers, strict=True)
        ]
        return sum(each) / len(each)

    def turn(self, rows, tasks, trains, sizes=None):
        """The turn of a batch with these rows of these tasks, all numbers or all arrays."""
        head = self.objective.heads.of_task(jnp.asarray(tasks))
        batch, target = self.data.sources.take(rows), self.data.validation
        slope = rewards.target_slope(self.objective, self.weights, target)
        turn = Turn(
            jnp.int32(1), self.weights, self.weights, None, None, batch, head, jnp.asarray(trains), target, slope
        )
        return turn._replace(step_sizes=sizes)

    def expected(self, name, turn, sizes):
        """The reward of every row, the slow way."""
        measure = self.loss if name == "alignment" else self.good
        wanted = self.target(measure)
        if name == "adam_transfer":
            wanted = wanted * ravel_pytree(sizes[:-1] if self.own_heads else sizes)[0]
        found = []
        for x, answer, head in zip(turn.batch.inputs, turn.batch.answers, turn.head, strict=True):
            mine = self.gradient(measure, x, answer, int(head))
            length = jnp.linalg.norm(mine) if name == "alignment" else 1
            found.append(float(mine @ wanted / jnp.linalg.norm(wanted) / length))
        return np.array(found)


@pytest.mark.usefixtures("_float64")
class TestRewardsOfRows:
    ROWS = ((0, 3, 1, 2, 5, 4), (0, 1, 0, 1, 1, 0))

    def mixed(self, scene, trains):
        offsets, tasks = map(jnp.array, self.ROWS)
        sizes = jax.tree.map(
            lambda leaf: jnp.asarray(np.random.default_rng(leaf.size).uniform(0.1, 10, leaf.shape)), scene.weights
        )
        return scene.turn(scene.data.starts[tasks] + offsets, tasks, trains, sizes), sizes

    @pytest.mark.parametrize("kind", ByRow.KINDS)
    @pytest.mark.parametrize("name", ["transfer", "adam_transfer", "alignment"])
    def test_each_is_that_of_a_gradient_of_its_own(self, kind, name):
        scene = ByRow(kind)
        trains = np.array([True, True, True, False, True, True])
        turn, sizes = self.mixed(scene, trains)
        found = np.asarray(rewards.find(name)(scene.objective, turn))
        expected = scene.expected(name, turn, sizes) * trains
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert np.ptp(found) > 1e-3

    @pytest.mark.parametrize("kind", ByRow.KINDS)
    @pytest.mark.parametrize("name", ["transfer", "adam_transfer"])
    def test_their_mean_over_a_batch_of_one_source_is_the_reward_of_that_batch(self, kind, name):
        scene = ByRow(kind)
        sizes = self.mixed(scene, np.ones(6, bool))[1]
        rows = scene.data.starts[1] + jnp.arange(7)
        by_row = scene.turn(rows, np.ones(7, int), np.ones(7, bool), sizes)
        as_one = scene.turn(rows, 1, True, sizes)
        reward = rewards.find(name)
        found = reward(scene.objective, by_row)
        assert found.shape == (7,)
        np.testing.assert_allclose(found.mean(), reward(scene.objective, as_one), rtol=1e-6)


class TestStepSizes:
    """What ``adam_transfer`` multiplies the target's slope by."""

    WEIGHTS = Parameters({"w": jnp.ones((3, 2)), "b": jnp.ones(2)})

    def after(self, optimiser, steps):
        """The state after so many random gradients, these, and the last change."""
        random = np.random.default_rng(0)
        state, seen, change = optimiser.init(self.WEIGHTS), [], None
        for _ in range(steps):
            seen.append(jax.tree.map(lambda w: jnp.asarray(random.normal(size=w.shape), jnp.float32), self.WEIGHTS))
            change, state = optimiser.update(seen[-1], state, self.WEIGHTS)
        return state, seen, change

    def test_they_are_those_of_adam_by_hand(self):
        state, seen, _ = self.after(optax.adam(1e-3), 9)
        squares = jax.tree.map(jnp.zeros_like, self.WEIGHTS)
        for gradient in seen:
            squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, squares, gradient)
        expected = jax.tree.map(lambda v: 1 / (jnp.sqrt(v / (1 - 0.999**9)) + 1e-5), squares)
        found = step_sizes(state, self.WEIGHTS)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), found, expected.weights)

    def test_they_are_what_optax_multiplies_a_gradient_by(self):
        """Without momentum a change of Adam is −rate · size · gradient."""
        state, seen, change = self.after(optax.adam(0.5, b1=0), 9)
        sizes = jax.tree.map(lambda moved, g: -moved / 0.5 / g, change, seen[-1]).weights
        found = step_sizes(state, self.WEIGHTS)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3), found, sizes)

    def test_in_the_first_steps_they_are_all_one(self):
        found = step_sizes(self.after(optax.adam(1e-3), 5)[0], self.WEIGHTS)
        assert all((leaf == 1).all() for leaf in jax.tree.leaves(found))

    @pytest.mark.parametrize(
        "optimiser",
        [
            optax.sgd(0.1),
            optax.lion(0.1),
            optax.flatten(optax.adam(0.1)),
            optax.masked(optax.adam(0.1), Parameters({"w": True, "b": False})),
        ],
        ids=["sgd", "lion", "flat", "masked"],
    )
    def test_an_optimiser_without_a_mean_square_for_each_weight_has_none(self, optimiser):
        assert step_sizes(optimiser.init(self.WEIGHTS), self.WEIGHTS) is None

    @pytest.mark.parametrize("batching", ["mixed", "per_source"])
    def test_only_joint_training_with_adam_tells_another_reward_than_transfer(self, batching):
        tasks = make_tasks(sizes=(40, 40, 40)).variant(noise={"task-1": 1.0})
        known = {"batch_size": 4, "updates": 6, "batches_per_update": 12, "eval_every": 6, "batching": batching}
        learners = {
            "adam": ms.Joint(**known, learning_rate=0.03),
            "flat adam": ms.Joint(**known, optimiser=optax.flatten(optax.adam(0.03))),
            "sgd": ms.Joint(**known, optimiser="sgd", learning_rate=0.1),
            "Algorithm 1": ms.AlgorithmOne(**known, inner_rate=0.1),
        }
        alike = {}
        for name, learner in learners.items():
            plain, scaled = (
                ms.train(tasks, "thompson", network=mlp(3, (6,)), learner=learner, reward=reward)
                for reward in ("transfer", "adam_transfer")
            )
            alike[name] = plain.records == scaled.records
        assert alike == {"adam": False, "flat adam": True, "sgd": True, "Algorithm 1": True}


def with_credit(scheduler, tasks):
    """The same scheduler, which also adds up the rewards of each task and counts them."""

    def update_rows(state, labels, chosen, told):
        inner = scheduler.update_rows(state[0], labels, chosen, told)
        return inner, state[1].at[chosen].add(told), state[2].at[chosen].add(1)

    return scheduler._replace(
        init=lambda key: (scheduler.init(key), jnp.zeros(tasks), jnp.zeros(tasks)),
        select_rows=lambda state, labels, count: scheduler.select_rows(state[0], labels, count),
        update_rows=update_rows,
    )


SPOILT = 3


@pytest.fixture(scope="module")
def spoilt():
    """Five sources of one kind; the labels of one are shuffled."""
    return make_tasks(sizes=(80,) * 5, validation=30).variant(noise={f"task-{SPOILT}": 1.0})


class TestCredit:
    LEARNER = ms.Joint(batch_size=20, batches_per_update=20, updates=3, eval_every=3, learning_rate=3e-3)

    def test_shuffled_labels_are_held_against_their_own_source_alone(self, spoilt):
        scheduler = with_credit(schedulers.uniform(5), 5)
        settings = asdict(self.LEARNER)
        program = program_for(spoilt, mlp(3, (16,)), scheduler, told=("transfer",), learner=ms.Joint, **settings)
        state, _, _ = program.chunk(program.rows.data, program.rows.test, start(program), 0, 3)
        total, count = map(np.asarray, state.stream.scheduler[1:])
        means = total / count
        sound = np.delete(means, SPOILT)
        assert count.sum() == 3 * 20 * 20
        assert sound.min() > 0
        assert means[SPOILT] < 0.5 * sound.min(), means
        assert np.ptp(sound) < 0.5 * (sound.mean() - means[SPOILT]), means

    @pytest.mark.parametrize("name", ["thompson", "mirror"])
    def test_a_scheduler_draws_it_least(self, spoilt, name):
        run = ms.train(spoilt, name, network=mlp(3, (16,)), learner=self.LEARNER, seeds=3)
        drawn = np.sum([record["drawn"] for record in run.records if "final" in record], axis=0)
        assert drawn.argmin() == SPOILT
        assert drawn[SPOILT] < 0.7 * np.delete(drawn, SPOILT).mean(), drawn


class Noted:
    """Batches of a schedule in one compiled loop, with rewards that follow from their rows."""

    def __init__(self, tasks, choosers, batches, cursor="rested", abstain=False):
        self.tasks, self.choosers = tasks, choosers
        objective = objective_for(tasks, cursor=cursor, abstain=abstain, batching="mixed", batch_size=BATCH)
        data = device_data(tasks, objective.settings)
        chooser = switch_rows(list(choosers.values()))

        @jax.jit
        def walk(which):
            stream = first_stream(chooser, data, 3, jax.random.key(0))
            stream = stream._replace(scheduler=stream.scheduler._replace(which=which))

            def step(stream, number):
                batch = next_batch(chooser, objective, data, stream)
                worth = jnp.sin(0.37 * batch.rows + 0.1 * number).astype(jnp.float32) + batch.task
                told = jnp.where(batch.trains, worth, 0)
                return advance(chooser, objective.settings, data, stream, batch, told), (batch, told)

            return jax.lax.scan(step, stream, jnp.arange(batches))

        self._walk, self.starts = walk, np.asarray(data.starts)

    def of(self, name):
        """The stream at the end; tasks, own row numbers and rewards (batches, B)."""
        stream, (batch, told) = self._walk(list(self.choosers).index(name))
        chosen, rows, task = map(np.asarray, (batch.chosen, batch.rows, batch.task))
        return stream, chosen, rows - self.starts[task], np.asarray(told)


class TestRowsOfABatch:
    @pytest.mark.parametrize("cursor", ["rested", "global"])
    @pytest.mark.parametrize("abstain", [False, True])
    def test_no_row_is_left_out_or_repeated_within_a_pass_and_labels_are_counted(self, cursor, abstain):
        tasks = make_tasks(sizes=(12, 20, 9))
        chooser = by_rows(schedulers.make("uniform", num_tasks=3, abstain=abstain), 3 + abstain)
        stream, chosen, rows, _ = Noted(tasks, {"uniform": chooser}, 15, cursor, abstain).of("uniform")
        place, moved, counts = [0, 0, 0], 0, np.zeros((3, 3), int)
        for task, row in zip(chosen.ravel(), rows.ravel(), strict=True):
            if task == 3:
                continue
            expected = place[task] if cursor == "rested" else moved
            assert row == expected % len(tasks.tasks[task])
            counts[task, tasks.tasks[task].labels[row]] += 1
            place[task], moved = place[task] + 1, moved + 1
        assert stream.drawn.tolist() == counts.tolist()
        ends = place if cursor == "rested" else [moved] * 3
        assert stream.cursors.tolist() == [end % len(task) for end, task in zip(ends, tasks.tasks, strict=True)]
        assert (moved < chosen.size) == abstain

    def test_labels_are_counted_within_the_task_of_each_row_in_a_balanced_loss(self):
        tasks = make_tasks(sizes=(12, 20, 9))
        objective = objective_for(tasks, batching="mixed", balanced_loss=True, batch_size=BATCH)
        data, chooser = device_data(tasks, objective.settings), by_rows(schedulers.cyclic(3), 3)
        batch = next_batch(chooser, objective, data, first_stream(chooser, data, 3, jax.random.key(0)))
        shares, rows, _ = loss_arguments(objective, data, batch)
        labels = [task.labels for task in tasks.tasks]
        frequent = [np.mean(labels[task] == label) for task, label in zip(batch.task, rows.labels, strict=True)]
        np.testing.assert_allclose(shares, 1 / np.array(frequent) / np.sum(1 / np.array(frequent)), rtol=1e-5)


CASES = {name: {} for name in schedulers.names()} | {
    f"{name} by the letter": {"refresh": 0} for name in schedulers.names() if schedulers.needs_plan(name)
}
SIZES = (60, 50, 40)


@pytest.fixture(scope="module")
def rows():
    return make_tasks(sizes=SIZES)


@pytest.fixture(scope="module")
def plan(rows):
    return ms.plan(rows, mlp(3, (4,)), ms.AlgorithmOne(batch_size=BATCH))


def made(case, plan, abstain=False):
    options = {"passes": SIZES, "sizes": SIZES, **CASES[case]}
    return schedulers.make(case.split()[0], num_tasks=3, plan=plan, abstain=abstain, **options)


def from_key(scheduler, key):
    """The same scheduler with chance that does not depend on who starts it."""
    return scheduler._replace(init=lambda _: scheduler.init(key))


@pytest.fixture(scope="module", params=[("rested", False), ("global", False), ("rested", True)], ids=str)
def noted(request, rows, plan):
    """All schedulers in one program; those by the letter have no index for abstaining."""
    cursor, abstain = request.param
    known = {
        case: from_key(made(case, plan, abstain), jax.random.key(3))
        for case in CASES
        if not (abstain and case.endswith("letter"))
    }
    choosers = {case: by_rows(scheduler, 3 + abstain) for case, scheduler in known.items()}
    return Noted(rows, choosers, BATCHES, cursor, abstain), known, cursor, abstain


class TestSameAsAChooser:
    """The learners' loop and ``ms.Chooser``, told the same rewards, draw the same rows."""

    @pytest.mark.parametrize("case", CASES)
    def test_draw_for_draw(self, rows, noted, case):
        engine, known, cursor, abstain = noted
        if case not in known:
            pytest.skip("it has no index for abstaining")
        _, chosen, expected, told = engine.of(case)
        chooser = ms.Chooser(known[case], rows, BATCH, shuffle=False, cursor=cursor, abstain=abstain)
        for batch in range(BATCHES):
            draw, there = chooser.ask(), chosen[batch] < 3
            assert draw.tasks.tolist() == chosen[batch][there].tolist(), f"batch {batch}"
            assert draw.rows.tolist() == expected[batch][there].tolist(), f"batch {batch}"
            chooser.tell(draw, told[batch][there])

    @pytest.mark.parametrize("name", ["thompson", "mirror", "ucb", "gittins", "mdp"])
    def test_through_train_with_the_plan_that_it_makes(self, rows, name):
        def first_number(objective, turn):
            return turn.batch.inputs[:, 0]

        learner, network = ms.Joint(batch_size=BATCH, updates=4, batches_per_update=3, eval_every=4), mlp(3, (4,))
        run = ms.train(rows, name, network=network, learner=learner, reward=first_number)
        scheduler = made(name, ms.plan(rows, network, learner) if schedulers.needs_plan(name) else None)
        chooser = ms.Chooser(from_key(scheduler, seed_keys(0)[1]), rows, BATCH, shuffle=False)
        drawn = np.zeros(3, int)
        for record in run.records:
            for _ in range(3):
                draw = chooser.ask()
                drawn += np.bincount(draw.tasks, minlength=3)
                pairs = zip(draw.tasks, draw.rows, strict=True)
                chooser.tell(draw, [float(rows.tasks[task].inputs[row, 0]) for task, row in pairs])
            assert record["drawn"] == drawn.tolist(), record["update"]


CUT_OFF = {
    "thompson": {},
    "mirror": {},
    "ucb": {},
    "thompson with folds": {"folds": 3},
    "thompson that may abstain": {"abstain": True},
    "ucb with folds that may abstain": {"folds": 2, "abstain": True},
}


class TestCutOff:
    """A run that ends in the middle goes on to the same numbers, bit for bit."""

    @pytest.fixture
    def stored(self, tmp_path):
        ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")
        return ms.datasets.load(tmp_path / "set.npz")

    def known(self, learner, batching="mixed", **settings):
        kind = {"joint": ms.Joint, "meta": ms.AlgorithmOne}[learner]
        settings = {"batch_size": 4, "updates": 4, "batches_per_update": 3, "eval_every": 2, **settings}
        return {"network": "mlp", "learner": kind(**settings, batching=batching), "seeds": (1,)}

    def cut_off(self, stored, name, path, stop=Stop, **known):
        """A run that is stopped at its third record."""

        def interrupt(record):
            if record["update"] == 3:
                raise stop

        with pytest.raises(stop):
            ms.train(stored, name, **known, out=path, on_record=interrupt, checkpoint_seconds=0)

    @pytest.mark.parametrize("learner", ["joint", "meta"])
    @pytest.mark.parametrize("case", CUT_OFF)
    def test_resume_ends_with_the_same_numbers(self, stored, tmp_path, case, learner):
        more = CUT_OFF[case]
        name, known = case.split()[0], self.known(learner, reward_folds=more.get("folds", 0))
        known["abstain"] = more.get("abstain", False)
        whole = ms.train(stored, name, **known)
        self.cut_off(stored, name, tmp_path / "a", **known)
        found = ms.resume(tmp_path / "a")
        assert found.records == whole.records
        jax.tree.map(np.testing.assert_array_equal, found.parameters[1], whole.parameters[1])

    def test_so_does_ctrl_c_between_two_checkpoints(self, stored, tmp_path):
        known = self.known("joint")
        whole = ms.train(stored, "thompson", **known)
        self.cut_off(stored, "thompson", tmp_path / "a", KeyboardInterrupt, **known)
        assert ms.resume(tmp_path / "a").records == whole.records

    def test_one_that_was_begun_before_batches_were_mixed_goes_on_with_batches_of_one_source(self, stored, tmp_path):
        known = self.known("joint", "per_source")
        whole = ms.train(stored, "thompson", **known)
        self.cut_off(stored, "thompson", tmp_path / "a", **known)
        assert "batching" not in (tmp_path / "a" / "run.json").read_text(), "as it was written then"
        assert folder.describe(tmp_path / "a").spec.name == whole.outcomes[0].run
        found = ms.resume(tmp_path / "a")
        assert found.records == whole.records
        assert "tasks" in found.records[-1]

    def test_the_same_call_as_before_says_what_is_different_now(self, stored, tmp_path):
        known = self.known("joint", "per_source")
        ms.train(stored, "thompson", **known, out=tmp_path / "a")
        known["learner"] = replace(known["learner"], batching="mixed")
        with pytest.raises(ms.errors.RunError, match=r"another setting batching \(per_source, not mixed\)"):
            ms.train(stored, "thompson", **known, out=tmp_path / "a")

    def test_a_run_does_not_depend_on_others_that_share_its_program(self, stored):
        """A comparison puts a method that may abstain and one that may not into one program."""
        known = self.known("joint")
        jobs = [
            make_jobs(stored, name, **known, abstain=abstain)[0]
            for name, abstain in (("thompson", False), ("mirror", True), ("target-only", False))
        ]
        together = runner.run(jobs)
        for job, found in zip(jobs, together, strict=True):
            assert found.records == runner.run([job])[0].records
