"""Batches of one source: the same choices as a compiled loop, whatever order the tells come in, and across a kill."""

import json
import signal
import subprocess
import sys
import threading
from functools import lru_cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from helpers import made, make_tasks
from metasched import schedulers
from metasched.errors import ConfigError
from metasched.schedulers.base import Scheduler
from metasched.tasks.cursors import CURSORS, advance, labels_at, starts_of

SIZES = [7, 12, 5, 9]
Chooser = partial(ms.Chooser, batching="per_source")


@lru_cache
def built(name):
    """One scheduler of each name, so that what one test has compiled serves the next."""
    return made(name, 4)


@pytest.fixture(scope="module")
def planned():
    """Tasks and a plan for them that thinks in batches of five rows."""
    tasks = make_tasks(sizes=(41, 50, 33))
    return tasks, ms.plan(tasks, learner=ms.Joint(batch_size=5))


def reward_of(draw):
    return float(np.sin(3 * draw.task + 0.7 * draw.id))


def follow(chooser, steps):
    taken = []
    for _ in range(steps):
        draw = chooser.ask()
        chooser.tell(draw, reward_of(draw))
        taken.append(draw.task)
    return taken


def same(one, other):
    assert one["facts"] == other["facts"]
    assert one["arrays"].keys() == other["arrays"].keys()
    for name, values in one["arrays"].items():
        assert values.dtype == other["arrays"][name].dtype
        assert values.tobytes() == other["arrays"][name].tobytes(), name


@pytest.mark.parametrize("cursor", CURSORS)
@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in schedulers.names()), ("gittins", {"refresh": 0}), ("mdp", {"refresh": 0})],
)
def test_in_lock_step_the_choices_are_those_of_the_compiled_loop(name, options, cursor, planned):
    tasks, plan = planned
    scheduler = schedulers.make(name, num_tasks=3, plan=plan, **options)
    sizes = jnp.asarray(tasks.sizes)
    rows, starts = jnp.concatenate([jnp.asarray(task.labels) for task in tasks.tasks]), starts_of(sizes)
    rewards = np.sin(3 * np.arange(3) + 0.7 * np.arange(60)[:, None]).astype(np.float32)

    @jax.jit
    def compiled():
        def step(carry, row):
            state, cursors = carry
            labels = labels_at(rows, starts, cursors)
            task = scheduler.select(state, labels)
            state = scheduler.update(state, labels, task, row[task])
            return (state, advance(cursors, sizes, task, 8, cursor)), task

        return jax.lax.scan(step, (scheduler.init(jax.random.key(5)), jnp.zeros_like(sizes)), rewards)[1]

    assert follow(Chooser(scheduler, tasks, 8, seed=5, cursor=cursor), 60) == compiled().tolist()


