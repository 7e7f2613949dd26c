"""Mixed draws: the rows that a compiled loop would choose, credit by row, and exact resume."""

import json
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import metasched as ms
from helpers import make_tasks
from metasched import schedulers
from metasched.chooser import history as history_module
from metasched.errors import ConfigError
from metasched.schedulers.rows import Cursors, by_rows
from metasched.tasks.cursors import CURSORS, advance, labels_at, starts_of

SOURCES = {"web": 40, "books": 12, "code": 30}
ROWS = 8


@pytest.fixture(scope="module")
def planned():
    tasks = make_tasks(sizes=(41, 50, 33))
    return tasks, ms.plan(tasks, learner=ms.Joint(batch_size=5))


def rewards_of(draw):
    """A number for each row that hangs on its source, its place and the draw."""
    return np.sin(3.0 * draw.tasks + 0.7 * draw.id + 0.1 * np.arange(len(draw.rows))).astype(np.float32)


def follow(chooser, steps, rewards=rewards_of):
    draws = []
    for _ in range(steps):
        draws.append(chooser.ask())
        chooser.tell(draws[-1], rewards(draws[-1]))
    return draws


def fresh(stored):
    """A state that has been to a file and back."""
    return {"facts": json.loads(json.dumps(stored["facts"])), "arrays": stored["arrays"]}


def seen(draws):
    return [(draw.id, draw.sources.tolist(), draw.rows.tolist()) for draw in draws]


def same(one, other):
    assert one["facts"] == other["facts"]
    assert one["arrays"].keys() == other["arrays"].keys()
    for name, values in one["arrays"].items():
        assert_array_equal(values, other["arrays"][name], err_msg=name)


def compiled(scheduler, tasks, batches, cursor, arms):
    """The arms (batches, rows) that a scheduler chooses by rows in one compiled loop."""
    rows, sizes = by_rows(scheduler, arms), jnp.asarray(tasks.sizes)
    labels, starts = jnp.concatenate([jnp.asarray(task.labels) for task in tasks.tasks]), starts_of(sizes)

    @jax.jit
    def run():
        def batch(carry, number):
            state, places = carry
            cursors = Cursors(
                places,
                lambda at: labels_at(labels, starts, at),
                lambda at, task: advance(at, sizes, task, 1, cursor),
            )
            chosen, shown = rows.choose(state, cursors, ROWS)
            there = chosen < len(tasks.tasks)
            place = jnp.cumsum(there) - there  # among the rows that are drawn
            rewards = jnp.where(there, jnp.sin(3.0 * chosen + 0.7 * number + 0.1 * place), 0)
            state = rows.tell(state, shown, chosen, rewards.astype(jnp.float32))
            places = jax.lax.fori_loop(0, ROWS, lambda row, at: advance(at, sizes, chosen[row], 1, cursor), places)
            return (state, places), chosen

        first = rows.init(jax.random.key(5)), jnp.zeros_like(sizes)
        return jax.lax.scan(batch, first, jnp.arange(batches))[1]

    return np.asarray(run())


