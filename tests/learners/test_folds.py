"""Rewards from held-out folds of the target's labels, against the same learners spelled out one copy at a time."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import metasched as ms
from helpers import Stop, make_regression, make_tasks, stop_after
from metasched.errors import ConfigError
from metasched.learners import engine
from metasched.learners.checks import checked_objective
from metasched.learners.folds import equal_splits, folds_of, stratified_folds
from metasched.learners.losses import Rows
from metasched.learners.networks import mlp
from metasched.learners.settings import LEARNERS
from metasched.learners.stream import device_data
from scenes import follow, schedule_for

NETWORK = mlp(3, (6,))
ORDER = [2, 0, 2, 1, 2, 0]
FOLDS = 3
RATES = {"joint": {"learning_rate": 0.05}, "meta": {"outer_rate": 0.05, "inner_rate": 0.3, "gradient": "scan"}}


def config(learner="joint", **changes):
    known = {"batch_size": 4, "updates": 2, "batches_per_update": 3, "target_batch": "all", "eval_every": 1}
    return LEARNERS[learner](**{**known, "reward_folds": FOLDS, **RATES[learner], **changes})


def settled(tasks, learner, **changes):
    """A compiled program that follows ``ORDER``, and its state before the first update."""
    objective = checked_objective(tasks, NETWORK, config(learner, **changes))
    program = engine.prepare(tasks, objective, schedule_for(follow(ORDER)))
    return program, program.start(program.rows.data, 0, engine.hyperparameters_of(program.objective.settings))


def after(tasks, learner, **changes):
    """The state after both updates."""
    program, state = settled(tasks, learner, **changes)
    return program.chunk(program.rows.data, program.rows.test, state, 0, 2)[0]


def copies_in(state):
    """The weights of every copy, one after another."""
    learned = [copy.parameters.weights for copy in state.copies]
    return [
        jax.tree.map(lambda leaf, place=place: np.asarray(leaf[place]), group)
        for group in learned
        for place in range(len(jax.tree.leaves(group)[0]))
    ]


def close(found, expected, atol=2e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=atol), found, expected)


def loss(weights, x, y):
    return -jax.nn.log_softmax(NETWORK.apply(weights, x))[jnp.arange(len(y)), y].mean()


def chance(weights, x, y):
    """Mean probability of the right label."""
    return jax.nn.softmax(NETWORK.apply(weights, x))[jnp.arange(len(y)), y].mean()


def transfer_by_hand(weights, batch, held):
    mine, wanted = (
        jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(jax.grad(chance)(weights, *rows))])
        for rows in (batch, held)
    )
    return float(mine @ wanted / jnp.linalg.norm(wanted))


def batches_by_hand(tasks):
    """The rows of every draw of ``ORDER``."""
    cursors, found = [0] * len(tasks.tasks), []
    for number in ORDER:
        task = tasks.tasks[number]
        rows = [(cursors[number] + offset) % len(task) for offset in range(4)]
        cursors[number] = (cursors[number] + 4) % len(task)
        found.append((task.inputs[rows], task.labels[rows]))
    return found


def joint_by_hand(tasks, kept, held):
    """Six steps of Adam on loss(source) + loss(kept): the weights, and the reward of each batch on held-out rows."""
    weights = NETWORK.init(jax.random.split(jax.random.key(0), 3)[0], tasks.validation.inputs[:1])
    adam = optax.adam(optax.exponential_decay(0.05, 5, 0.1))
    state, worths = adam.init(weights), []
    for batch in batches_by_hand(tasks):
        worths.append(transfer_by_hand(weights, batch, held) if held else 0.0)
        slope = jax.tree.map(jnp.add, jax.grad(loss)(weights, *batch), jax.grad(loss)(weights, *kept))
        change, state = adam.update(slope, state, weights)
        weights = optax.apply_updates(weights, change)
    return weights, worths


def meta_by_hand(tasks, kept, held):
    """Two meta-updates of three SGD steps; λ after them, and the reward of each batch on the held-out rows."""
    weights = NETWORK.init(jax.random.split(jax.random.key(0), 3)[0], tasks.validation.inputs[:1])
    learned = (weights, jnp.log(jnp.float32(0.3)))
    adam = optax.adam(optax.exponential_decay(0.05, 1, 0.1))
    state, worths, batches = adam.init(learned), [], batches_by_hand(tasks)
    for three in (batches[:3], batches[3:]):

        def outer(learned, three=three):
            weights, before = learned[0], []
            for batch in three:
                before.append(weights)
                slope = jax.grad(loss)(weights, *batch)
                weights = jax.tree.map(lambda w, g: w - jnp.exp(learned[1]) * g, weights, slope)
            return loss(weights, *kept), before

        slope, before = jax.grad(outer, has_aux=True)(learned)
        if held:
            worths += [transfer_by_hand(old, batch, held) for old, batch in zip(before, three, strict=True)]
        change, state = adam.update(slope, state, learned)
        learned = optax.apply_updates(learned, change)
    return learned[0], worths


BY_HAND = {"joint": joint_by_hand, "meta": meta_by_hand}


@pytest.mark.parametrize("learner", BY_HAND)
def test_the_reward_is_the_mean_over_copies_each_judged_on_the_rows_it_never_saw(learner):
    tasks = make_tasks(validation=10)
    x, y = tasks.validation.inputs, tasks.validation.labels
    numbers = stratified_folds(y, FOLDS)
    copies = [
        BY_HAND[learner](tasks, (x[numbers != fold], y[numbers != fold]), (x[numbers == fold], y[numbers == fold]))
        for fold in range(FOLDS)
    ]
    state = after(tasks, learner)
    np.testing.assert_allclose(state.stream.scheduler[1], np.mean([worths for _, worths in copies], axis=0), atol=2e-5)
    for found, (expected, _) in zip(copies_in(state), copies, strict=True):
        close(found, expected)
    close(state.parameters.weights, BY_HAND[learner](tasks, (x, y), None)[0])


@pytest.mark.parametrize("learner", BY_HAND)
def test_the_model_itself_is_trained_on_all_labels_as_without_folds(learner):
    tasks = make_tasks()
    close(after(tasks, learner).parameters, after(tasks, learner, reward_folds=0).parameters, atol=1e-6)


@pytest.mark.parametrize("learner", BY_HAND)
def test_other_labels_in_a_fold_do_not_change_the_copy_that_never_sees_it(learner):
    tasks = make_tasks(validation=10)
    program, state = settled(tasks, learner)
    whole = program.rows.data.folds
    first = set(map(tuple, np.asarray(whole[0].held.inputs[0])))

    def spoilt(rows):
        mine = np.array([[tuple(row) in first for row in copy] for copy in np.asarray(rows.inputs)])
        return rows._replace(labels=jnp.where(mine, (rows.labels + 1) % 3, rows.labels))

    folds = tuple(group._replace(kept=spoilt(group.kept), held=spoilt(group.held)) for group in whole)
    found, expected = (
        copies_in(program.chunk(program.rows.data._replace(folds=given), program.rows.test, state, 0, 2)[0])
        for given in (folds, whole)
    )
    same = [
        all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, pair), strict=True))
        for pair in zip(found, expected, strict=True)
    ]
    assert same == [True, False, False]


@pytest.mark.parametrize("learner", BY_HAND)
@pytest.mark.parametrize("every", [1, 2])
def test_cut_off_it_goes_on_to_the_same_numbers_and_side_by_side_is_alone(tasks, tmp_path, learner, every):
    known = {
        "network": NETWORK,
        "learner": config(learner, updates=4, slope_every=every),
        "seeds": (0, 1),
    }
    whole = ms.train(tasks, "thompson", **known)
    with pytest.raises(Stop):
        ms.train(tasks, "thompson", **known, out=tmp_path / "a", on_record=stop_after(3), checkpoint_seconds=0)
    assert ms.train(tasks, "thompson", **known, out=tmp_path / "a").records == whole.records
    together = ms.train(tasks, "thompson", **known, seeds_at_once=2).records
    if learner == "meta" and known["learner"].batching == "mixed":  # XLA sums the rows of a batch in another order here
        for mine, alone in zip(together, whole.records, strict=True):
            assert mine["drawn"] == alone["drawn"]
            assert mine["loss"] == pytest.approx(alone["loss"], rel=1e-5)
    else:
        assert together == whole.records


class TestFolds:
    @pytest.mark.parametrize("count", [9, 10, 11])
    def test_rows_that_do_not_divide_make_the_first_folds_one_larger(self, count):
        rows = Rows(jnp.arange(count)[:, None], jnp.zeros(count, jnp.int32))
        groups = folds_of(rows, 3)
        sizes = [len(held) for group in groups for held in group.held.labels]
        assert sizes == [count // 3 + (fold < count % 3) for fold in range(3)]
        for group in groups:
            for kept, held in zip(group.kept.inputs, group.held.inputs, strict=True):
                assert sorted([*kept[:, 0].tolist(), *held[:, 0].tolist()]) == list(range(count))
        held = [row for group in groups for row in group.held.inputs.ravel().tolist()]
        assert sorted(held) == list(range(count))

    def test_every_fold_has_its_share_of_every_label(self):
        labels = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], [15, 10, 6]))
        numbers = stratified_folds(labels, 5)
        for label, each in ((0, {3}), (1, {2}), (2, {1, 2})):
            counts = np.bincount(numbers[labels == label], minlength=5)
            assert set(counts.tolist()) == each, f"label {label}: {counts}"

    def test_no_folds_no_copies(self, tasks):
        assert device_data(tasks, ms.AlgorithmOne(batch_size=4)).folds == ()

    def test_numbers_to_predict_have_folds_too(self):
        tasks = make_regression()
        run = ms.train(tasks, "thompson", network=mlp(2, (6,)), learner=config())
        assert np.isfinite(run.final[0]["test_accuracy"])


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"reward_folds": 11}, "reward_folds is 11, but the target has 10 labelled rows; give at most 10, or 0"),
            ({"reward_folds": 1}, "reward_folds is 1; give 0 for none, or at least 2"),
            ({"reward_folds": -1}, "reward_folds is -1; give a whole number ≥ 0"),
            ({"reward_folds": 2.0}, "reward_folds is 2.0; give a whole number ≥ 0"),
            ({"reward_rows": 4}, "reward_rows and reward_folds both say which rows give rewards"),
            ({"target_batch": "ucb"}, "reward_folds cannot be used with target_batch ucb; give uniform or all"),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
    )
    def test_what_cannot_be_folded_is_one_line_and_nothing_is_written(self, tasks, tmp_path, changes, said):
        with pytest.raises(ConfigError, match=said):
            ms.train(tasks, "thompson", network=NETWORK, learner=config("meta", **changes), out=tmp_path / "a")
        assert list(tmp_path.iterdir()) == []


def test_a_schedule_that_reads_no_rewards_makes_no_copies(tasks):
    for scheduler in ("cyclic", "uniform", "single:1", "target-only"):
        run = ms.train(tasks, scheduler, network=NETWORK, learner=config(slope_every=4))
        plain = ms.train(tasks, scheduler, network=NETWORK, learner=config(reward_folds=0))
        assert run.outcomes[0].spec == plain.outcomes[0].spec
        assert run.records == plain.records


def test_lanes_with_target_rows_of_their_own_have_folds_of_their_own():
    sets = [make_tasks(seed=0), replace(make_tasks(seed=0), validation=make_tasks(seed=3).validation)]
    objective = checked_objective(sets[0], NETWORK, config(updates=2))
    program = engine.prepare(sets[0], objective, schedule_for(follow(ORDER)), together=2, own_rows=True)
    rows = {number: engine.replica_rows(program, each) for number, each in enumerate(sets)}
    hyperparameters = engine.hyperparameters_of(program.objective.settings)
    states = {number: program.start(rows[number].data, 0, hyperparameters) for number in rows}
    *_, (moved, _) = engine.run(program, states, rows=rows)
    for number, (state, _) in moved().items():
        close(copies_in(state), copies_in(after(sets[number], "joint")))


class TestEqualSplits:
    def test_all_have_one_shape_and_each_row_is_held_out_at_most_once(self):
        parts = equal_splits(np.arange(43) % 3, 4)
        assert {(len(rest), len(held)) for rest, held in parts} == {(33, 10)}
        held = np.concatenate([held for _, held in parts])
        assert len(np.unique(held)) == 40

    def test_a_row_is_never_on_both_sides(self):
        for rest, held in equal_splits(np.arange(43) % 3, 4):
            assert not set(rest) & set(held)
            assert len(rest) + len(held) == 43

    def test_every_fold_has_every_label(self):
        labels = np.repeat([0, 1], [30, 10])
        for rest, held in equal_splits(labels, 4):
            assert np.bincount(labels[held]).tolist() in ([7, 3], [8, 2])
            assert labels[rest].max() == 1

    def test_fewer_rows_than_folds_make_none(self):
        assert equal_splits(np.zeros(3, np.int32), 4) == []