class TestRows:
    def test_follow_one_another_and_wrap_round(self):
        chooser = Chooser("single", [7], 3, shuffle=False)
        rows = [chooser.ask().rows for _ in range(3)]
        assert [row.tolist() for row in rows] == [[0, 1, 2], [3, 4, 5], [6, 0, 1]]
        assert all(row.dtype == np.int64 for row in rows)

    def test_a_task_smaller_than_a_batch_repeats_its_rows(self):
        with pytest.warns(UserWarning, match=r"fewer rows than the 5 that .* so rows repeat: '1' \(2\)") as warned:
            chooser = Chooser("single", [2, 9], 5, shuffle=False)
        assert [chooser.ask().rows.tolist() for _ in range(2)] == [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1]]
        assert len(warned) == 1

    def test_rested_cursors_wait_and_global_ones_all_move(self):
        for cursor, expected in (("rested", [0, 0, 3]), ("global", [0, 3, 6])):
            chooser = Chooser("cyclic", [20, 20], 3, cursor=cursor, shuffle=False)
            assert [int(chooser.ask().rows[0]) for _ in range(3)] == expected

    def test_rows_of_a_stream_are_counted_and_streams_need_only_their_number(self):
        for sources in (2, [None, None], {"a": None, "b": None}):
            chooser = Chooser("cyclic", sources, 2)
            assert chooser.sizes == (None, None)
            assert [chooser.ask().rows.tolist() for _ in range(3)] == [[0, 1], [0, 1], [2, 3]]

    def test_abstaining_is_a_draw_of_no_rows_that_moves_nothing(self):
        chooser = Chooser("cyclic", [10, 10], 2, abstain=True, cursor="global", shuffle=False)
        draws = [chooser.ask() for _ in range(4)]
        assert [draw.task for draw in draws] == [0, 1, 2, 0]
        assert [draw.rows.tolist() for draw in draws] == [[0, 1], [2, 3], [], [4, 5]]

    def test_ucb_abstains_when_every_source_pays_less_than_none(self):
        chooser = Chooser("ucb", SIZES, 3, abstain=True)
        for _ in range(100):
            draw = chooser.ask()
            chooser.tell(draw, 0.5 if draw.task == len(SIZES) else 0.4 + 0.01 * np.sin(draw.id))
        assert (chooser.history()["task"] == len(SIZES)).mean() > 0.6

    def test_the_scheduler_sees_the_labels_under_the_cursors(self, tasks):
        highest = Scheduler(lambda key: jnp.int32(0), lambda state, labels: jnp.argmax(labels), lambda state, *_: state)
        by_set = Chooser(highest, tasks, 4)
        by_labels = Chooser(highest, tasks.sizes, 4, labels=[task.labels for task in tasks.tasks])
        cursors = [0, 0, 0]
        for _ in range(10):
            labels = [task.labels[cursor] for task, cursor in zip(tasks.tasks, cursors, strict=True)]
            draw = by_set.ask()
            assert draw.task == by_labels.ask().task == int(np.argmax(labels))
            cursors[draw.task] = (cursors[draw.task] + 4) % tasks.sizes[draw.task]


class TestSeveralOpenDraws:
    @pytest.mark.parametrize(("name", "expected"), [("cyclic", [0, 1, 2, 3, 0]), ("sequential", [0, 0, 1, 1, 1])])
    def test_static_schedulers_move_on(self, name, expected):
        chooser = Chooser(name, [6, 9, 3, 3], 3)
        first = [chooser.ask() for _ in range(3)]
        chooser.tell(first[2], 0.0)
        chooser.tell(first[0], 1.0)
        assert [draw.task for draw in (*first, chooser.ask(), chooser.ask())] == expected

    def test_random_schedulers_draw_anew_and_what_is_drawn_does_not_depend_on_the_tells(self):
        ahead = Chooser(built("uniform"), SIZES, 3, seed=2)
        assert [ahead.ask().task for _ in range(30)] == follow(Chooser(built("uniform"), SIZES, 3, seed=2), 30)

    def test_ucb_first_takes_one_of_each_and_then_spreads_what_it_does_not_know(self):
        chooser = Chooser(built("ucb"), SIZES, 3)
        assert [chooser.ask().task for _ in range(4)] == [0, 1, 2, 3]
        more = [chooser.ask().task for _ in range(8)]
        assert np.bincount(more, minlength=4).tolist() == [2, 2, 2, 2]

    def test_more_draws_than_notes_fit(self):
        chooser = Chooser(built("cyclic"), SIZES, 3)
        draws = [chooser.ask() for _ in range(150)]
        assert [draw.task for draw in draws] == [number % 4 for number in range(150)]
        for draw in draws:
            chooser.tell(draw, 0.5)
        assert chooser.ask().task == 150 % 4

    def test_the_same_calls_give_the_same_state_and_the_order_of_tells_is_what_counts(self):
        def run(order):
            chooser = Chooser(built("discounted_ucb"), SIZES, 3)
            draws = [chooser.ask() for _ in range(4)]
            for number in order:
                chooser.tell(draws[number], reward_of(draws[number]))
            return chooser

        one, again, other = run([2, 0, 3, 1]), run([2, 0, 3, 1]), run([0, 1, 2, 3])
        states = [chooser.state_dict() for chooser in (one, again, other)]
        names = [name for name in states[0]["arrays"] if name.startswith("scheduler")]
        assert all(np.array_equal(states[0]["arrays"][name], states[1]["arrays"][name]) for name in names)
        assert not all(np.array_equal(states[0]["arrays"][name], states[2]["arrays"][name]) for name in names)
        assert one.ask().task == again.ask().task

    def test_a_forgotten_draw_leaves_no_trace_in_the_scheduler(self):
        chooser = Chooser(built("ucb"), SIZES, 3)
        chooser.forget(chooser.ask())
        assert chooser.ask().task == 0
        assert len(chooser.open()) == 1