class TestChoices:
    @pytest.mark.parametrize("cursor", CURSORS)
    @pytest.mark.parametrize(
        ("name", "options"),
        [*((name, {}) for name in schedulers.names()), ("gittins", {"refresh": 0}), ("mdp", {"refresh": 0})],
    )
    def test_are_those_of_the_compiled_loop(self, name, options, cursor, planned):
        tasks, plan = planned
        scheduler = schedulers.make(name, num_tasks=3, plan=plan, **options)
        chooser = ms.Chooser(scheduler, tasks, ROWS, seed=5, cursor=cursor)
        drawn = [draw.tasks.tolist() for draw in follow(chooser, 30)]
        assert drawn == compiled(scheduler, tasks, 30, cursor, 3).tolist()

    @pytest.mark.parametrize("name", ["cyclic", "thompson", "ucb", "mirror", "gittins"])
    def test_are_those_of_the_compiled_loop_where_rows_may_be_left_out(self, name, planned):
        tasks, plan = planned
        scheduler = schedulers.make(name, num_tasks=3, plan=plan, abstain=True)
        chooser = ms.Chooser(scheduler, tasks, ROWS, seed=5, abstain=True)
        arms = compiled(scheduler, tasks, 30, "rested", 4)
        assert [draw.tasks.tolist() for draw in follow(chooser, 30)] == [row[row < 3].tolist() for row in arms]
        assert chooser.history()["task"].tolist() == arms.ravel().tolist()

    def test_open_draws_count_as_if_they_had_brought_the_mean_of_their_sources(self):
        chooser = ms.Chooser("cyclic", SOURCES, 4)
        assert [chooser.ask().tasks.tolist() for _ in range(3)] == [[0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2]]
        ahead = ms.Chooser("ucb", {"a": None, "b": None}, 2)
        draws = [ahead.ask() for _ in range(4)]
        assert Counter(np.concatenate([draw.sources for draw in draws])) == {"a": 4, "b": 4}

    def test_random_schedulers_draw_anew_whatever_was_told(self):
        ahead, told = (ms.Chooser("uniform", SOURCES, 5, seed=2) for _ in range(2))
        assert [ahead.ask().tasks.tolist() for _ in range(20)] == [draw.tasks.tolist() for draw in follow(told, 20)]

    @pytest.mark.parametrize("name", ["thompson", "mirror", "ucb", "exp3"])
    def test_the_source_whose_rows_help_is_found(self, name):
        chooser = ms.Chooser(name, SOURCES, 8)
        noise = np.random.default_rng(0)
        follow(chooser, 300, lambda draw: (draw.sources == "code") + 0.3 * noise.normal(size=8))
        assert chooser.shares(last=50)["code"] > 0.5

    def test_one_row_is_a_draw_of_one_source(self):
        chooser = ms.Chooser("cyclic", SOURCES)
        assert chooser.batching == "per_source"
        assert [chooser.ask().source for _ in range(3)] == list(SOURCES)