class TestLabelsOfDraws:
    """A reward is credited to the labels that stood at the cursors when its draw was made."""

    def chooser(self, planned, batch_size=5, **options):
        tasks, plan = planned
        return Chooser(schedulers.gittins(3, plan=plan, forget=1.0), tasks, batch_size, **options)

    def first_labels(self, planned, draws):
        """How often each task and label (N, C) stood at the first row of a draw."""
        times = np.zeros((3, 3))
        for draw in draws:
            times[draw.task, planned[0].tasks[draw.task].labels[draw.rows[0]]] += 1
        return times

    def credited(self, chooser):
        return chooser.state_dict()["arrays"]["scheduler.weights"]

    def drawn(self, chooser, steps):
        """Draws told at once."""
        draws = []
        for _ in range(steps):
            draws.append(chooser.ask())
            chooser.tell(draws[-1], reward_of(draws[-1]))
        return draws

    @pytest.mark.parametrize("cursor", CURSORS)
    def test_whatever_batch_the_plan_was_made_for(self, planned, cursor):
        chooser = self.chooser(planned, batch_size=8, cursor=cursor)
        draws = self.drawn(chooser, 20)
        np.testing.assert_array_equal(self.credited(chooser), self.first_labels(planned, draws))

    def test_after_a_draw_was_given_up(self, planned):
        chooser = self.chooser(planned)
        chooser.forget(chooser.ask())
        draws = self.drawn(chooser, 20)
        np.testing.assert_array_equal(self.credited(chooser), self.first_labels(planned, draws))

    def test_when_the_last_of_three_open_draws_is_told_first(self, planned):
        chooser = self.chooser(planned, cursor="global")
        draws = [chooser.ask() for _ in range(3)]
        chooser.tell(draws[2], 0.5)
        np.testing.assert_array_equal(self.credited(chooser), self.first_labels(planned, draws[2:]))

    def test_after_the_draw_travelled_in_a_stored_state(self, planned):
        chooser, other = self.chooser(planned), self.chooser(planned)
        draws = [*self.drawn(chooser, 7), *(chooser.ask() for _ in range(3))]
        stored = chooser.state_dict()
        other.load_state_dict({"facts": json.loads(json.dumps(stored["facts"])), "arrays": stored["arrays"]})
        waiting = other.open()
        for number in (2, 0, 1):
            other.tell(waiting[number], 0.5)
        np.testing.assert_array_equal(self.credited(other), self.first_labels(planned, draws))

    def test_against_the_labels_that_the_other_tasks_showed_then(self, planned):
        tasks, plan = planned
        chooser = Chooser(schedulers.mdp(3, plan=plan, forget=1.0), tasks, 8)
        cursors, waiting, met = [0, 0, 0], [], np.zeros((3, 3, 3))
        for number in range(15):
            labels = [int(own.labels[row]) for own, row in zip(tasks.tasks, cursors, strict=True)]
            draw = chooser.ask()
            waiting.append((draw, labels))
            cursors[draw.task] = (int(draw.rows[-1]) + 1) % tasks.sizes[draw.task]
            if number % 3 == 2:
                draw, labels = waiting.pop(number // 3 % 3)
                chooser.tell(draw, reward_of(draw))
                for label in labels:
                    met[draw.task, labels[draw.task], label] += 1
        np.testing.assert_array_equal(self.credited(chooser), met)

    def test_open_draws_count_with_their_own_labels(self):
        """A scheduler whose choice is how often label 1 was told: with two draws open, as often as those met it."""
        often = Scheduler(
            lambda key: jnp.int32(0), lambda state, labels: state, lambda state, labels, *_: state + labels[0]
        )
        chooser = Chooser(often, [4, 4, 4], 1, labels=[[1, 0, 1, 0], [0] * 4, [0] * 4], cursor="global")
        assert [chooser.ask().task for _ in range(4)] == [0, 1, 1, 2]


class TestBadInput:
    @pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf, 1e300, "0.5", None, [1.0, 2.0]])
    def test_a_reward_that_is_no_finite_number_changes_nothing(self, reward):
        chooser = Chooser(built("ucb"), SIZES, 3)
        draw = chooser.ask()
        before = chooser.state_dict()
        with pytest.raises(ConfigError, match=r"the reward (is|has)"):
            chooser.tell(draw, reward)
        same(before, chooser.state_dict())
        chooser.tell(draw, 0.5)

    def test_a_draw_is_told_once_and_to_its_own_chooser(self):
        chooser, twin = (Chooser(built("ucb"), SIZES, 3) for _ in range(2))
        draw, stranger = chooser.ask(), twin.ask()
        chooser.tell(draw, 1.0)
        before = chooser.state_dict()
        for wrong, message in (
            (draw, "draw 0 is not open"),
            (stranger, "draw 0 belongs to another chooser"),
            (0, "tell takes a draw"),
        ):
            with pytest.raises(ConfigError, match=message):
                chooser.tell(wrong, 1.0)
        same(before, chooser.state_dict())

    @pytest.mark.parametrize(
        ("sizes", "options", "message"),
        [
            ([5, 0], {}, "size of source '2' is 0; give a whole number from 1 to 9007199254740992"),
            ([], {}, "there are no sources"),
            ([5, 2.5], {}, "size of source '2' is 2.5"),
            (0, {}, "the number of sources is 0"),
            (2.5, {}, "the sources are 2.5; give sizes by name"),
            ("ab", {}, "the sources are 'ab'; give sizes by name"),
            (None, {}, "the sources are None; give sizes by name"),
            (10**12, {}, "the number of sources is 1000000000000; give a whole number from 1 to 100000"),
            ([10**30], {}, "size of source '1' is 10+; give a whole number"),
            (SIZES, {"batch_size": 2**40}, "batch_size is 1099511627776; give a whole number from 1 to 16777216"),
            (SIZES, {"batch_size": 0}, "batch_size is 0"),
            (SIZES, {"seed": -1}, "seed is -1"),
            (SIZES, {"cursor": "global_"}, "unknown cursor 'global_'; did you mean 'global'"),
            (SIZES, {"xi": 0.5}, "xi is 0.5"),
            (SIZES, {"labels": [[0, 1]]}, "labels do not fit"),
        ],
    )
    def test_settings_that_cannot_work_are_refused(self, sizes, options, message):
        with pytest.raises(ConfigError, match=message):
            Chooser("ucb", sizes, **options)

    def test_a_scheduler_is_a_name_or_one_that_is_made(self):
        with pytest.raises(ConfigError, match="the scheduler is 3; give a name or a Scheduler"):
            Chooser(3, SIZES)
        with pytest.raises(ConfigError, match="last is 0; give a whole number ≥ 1"):
            Chooser("ucb", SIZES).log(last=0)

    def test_options_need_a_name(self):
        with pytest.raises(ConfigError, match="options \\['xi'\\] need a scheduler given by name"):
            Chooser(schedulers.cyclic(4), SIZES, xi=2.0)


class TestState:
    @pytest.mark.parametrize("name", schedulers.names())
    def test_goes_on_exactly_where_it_was_with_draws_open(self, name):
        scheduler = built(name)
        chooser = Chooser(scheduler, SIZES, 3, seed=1)
        follow(chooser, 9)
        waiting = [chooser.ask(), chooser.ask()]
        stored = chooser.state_dict()
        copy = Chooser(scheduler, SIZES, 3, seed=99)
        copy.load_state_dict({"facts": json.loads(json.dumps(stored["facts"])), "arrays": stored["arrays"]})
        same(stored, copy.state_dict())
        assert [draw.rows.tolist() for draw in copy.open()] == [draw.rows.tolist() for draw in waiting]
        for one, draws in ((chooser, waiting), (copy, copy.open())):
            one.tell(draws[1], 0.25)
            one.tell(draws[0], 0.75)
        assert follow(chooser, 20) == follow(copy, 20)
        same(chooser.state_dict(), copy.state_dict())

    def test_what_does_not_fit_is_refused_and_changes_nothing(self):
        chooser = Chooser(built("ucb"), SIZES, 3)
        follow(chooser, 6)
        good = chooser.state_dict()
        for other, message in (
            (Chooser(built("ucb"), [*SIZES, 4], 3), "the state has sizes"),
            (Chooser(built("ucb"), SIZES, 4), "the state has batch_size 4, this chooser 3"),
            (Chooser(built("uniform"), SIZES, 3), "another scheduler"),
            (Chooser("thompson", SIZES, 3), "the state has scheduler 'thompson', this chooser 'own'"),
            (Chooser(built("ucb"), SIZES, 3, shuffle=False), "the state has shuffle False, this chooser True"),
        ):
            with pytest.raises(ConfigError, match=message):
                chooser.load_state_dict(other.state_dict())
        with pytest.raises(
            ConfigError, match="the state has format 1, but this version reads 3 and 4; start a new chooser"
        ):
            chooser.load_state_dict({**good, "facts": {**good["facts"], "format": 1}})
        for nothing in ({}, None, {"facts": {}}, {"facts": 3, "arrays": {}}):
            with pytest.raises(ConfigError, match="not a state from state_dict"):
                chooser.load_state_dict(nothing)
        same(good, chooser.state_dict())

    def test_other_options_are_named(self):
        state = Chooser("ucb", SIZES, 3, xi=1.5).state_dict()
        with pytest.raises(ConfigError, match=r"the state has options {'xi': 1.5}, this chooser {}"):
            Chooser("ucb", SIZES, 3).load_state_dict(state)
        with pytest.raises(ConfigError, match=r"the state has min_share 0.0, this chooser 0.1"):
            Chooser("ucb", SIZES, 3, xi=1.5, min_share=0.1).load_state_dict(state)

    @pytest.mark.parametrize(
        ("part", "name", "spoil", "message"),
        [
            ("facts", "open", lambda old: [99], "an open draw was never made"),
            ("facts", "open", lambda old: [0], "an open draw already has a reward"),
            ("facts", "open", lambda old: [True], r"Expected `int`, got `bool` - at `\$.open"),
            ("facts", "first", lambda old: 3, "an open draw has another source|an open draw already has a reward"),
            ("facts", "told", lambda old: 2, "a draw has a rank beyond the last one"),
            ("arrays", "open.weights", lambda old: old * np.nan, "a loss weight is not finite"),
            ("arrays", "open.positions", lambda old: old - 10**6, "a position is out of range"),
            ("arrays", "open.tasks", lambda old: old + 9, "an open draw comes from an unknown source"),
            ("arrays", "open.tasks", lambda old: (old + 1) % 4, "an open draw has another source"),
            ("arrays", "drawn", lambda old: old + 1, "its sums do not fit its draws"),
            ("arrays", "tells", lambda old: old[::-1].copy(), "its sums do not fit its rewards"),
            ("arrays", "totals", lambda old: old + np.inf, "a reward is not finite"),
            ("arrays", "recent", lambda old: old + np.inf, "a reward is not finite"),
            ("facts", "sources", lambda old: old[:1], r"'drawn' is not an array of int64 \(2,\)"),
            ("facts", "sources", lambda old: [["1", -7, False], *old[1:]], r"Expected `int` >= 1 - at `\$.sources"),
            ("facts", "sources", lambda old: [old[0], old[0], *old[2:]], "two sources have the same name"),
            ("facts", "seed", lambda old: -1, r"Expected `int` >= 0 - at `\$.seed`"),
            ("facts", "sources", lambda old: [["1", 10**30, False], *old[1:]], "the state is damaged"),
            ("facts", "sources", lambda old: [["1"], *old[1:]], "the state is damaged"),
            ("facts", "changes", lambda old: "two", r"Expected `int`, got `str` - at `\$.changes`"),
            ("facts", "options", lambda old: {"xi": np.zeros(3)}, "the state has options"),
            ("facts", "batch_size", lambda old: np.zeros(3), "the state is damaged"),
            ("facts", "unheard of", lambda old: 1, "contains unknown field `unheard of`"),
            ("arrays", "asked", lambda old: old * 0 - 1, "a draw comes from an unknown source"),
            ("arrays", "heard", lambda old: old * 0 + 1e200, "a reward is not finite"),
            ("arrays", "asked", lambda old: old - 5, "a draw comes from an unknown source"),
            ("arrays", "asked", lambda old: old.astype(float), r"'asked' is not an array of int32 \(7, 1\)"),
            ("arrays", "told", lambda old: old + 100, "a draw has a rank beyond the last one"),
            ("arrays", "told", lambda old: np.minimum(old, 0), "two draws have the same rank"),
            ("arrays", "told", lambda old: old[:2], r"'asked' is not an array of int32 \(2, 1\)"),
            ("arrays", "rewards", lambda old: old * np.nan, "the numbers of draws and rewards differ"),
            ("arrays", "heard", lambda old: old + np.inf, "a reward is not finite"),
            ("arrays", "scheduler.mean", lambda old: old * np.float32(np.nan), "'scheduler.mean' contains NaN"),
            ("arrays", "scheduler.mean", lambda old: old[:2], "float32 \\(4,\\) in this scheduler"),
            ("arrays", "scheduler.mean", lambda old: old.astype(np.float64), "'scheduler.mean' is float64"),
        ],
    )
    def test_a_damaged_state_is_refused_whole(self, part, name, spoil, message):
        chooser = Chooser(built("ucb"), SIZES, 3, seed=1)
        follow(chooser, 6)
        chooser.ask()
        good = chooser.state_dict()
        damaged = {**good, part: {**good[part], name: spoil(good[part].get(name))}}
        with pytest.raises(ConfigError, match=message):
            chooser.load_state_dict(damaged)
        same(good, chooser.state_dict())

    @pytest.mark.slow
    def test_another_process_killed_with_sigkill_is_continued_to_the_bit(self, tmp_path):
        code = """
            import json, sys, time
            from pathlib import Path
            import numpy as np
            import metasched as ms
            chooser = ms.Chooser("thompson", [7, 12, 5, 9], 3, seed=4, batching="per_source")
            for step in range(10_000):
                draw = chooser.ask()
                if step == 25:
                    state = chooser.state_dict()
                    np.savez(sys.argv[1] + ".npz", **state["arrays"])
                    Path(sys.argv[1] + ".json").write_text(json.dumps(state["facts"]))
                    print("stored", flush=True)
                    time.sleep(3600)
                chooser.tell(draw, float(np.sin(3 * draw.task + 0.7 * draw.id)))
        """
        code = "\n".join(line[12:] for line in code.splitlines())
        with subprocess.Popen(
            [sys.executable, "-c", code, tmp_path / "state"], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout.readline() == "stored\n"
            process.send_signal(signal.SIGKILL)
        with np.load(tmp_path / "state.npz", allow_pickle=False) as arrays:
            stored = {"facts": json.loads((tmp_path / "state.json").read_text()), "arrays": dict(arrays)}
        continued = Chooser("thompson", [7, 12, 5, 9], 3)
        continued.load_state_dict(stored)
        (draw,) = continued.open()
        continued.tell(draw, reward_of(draw))
        follow(continued, 14)
        whole = Chooser("thompson", [7, 12, 5, 9], 3, seed=4)
        follow(whole, 40)
        for name, values in whole.state_dict()["arrays"].items():
            assert values.tobytes() == continued.state_dict()["arrays"][name].tobytes(), name


def test_history_has_every_draw_as_columns():
    chooser = Chooser(built("cyclic"), SIZES, 3)
    first, second, _ = chooser.ask(), chooser.ask(), chooser.ask()
    chooser.tell(second, 0.5)
    chooser.tell(first, -1.0)
    history = chooser.history()
    assert history["id"].tolist() == [0, 1, 2]
    assert history["task"].tolist() == [0, 1, 2]
    np.testing.assert_array_equal(history["reward"], [-1.0, 0.5, np.nan])
    assert history["told"].tolist() == [1, 0, -1]


def test_threads_share_one_chooser():
    chooser = Chooser(built("ucb"), SIZES, 3)

    def work():
        for _ in range(50):
            draw = chooser.ask()
            chooser.tell(draw, reward_of(draw))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = chooser.history()
    assert history["id"].tolist() == list(range(200))
    assert sorted(history["told"].tolist()) == list(range(200))
    assert chooser.open() == ()


def test_a_state_that_an_earlier_version_stored_goes_on_with_the_same_draws():
    stored = json.loads(Path(__file__).with_name("state_format_3.json").read_text())
    arrays = {name: np.array(one["values"], one["dtype"]) for name, one in stored["arrays"].items()}
    weights = {"web": 2.0, "books": 1.0, "code": 1.0}
    chooser = Chooser("thompson", {"web": 1000, "books": 50, "code": None}, 4, min_share=0.05, weights=weights)
    chooser.remove_source("code")
    chooser.add_source("new", 30)
    chooser.load_state_dict({"facts": stored["facts"], "arrays": arrays})
    again = chooser.state_dict()
    for name, values in arrays.items():
        if name.startswith("scheduler"):
            np.testing.assert_array_equal(again["arrays"][name], values, err_msg=name)
    np.testing.assert_array_equal(chooser.history()["reward"][arrays["told"]], arrays["rewards"])
    np.testing.assert_array_equal(again["arrays"]["heard"][arrays["told"], 0], arrays["heard"])
    found = []
    for number in range(6):
        draw = chooser.ask()
        found.append([draw.source, draw.rows.tolist()])
        if number % 2:
            chooser.tell(draw, 0.25)
    assert found == stored["next"]


def test_a_state_of_batches_of_one_source_is_none_of_mixed_ones():
    stored = json.loads(Path(__file__).with_name("state_format_3.json").read_text())
    arrays = {name: np.array(one["values"], one["dtype"]) for name, one in stored["arrays"].items()}
    mixed = ms.Chooser("thompson", {"web": 1000, "books": 50, "code": None}, 4, min_share=0.05)
    message = "the state has batching 'per_source', this chooser 'mixed'; give batching='per_source'"
    with pytest.raises(ConfigError, match=message):
        mixed.load_state_dict({"facts": stored["facts"], "arrays": arrays})