class TestDraws:
    def test_say_the_source_of_every_row(self):
        draw = ms.Chooser("cyclic", SOURCES, 5, shuffle=False).ask()
        assert draw.sources.tolist() == ["web", "books", "code", "web", "books"]
        assert draw.tasks.tolist() == [0, 1, 2, 0, 1]
        assert draw.rows.tolist() == [0, 0, 0, 1, 1]
        assert list(draw.by_source) == ["web", "books", "code"]
        assert draw.by_source["books"].rows.tolist() == [0, 1]
        assert draw.by_source["books"].positions.tolist() == [1, 4]
        assert draw.weights.tolist() == [1.0] * 5

    @pytest.mark.parametrize(("asked", "instead"), [("source", "sources"), ("task", "tasks"), ("weight", "weights")])
    def test_have_no_single_source_even_where_all_rows_are_of_one(self, asked, instead):
        draw = ms.Chooser("single", SOURCES, 5).ask()
        with pytest.raises(ConfigError, match=f"draw.{asked} is for batches of one source.*use draw.{instead}"):
            getattr(draw, asked)

    def test_of_one_source_say_it_as_before(self):
        draw = ms.Chooser("cyclic", SOURCES, 3, batching="per_source", shuffle=False).ask()
        assert (draw.source, draw.task, draw.weight) == ("web", 0, 1.0)
        assert (draw.sources.tolist(), draw.tasks.tolist()) == (["web"] * 3, [0] * 3)
        assert draw.by_source["web"].positions.tolist() == [0, 1, 2]
        assert repr(draw) == "Draw(id=0, source='web', rows=[0, 1, 2])"

    def test_and_choosers_are_one_short_line(self):
        chooser = ms.Chooser("cyclic", SOURCES, 4)
        assert repr(chooser.ask()) == "Draw(id=0, rows={'web': 2, 'books': 1, 'code': 1})"
        assert repr(chooser) == "Chooser('cyclic', 3 sources, batches of 4 rows, mixed; 1 draws so far)"

    @settings(
        max_examples=40,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(
        sizes=st.lists(st.one_of(st.none(), st.integers(1, 30)), min_size=1, max_size=5),
        name=st.sampled_from(["uniform", "thompson", "cyclic", "ucb"]),
        rows=st.sampled_from([2, 7]),
        shuffle=st.booleans(),
        ahead=st.integers(0, 3),
        seed=st.integers(0, 5),
    )
    @pytest.mark.filterwarnings("ignore:sources with fewer rows")
    def test_no_row_is_left_out_or_given_twice_in_a_pass(self, sizes, name, rows, shuffle, ahead, seed):
        chooser = ms.Chooser(name, sizes, rows, shuffle=shuffle, seed=seed)
        given_out = {source: [] for source in chooser.sources}
        waiting = []
        for _ in range(25):
            draw = chooser.ask()
            assert len(draw.rows) == len(draw.sources) == rows
            for source, row in zip(draw.sources, draw.rows.tolist(), strict=True):
                given_out[source].append(row)
            waiting.append(draw)
            if len(waiting) > ahead:
                chooser.tell(waiting[0], rewards_of(waiting.pop(0)))
        for source, size in chooser.sources.items():
            got = given_out[source]
            if size is None or not shuffle:
                assert got == [row if size is None else row % size for row in range(len(got))], source
            else:
                for begin in range(0, len(got), size):
                    one = got[begin : begin + size]
                    assert len(set(one)) == len(one), source
                    assert set(one) <= set(range(size)), source

    def test_global_cursors_all_move_with_every_row(self):
        chooser = ms.Chooser("cyclic", [20, 20], 3, cursor="global", shuffle=False)
        assert [chooser.ask().rows.tolist() for _ in range(2)] == [[0, 1, 2], [3, 4, 5]]
        shuffled, plain = (ms.Chooser("cyclic", [20], 3, cursor=cursor) for cursor in ("global", "rested"))
        assert seen(follow(shuffled, 10)) == seen(follow(plain, 10))

    def test_rows_that_abstain_are_not_in_the_draw_and_are_told_0_or_what_all_are_told(self):
        chooser = ms.Chooser("cyclic", {"a": 10, "b": 10}, 4, abstain=True, cursor="global", shuffle=False)
        first, second = chooser.ask(), chooser.ask()
        assert (first.sources.tolist(), first.rows.tolist()) == (["a", "b", "a"], [0, 1, 2])
        assert (second.sources.tolist(), second.rows.tolist()) == (["b", "a", "b"], [3, 4, 5])
        chooser.tell(first, [1.0, 2.0, 3.0])
        assert chooser.history()["task"].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
        assert_array_equal(chooser.history()["reward"], [1, 2, 0, 3, *[np.nan] * 4])
        chooser.tell(second, 0.5)
        assert_array_equal(chooser.history()["reward"], [1, 2, 0, 3, 0.5, 0.5, 0.5, 0.5])
        assert chooser.shares() == {"a": 3 / 8, "b": 3 / 8}

    def test_sources_that_hurt_are_left_out_where_a_scheduler_may_abstain(self):
        chooser = ms.Chooser("thompson", SOURCES, 8, abstain=True, explore=0.0)
        noise = np.random.default_rng(0)
        for _ in range(200):
            draw = chooser.ask()
            chooser.tell(draw, -0.5 + 0.1 * noise.normal(size=len(draw.rows)))
        assert sum(chooser.shares(last=50).values()) < 0.3

    def test_a_draw_without_rows(self):
        chooser = ms.Chooser("target-only", SOURCES, 4)
        draw = chooser.ask()
        assert (len(draw.rows), draw.by_source) == (0, {})
        for reward in (0.5, [], {}):
            chooser.tell(draw, reward)
            draw = chooser.ask()

    def test_a_small_source_is_mentioned_where_a_usual_batch_repeats_its_rows(self, recwarn):
        ms.Chooser("uniform", {"a": 100, "b": 6}, 10)
        assert not recwarn.list
        with pytest.warns(UserWarning, match=r"fewer rows than the 7 that .* so rows repeat: 'b' \(6\)"):
            ms.Chooser("uniform", {"a": 100, "b": 6}, 14)


class TestTells:
    def test_a_number_one_per_source_and_one_per_row_are_the_same_where_they_say_the_same(self):
        def told(reward):
            chooser = ms.Chooser("thompson", SOURCES, 6, seed=1)
            for step in range(20):
                draw = chooser.ask()
                chooser.tell(draw, reward(draw, step))
            return chooser.state_dict()["arrays"]

        worth = {"web": 0.1, "books": 0.7, "code": -0.2}
        by_row = told(lambda draw, _: [worth[source] for source in draw.sources])
        by_source = told(lambda draw, _: {source: worth[source] for source in draw.by_source})
        for name, values in by_row.items():
            assert_array_equal(values, by_source[name], err_msg=name)
        number, alike = told(lambda _, step: 0.1 * step), told(lambda draw, step: np.full(6, 0.1 * step))
        for name, values in number.items():
            assert_array_equal(values, alike[name], err_msg=name)

    @pytest.mark.parametrize("given", [tuple, np.array, jnp.array, lambda rewards: np.array(rewards, np.float16)])
    def test_rewards_of_rows_come_in_any_kind_of_list(self, given):
        chooser = ms.Chooser("cyclic", SOURCES, 3)
        chooser.tell(chooser.ask(), given([0.5, 1.0, -2.0]))
        assert chooser.history()["reward"].tolist() == [0.5, 1.0, -2.0]

    @pytest.mark.parametrize("kind", ["float32", "bfloat16"])
    def test_a_tensor_that_still_has_its_graph_will_do(self, kind):
        torch = pytest.importorskip("torch")
        chooser = ms.Chooser("cyclic", SOURCES, 3)
        rewards = torch.tensor([0.5, 1.0, -2.0], dtype=getattr(torch, kind), requires_grad=True)
        chooser.tell(chooser.ask(), rewards)
        chooser.tell(chooser.ask(), rewards.sum())
        assert chooser.history()["reward"].tolist() == [0.5, 1.0, -2.0, -0.5, -0.5, -0.5]

    def test_rows_that_could_not_be_had_are_left_out(self):
        chooser = ms.Chooser("ucb", SOURCES, 4)
        whole = chooser.ask()
        draw = chooser.keep(whole, [0, 2])
        assert seen([draw]) == [(0, whole.sources[[0, 2]].tolist(), whole.rows[[0, 2]].tolist())]
        with pytest.raises(ConfigError, match=r"draw 0 now has 2 rows; pass the draw from open\(\)"):
            chooser.tell(whole, [1.0, 2.0, 3.0, 4.0])
        copy = ms.Chooser("ucb", SOURCES, 4)
        copy.load_state_dict(fresh(chooser.state_dict()))
        assert seen(copy.open()) == seen([draw])
        for one in (chooser, copy):
            one.tell(one.open()[0], [1.0, 3.0])
            assert one.history()["reward"].tolist() == [1.0, 3.0]
            assert one.state_dict()["arrays"]["scheduler.inner.visits"].sum() == 2
        assert seen(follow(chooser, 5)) == seen(follow(copy, 5))
        same(chooser.state_dict(), copy.state_dict())

    def test_a_draw_of_one_source_has_the_mean_of_its_rows(self):
        chooser = ms.Chooser("cyclic", SOURCES, 4, batching="per_source")
        chooser.tell(chooser.ask(), [1.0, 2.0, 3.0, 6.0])
        chooser.tell(chooser.ask(), {"books": 0.5})
        assert chooser.history()["reward"].tolist() == [3.0, 0.5]

    def test_rewards_of_sources_that_are_not_in_the_draw_are_passed_over(self):
        chooser = ms.Chooser("uniform", {"web": None, "books": None, "code": None}, 2, seed=1)
        for _ in range(5):
            draw = chooser.ask()
            chooser.tell(draw, {"web": 0.1, "books": 0.2, "code": 0.3})
            told = chooser.history()["reward"][-2:]
            wanted = [{"web": 0.1, "books": 0.2, "code": 0.3}[name] for name in draw.sources]
            np.testing.assert_allclose(told, wanted, rtol=1e-6)

    @pytest.mark.parametrize("batching", ["mixed", "per_source"])
    @pytest.mark.parametrize(
        ("reward", "message"),
        [
            (
                [1.0, 2.0],
                "the reward has 2 numbers, but the draw has 3 rows; give one number, one for each row, or one for",
            ),
            (np.zeros((3, 1)), r"the reward is \[0.0\] of row 0; give a finite number"),
            ([1.0, np.nan, 2.0], "the reward is nan of row 1; give a finite number"),
            ([1.0, None, 2.0], "the reward is None of row 1"),
            ([1.0, 2.0, 1e300], "the reward is 1e.300 of row 2"),
            ({"web": 1.0, "books": 1.0, "wob": 2.0}, "unknown source 'wob'; did you mean 'web'"),
            ({}, "source '.*' has no reward; give one number for each of: web"),
            ("abc", "the reward is 'abc'"),
            (np.inf, "the reward is inf; give a finite number"),
            (None, "the reward is None"),
        ],
    )
    def test_what_does_not_fit_is_one_line_and_changes_nothing(self, batching, reward, message):
        chooser = ms.Chooser("cyclic", {"web": 40, "books": 12}, 3, batching=batching)
        draw = chooser.ask()
        before = chooser.state_dict()
        with pytest.raises(ConfigError, match=message):
            chooser.tell(draw, reward)
        same(before, chooser.state_dict())
        chooser.tell(draw, 0.5)

    def test_one_row_of_a_source_that_is_not_finite_names_it(self):
        chooser = ms.Chooser("cyclic", {"web": 40, "books": 12}, 3)
        with pytest.raises(ConfigError, match="the reward is nan of source 'books'"):
            chooser.tell(chooser.ask(), {"web": 1.0, "books": np.nan})

    def test_the_order_of_tells_is_what_counts_and_a_forgotten_draw_leaves_no_trace(self):
        def run(order):
            chooser = ms.Chooser("discounted_ucb", SOURCES, 3)
            draws = [chooser.ask() for _ in range(5)]
            chooser.forget(draws[4])
            for number in order:
                chooser.tell(draws[number], rewards_of(draws[number]))
            state = chooser.state_dict()["arrays"]
            return [values for name, values in state.items() if name.startswith("scheduler")]

        one, again, other = run([2, 0, 3, 1]), run([2, 0, 3, 1]), run([0, 1, 2, 3])
        assert all(map(np.array_equal, one, again))
        assert not all(map(np.array_equal, one, other))

    @pytest.mark.parametrize("outlier", [-1e20, 1e20])
    @pytest.mark.parametrize("when", [0, 3])
    def test_one_row_that_overflowed_decides_nothing(self, when, outlier):
        chooser, noise = ms.Chooser("thompson", SOURCES, 16, seed=1), np.random.default_rng(0)
        worth = np.array([0.6, 0.4, 0.3])
        for step in range(100):
            draw = chooser.ask()
            rewards = worth[draw.tasks] + 0.1 * noise.normal(size=16)
            if step == when:
                rewards[3] = outlier
            chooser.tell(draw, rewards)
        assert chooser.shares(last=30)["web"] > 0.5
        assert np.nanmax(np.abs(chooser.history()["reward"])) == np.float32(1e20)
        assert max(abs(value) for name, value in chooser.log(last=100).items() if name.startswith("reward/")) < 2


class TestProportions:
    def test_fixed_ones_hold_row_by_row(self):
        chooser = ms.Chooser("uniform", SOURCES, 20, weights=[6, 1, 3])
        draws = follow(chooser, 100)
        assert_allclose(list(chooser.shares().values()), [0.6, 0.1, 0.3], atol=0.04)
        assert min(len(draw.by_source) for draw in draws) > 1

    @pytest.mark.parametrize("name", ["ucb", "thompson", "exp3", "mirror"])
    def test_every_source_keeps_its_share_of_the_rows(self, name):
        chooser = ms.Chooser(name, SOURCES, 10, min_share=0.15)
        follow(chooser, 150, lambda draw: (draw.sources == "books").astype(float))
        assert min(chooser.shares(last=100).values()) > 0.1
        assert max(chooser.shares(last=100), key=chooser.shares(last=100).get) == "books"

    def test_a_prior_is_worth_so_many_rows(self):
        chooser = ms.Chooser("ucb", SOURCES, 10, weights=[1, 0, 0], prior=100)
        follow(chooser, 100, lambda draw: (draw.tasks == 2).astype(float))
        tasks = chooser.history()["task"]
        assert (tasks[:50] == 0).mean() > 0.6
        assert 0.3 < (tasks[80:120] == 0).mean() < 0.8
        assert (tasks[-200:] == 2).mean() > 0.6

    @pytest.mark.parametrize(
        ("name", "settings"), [("ucb", {}), ("thompson", {}), ("exp3", {}), ("uniform", {"weights": [4, 1, 1]})]
    )
    def test_weighed_losses_add_up_to_the_wanted_mixture(self, name, settings):
        """The mean of weight · [source] over rows is the mixture, although the rows are not."""
        wanted = np.array([0.2, 0.3, 0.5])
        settings = settings or {"min_share": 0.1}
        chooser = ms.Chooser(name, SOURCES, 6, loss_weights=wanted, **settings)
        draws = follow(chooser, 400, lambda draw: (draw.tasks == 0).astype(float))
        tasks, weights = (np.concatenate([getattr(draw, column) for draw in draws]) for column in ("tasks", "weights"))
        assert_allclose([np.mean(weights * (tasks == task)) for task in range(3)], wanted, atol=0.06)
        assert (tasks == 0).mean() > 0.4


class TestState:
    @pytest.mark.parametrize("name", [*schedulers.names(), "ucb+share", "thompson+weights"])
    def test_goes_on_exactly_where_it_was_with_draws_open(self, name, planned):
        tasks, plan = planned
        word, _, kind = name.partition("+")
        options = {"plan": plan} if word in ("gittins", "mdp") else {}
        options |= {"share": {"min_share": 0.05}, "weights": {"loss_weights": [1, 2, 3], "min_share": 0.1}}.get(
            kind, {}
        )

        def build(seed):
            return ms.Chooser(word, tasks, 5, seed=seed, **options)

        chooser, copy = build(1), build(99)
        follow(chooser, 6)
        waiting = [chooser.ask() for _ in range(3)]
        chooser.tell(waiting[1], rewards_of(waiting[1]))
        stored = fresh(chooser.state_dict())
        copy.load_state_dict(stored)
        same(stored, copy.state_dict())
        assert seen(copy.open()) == seen([waiting[0], waiting[2]])
        assert [draw.weights.tolist() for draw in copy.open()] == [draw.weights.tolist() for draw in chooser.open()]
        for one in (chooser, copy):
            late = one.open()
            one.tell(late[1], rewards_of(late[1]))
            one.tell(late[0], rewards_of(late[0]))
        assert seen(follow(chooser, 12)) == seen(follow(copy, 12))
        same(chooser.state_dict(), copy.state_dict())

    def test_goes_on_exactly_after_sources_came_and_went_with_draws_open(self):
        chooser = ms.Chooser("thompson", SOURCES, 6, seed=3)
        follow(chooser, 10)
        early = [chooser.ask(), chooser.ask()]
        chooser.add_source("forum", 50)
        follow(chooser, 5)
        chooser.remove_source("books")
        chooser.tell(early[1], rewards_of(early[1]))
        follow(chooser, 5)
        copy = ms.Chooser("thompson", {**SOURCES, "forum": 50}, 6)
        copy.load_state_dict(fresh(chooser.state_dict()))
        assert copy.sources == {"web": 40, "code": 30, "forum": 50}
        for one in (chooser, copy):
            one.tell(one.open()[0], rewards_of(early[0]))
        assert seen(follow(chooser, 20)) == seen(follow(copy, 20))
        same(chooser.state_dict(), copy.state_dict())

    def test_a_scheduler_made_anew_knows_the_sources_that_are_left(self):
        chooser = ms.Chooser("ucb", SOURCES, 7)
        draws = follow(chooser, 30)
        chooser.remove_source("books")
        visits, mean = (chooser.state_dict()["arrays"][f"scheduler.inner.{name}"] for name in ("visits", "mean"))
        for arm, task in enumerate((0, 2)):
            told = np.concatenate([rewards_of(draw)[draw.tasks == task] for draw in draws])
            assert visits[arm] == len(told)
            assert_allclose(mean[arm], told.mean(), rtol=1e-4, atol=1e-6)
        assert "books" not in set(np.concatenate([draw.sources for draw in follow(chooser, 10)]))

    def test_a_state_loads_into_a_chooser_with_other_sources(self):
        old = ms.Chooser("thompson", SOURCES, 6, seed=3)
        follow(old, 40, lambda draw: (draw.sources == "code") + 0.01 * np.arange(6))
        waiting = old.ask()
        new = ms.Chooser("thompson", {"forum": 20, "code": 30, "web": 40}, 6)
        new.load_state_dict(fresh(old.state_dict()))
        (still,) = new.open()
        assert seen([still]) == seen([waiting])
        new.tell(still, 0.5)
        draws = follow(new, 30, lambda draw: (draw.sources == "code") + 0.01 * np.arange(6))
        assert "forum" in draws[0].sources
        assert new.shares(last=20)["code"] > 0.5
        assert "books" not in set(np.concatenate([draw.sources for draw in draws]))

    @pytest.mark.parametrize(
        ("part", "name", "spoil", "message"),
        [
            ("arrays", "asked", lambda old: old - 5, "a draw comes from an unknown source"),
            ("arrays", "asked", lambda old: old.ravel(), r"'asked' is not an array of int32 \(7, 3\)"),
            ("arrays", "rewards", lambda old: old.astype(np.float64), "'rewards' is not an array of float32"),
            ("arrays", "open.tasks", lambda old: old[:, :2], r"'open.tasks' is not an array of int64 \(1, 3\)"),
            ("facts", "batch_size", lambda old: 2**70, "damaged|the state has batch_size"),
            (
                "facts",
                "batching",
                lambda old: "per_source",
                "the state has batching 'per_source', this chooser 'mixed'",
            ),
            ("facts", "batching", lambda old: 3, "Expected `str`, got `int`"),
        ],
    )
    def test_a_damaged_one_is_refused_whole(self, part, name, spoil, message):
        chooser = ms.Chooser("ucb", SOURCES, 3)
        follow(chooser, 6)
        chooser.ask()
        good = chooser.state_dict()
        with pytest.raises(ConfigError, match=message):
            chooser.load_state_dict({**good, part: {**good[part], name: spoil(good[part][name])}})
        same(good, chooser.state_dict())


class TestLongRuns:
    @pytest.fixture
    def chooser(self, monkeypatch):
        """One that has dropped its first draws: the window is 40 rows."""
        monkeypatch.setattr(history_module, "WINDOW", 40)
        chooser = ms.Chooser("thompson", SOURCES, 4, seed=1)
        return chooser, follow(chooser, 33)

    def test_a_state_stays_small_and_counts_everything(self, chooser):
        chooser, draws = chooser
        arrays = chooser.state_dict()["arrays"]
        assert arrays["asked"].shape[0] <= 10
        counts = Counter(np.concatenate([draw.sources for draw in draws]))
        assert {name: chooser.log()[f"draws/{name}"] for name in SOURCES} == counts
        assert chooser.shares() == {name: counts[name] / (33 * 4) for name in SOURCES}
        history = chooser.history()
        assert history["id"][-1] == 32
        assert_allclose(history["reward"][-4:], rewards_of(draws[-1]))

    def test_a_draw_that_left_the_window_may_be_told_and_stored(self, chooser):
        chooser, _ = chooser
        late = chooser.ask()
        follow(chooser, 30)
        copy = ms.Chooser("thompson", SOURCES, 4)
        copy.load_state_dict(fresh(chooser.state_dict()))
        assert seen(copy.open()) == seen([late])
        for one in (chooser, copy):
            one.tell(one.open()[0], rewards_of(late))
        assert seen(follow(chooser, 20)) == seen(follow(copy, 20))
        same(chooser.state_dict(), copy.state_dict())

    def test_no_row_is_given_twice(self, chooser):
        chooser, draws = chooser
        rows = np.concatenate([draw.by_source["web"].rows for draw in draws if "web" in draw.by_source])
        assert len(set(rows[:40].tolist())) == min(40, len(rows))

    def test_a_full_window_is_some_megabytes(self):
        chooser = ms.Chooser("uniform", {"a": 10_000, "b": None}, 4096)
        for _ in range(300):
            chooser.tell(chooser.ask(), 0.0)
        assert sum(values.nbytes for values in chooser.state_dict()["arrays"].values()) < 14e6


def test_shares_and_log_count_rows_of_the_last_draws():
    chooser = ms.Chooser("cyclic", SOURCES, 4)
    follow(chooser, 3, lambda draw: 0.5 * draw.tasks)
    assert chooser.shares() == {"web": 4 / 12, "books": 4 / 12, "code": 4 / 12}
    assert chooser.shares(last=1) == {"web": 0.25, "books": 0.25, "code": 0.5}
    assert chooser.log(last=1) == {
        "share/web": 0.25,
        "share/books": 0.25,
        "share/code": 0.5,
        "reward/web": 0.0,
        "reward/books": 0.5,
        "reward/code": 1.0,
        "draws/web": 4.0,
        "draws/books": 4.0,
        "draws/code": 4.0,
    }
    assert chooser.history()["id"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
