"""Choosers for practice: names, shuffling, shares, weights, sources that come and go, outliers, logs."""

import json
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

import metasched as ms
from helpers import make_tasks
from metasched.errors import ConfigError
from metasched.learners import reference_results

Chooser = partial(ms.Chooser, batching="per_source")
SOURCES = {"web": 40, "books": 12, "code": 30}


def follow(chooser, steps, reward_of=lambda draw: 0.0):
    draws = []
    for _ in range(steps):
        draws.append(chooser.ask())
        chooser.tell(draws[-1], reward_of(draws[-1]))
    return draws


def fresh(stored):
    """A state that has been to a file and back."""
    return {"facts": json.loads(json.dumps(stored["facts"])), "arrays": stored["arrays"]}


class TestNamesAndRows:
    def test_a_draw_says_its_source(self):
        chooser = Chooser("cyclic", SOURCES, 4)
        assert [chooser.ask().source for _ in range(4)] == ["web", "books", "code", "web"]
        assert chooser.sources == SOURCES
        assert Chooser("cyclic", make_tasks(), 4).ask().source == "task-0"
        assert Chooser("single", SOURCES, 4, task="code").ask().source == "code"

    def test_rows_are_shuffled_unless_told_and_every_pass_has_all_of_them(self):
        rows = np.concatenate([draw.rows for draw in follow(Chooser("single", {"a": 10}, 4), 5)])
        one, other = rows[:10].tolist(), rows[10:].tolist()
        assert sorted(one) == sorted(other) == list(range(10))
        assert one != other != sorted(other)
        plain = Chooser("single", {"a": 10}, 4, shuffle=False)
        assert np.concatenate([draw.rows for draw in follow(plain, 5)]).tolist() == [*range(10)] * 2

    def test_a_resumed_chooser_goes_on_in_the_same_order(self):
        whole, first = (Chooser("uniform", SOURCES, 5, seed=7) for _ in range(2))
        expected = [draw.rows.tolist() for draw in follow(whole, 30)]
        seen = [draw.rows.tolist() for draw in follow(first, 13)]
        second = Chooser("uniform", SOURCES, 5, seed=1)
        second.load_state_dict(fresh(first.state_dict()))
        assert seen + [draw.rows.tolist() for draw in follow(second, 17)] == expected

    def test_what_looks_at_labels_keeps_the_order_and_refuses_another(self):
        tasks = make_tasks()
        plan = ms.plan(tasks, learner=ms.Joint(batch_size=4))
        chooser = Chooser("gittins", tasks, 4, plan=plan)
        assert chooser.ask().rows.tolist() == [0, 1, 2, 3]
        with pytest.raises(
            ConfigError,
            match="'gittins' with labels looks at the next label, so rows must keep their order; give shuffle=False",
        ):
            Chooser("gittins", tasks, 4, plan=plan, shuffle=True)
        with pytest.raises(ConfigError, match="'gittins' was made for a fixed set of sources"):
            chooser.remove_source("task-0")

    def test_target_only_draws_nothing(self):
        chooser = Chooser("target-only", SOURCES, 4)
        draws = follow(chooser, 3)
        assert [(draw.task, draw.source, len(draw.rows)) for draw in draws] == [(3, None, 0)] * 3
        assert chooser.shares() == {"web": 0, "books": 0, "code": 0}

    def test_auto_is_what_did_best_in_our_results(self):
        assert (
            Chooser("auto", SOURCES, 4).scheduler == reference_results.best("joint") == reference_results.best("meta")
        )


class TestProportions:
    def shares(self, steps=600, **settings):
        chooser = Chooser("uniform", SOURCES, 2, **settings)
        follow(chooser, steps)
        return np.array(list(chooser.shares().values()))

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({"weights": {"web": 6, "books": 1, "code": 3}}, [0.6, 0.1, 0.3]),
            ({"weights": [1, 0, 1]}, [0.5, 0, 0.5]),
            ({"temperature": 1}, [40 / 82, 12 / 82, 30 / 82]),
            ({"temperature": 1e9}, [1 / 3, 1 / 3, 1 / 3]),
            ({"weights": [16, 1, 1], "temperature": 2}, [4 / 6, 1 / 6, 1 / 6]),
        ],
    )
    def test_static_mixing_by_weight_and_temperature(self, settings, expected):
        assert_allclose(self.shares(**settings), expected, atol=0.06)

    def test_a_share_is_kept_for_every_source_whatever_its_rewards(self):
        for name in ("ucb", "exp3", "thompson"):
            chooser = Chooser(name, SOURCES, 2, min_share=0.15)
            follow(chooser, 600, lambda draw: float(draw.task == 1))
            shares = chooser.shares()
            assert min(shares.values()) > 0.1, name
            assert shares["books"] > 0.5, name

    def test_weights_lead_at_first_and_rewards_in_the_end(self):
        chooser = Chooser("ucb", SOURCES, 2, weights=[1, 0, 0], prior=100)
        follow(chooser, 1000, lambda draw: float(draw.task == 2))
        tasks = chooser.history()["task"]
        assert (tasks[:60] == 0).mean() > 0.6
        assert (tasks[-200:] == 2).mean() > 0.7

    @pytest.mark.parametrize(
        ("name", "settings"), [("ucb", {}), ("thompson", {}), ("exp3", {}), ("uniform", {"weights": [4, 1, 1]})]
    )
    def test_weighed_losses_add_up_to_the_wanted_mixture(self, name, settings):
        """The mean of weight · [source] over draws is the mixture, although the draws are not."""
        wanted = np.array([0.2, 0.3, 0.5])
        settings = settings or {"min_share": 0.1}
        chooser = Chooser(name, SOURCES, 2, loss_weights=dict(zip(SOURCES, wanted, strict=True)), **settings)
        draws = follow(chooser, 3000, lambda draw: float(draw.task == 0))
        mean = [np.mean([draw.weight * (draw.task == task) for draw in draws]) for task in range(3)]
        assert_allclose(mean, wanted, atol=0.06)
        assert np.mean([draw.task == 0 for draw in draws]) > 0.4

    def test_softmax_keeps_the_temperature_that_is_its_own(self):
        stored = Chooser("softmax", SOURCES, 2, temperature=0.1).state_dict()["facts"]
        assert (stored["options"], stored["temperature"]) == ({"temperature": 0.1}, None)

    def test_without_loss_weights_every_draw_weighs_one(self):
        assert {draw.weight for draw in follow(Chooser("uniform", SOURCES, 2, weights=[3, 1, 1]), 20)} == {1.0}

    @pytest.mark.parametrize(
        ("name", "settings", "message"),
        [
            ("cyclic", {"weights": [1, 1, 1]}, "'cyclic' has its own order"),
            (
                "uniform",
                {"weights": [1, 1]},
                "weights are \\[1, 1\\]; give one number for each source: web, books, code",
            ),
            ("uniform", {"weights": {"web": 1}}, "give one number for each source"),
            ("uniform", {"weights": [0, 0, 0]}, "the weights are all 0"),
            ("uniform", {"weights": [1, -1, 1]}, "weights of 'books' is -1"),
            ("uniform", {"temperature": 0}, "temperature is 0"),
            ("ucb", {"min_share": 0.4}, "min_share is 0.4; 3 sources have at most 0.33"),
            ("ucb", {"loss_weights": [1, 1, 1]}, "loss_weights need a positive probability"),
            ("exp3", {"weights": [1, 1, 1]}, "'exp3' must know the probability of every draw"),
            ("target-only", {"xi": 2.0}, "takes no options: leave out xi"),
        ],
    )
    def test_settings_that_cannot_work_are_refused(self, name, settings, message):
        with pytest.raises(ConfigError, match=message):
            Chooser(name, SOURCES, 2, **settings)

    def test_a_stream_has_no_size_for_a_temperature(self):
        with pytest.raises(ConfigError, match="source 'b' is a stream without a size, so temperature needs weights"):
            Chooser("uniform", {"a": 3, "b": None}, 2, temperature=2)


class TestSourcesThatComeAndGo:
    def test_a_new_source_is_tried_and_what_was_learned_stays(self):
        chooser = Chooser("ucb", SOURCES, 4)
        follow(chooser, 100, lambda draw: float(draw.source == "web"))
        chooser.add_source("forum", 50)
        draws = follow(chooser, 60, lambda draw: float(draw.source == "web"))
        assert draws[0].source == "forum"
        assert draws[0].task == 3
        assert np.mean([draw.source == "web" for draw in draws]) > 0.6

    def test_the_state_is_that_of_a_chooser_that_never_had_the_removed_source(self):
        chooser = Chooser("ucb", SOURCES, 4)
        draws = follow(chooser, 60, lambda draw: float(np.sin(draw.id)))
        chooser.remove_source("books")
        told = [(draw.source, np.sin(draw.id)) for draw in draws if draw.source != "books"]
        arrays = chooser.state_dict()["arrays"]
        for arm, name in enumerate(("web", "code")):
            mine = [reward for source, reward in told if source == name]
            assert arrays["scheduler.visits"][arm] == len(mine)
            assert_allclose(arrays["scheduler.mean"][arm], np.mean(mine), rtol=1e-5)
        assert "books" not in {draw.source for draw in follow(chooser, 20)}
        assert {draw.task for draw in follow(chooser, 20)} <= {0, 2}

    def test_an_open_draw_of_a_removed_source_may_still_be_told(self):
        chooser = Chooser("cyclic", SOURCES, 4)
        draws = [chooser.ask() for _ in range(3)]
        chooser.remove_source("books")
        for draw in draws:
            chooser.tell(draw, 1.0)
        assert chooser.open() == ()
        assert np.isfinite(chooser.history()["reward"]).all()

    def test_a_removed_source_comes_back_under_its_number_and_goes_on_with_its_rows(self):
        chooser = Chooser("cyclic", SOURCES, 4)
        first = follow(chooser, 3)
        chooser.remove_source("web")
        follow(chooser, 4)
        chooser.add_source("web", 40)
        again = next(draw for draw in follow(chooser, 3) if draw.source == "web")
        assert again.task == 0
        assert set(again.rows.tolist()).isdisjoint(first[0].rows.tolist())

    def test_a_state_is_resumed_exactly_after_changes(self):
        def changed():
            chooser = Chooser("thompson", SOURCES, 4, seed=3)
            follow(chooser, 20, lambda draw: np.sin(draw.id))
            chooser.add_source("forum", 50)
            follow(chooser, 20, lambda draw: np.sin(draw.id))
            chooser.remove_source("books")
            follow(chooser, 20, lambda draw: np.sin(draw.id))
            return chooser

        chooser = changed()
        copy = Chooser("thompson", {**SOURCES, "forum": 50}, 4)
        copy.load_state_dict(fresh(chooser.state_dict()))
        assert copy.sources == {"web": 40, "code": 30, "forum": 50}
        for one, other in zip(follow(chooser, 30), follow(copy, 30), strict=True):
            assert (one.task, one.rows.tolist()) == (other.task, other.rows.tolist())

    def test_a_state_loads_into_a_chooser_with_other_sources(self):
        old = Chooser("ucb", SOURCES, 4, seed=3)
        follow(old, 60, lambda draw: float(draw.source == "code"))
        waiting = old.ask()
        new = Chooser("ucb", {"forum": 20, "code": 30, "web": 40}, 4)
        new.load_state_dict(fresh(old.state_dict()))
        assert new.sources == {"forum": 20, "code": 30, "web": 40}
        (still,) = new.open()
        assert (still.source, still.rows.tolist()) == (waiting.source, waiting.rows.tolist())
        new.tell(still, 1.0)
        draws = follow(new, 40, lambda draw: float(draw.source == "code"))
        assert draws[0].source == "forum"
        assert np.mean([draw.source == "code" for draw in draws]) > 0.5
        rows = next(draw.rows.tolist() for draw in draws if draw.source == "code")
        assert rows == next(draw.rows.tolist() for draw in follow(old, 40, lambda _: 1.0) if draw.source == "code")

    def test_labels_that_nobody_looks_at_do_not_hinder_a_change(self):
        old = Chooser("ucb", {"task-0": 12, "other": 30}, 4, shuffle=False)
        follow(old, 12)
        new = Chooser("ucb", make_tasks(), 4, shuffle=False)
        new.load_state_dict(fresh(old.state_dict()))
        assert set(new.sources) == {"task-0", "task-1", "task-2"}
        assert {draw.source for draw in follow(new, 4)} >= {"task-1", "task-2"}
        new.remove_source("task-1")
        assert {draw.source for draw in follow(new, 6)} == {"task-0", "task-2"}

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda chooser: chooser.add_source("web", 9), "there already is a source 'web'"),
            (lambda chooser: chooser.add_source("x", 0), "size of source 'x' is 0"),
            (lambda chooser: chooser.add_source("", 3), "the name of a source is ''"),
            (lambda chooser: chooser.remove_source("wob"), "unknown source 'wob'; did you mean 'web'"),
            (lambda chooser: chooser.load_state_dict(Chooser("ucb", {"web": 41}, 4).state_dict()), "size 41 in the"),
        ],
    )
    def test_what_cannot_be_changes_nothing(self, change, message):
        chooser = Chooser("ucb", SOURCES, 4)
        follow(chooser, 10)
        before = chooser.state_dict()
        with pytest.raises(ConfigError, match=message):
            change(chooser)
        after = chooser.state_dict()
        assert before["facts"] == after["facts"]
        assert all(np.array_equal(after["arrays"][name], value) for name, value in before["arrays"].items())

    def test_the_last_source_stays_and_a_scheduler_of_ones_own_cannot_change(self):
        with pytest.raises(ConfigError, match="source 'a' is the last one"):
            Chooser("ucb", {"a": 3}, 1).remove_source("a")
        with pytest.raises(ConfigError, match="'own' was made for a fixed set of sources"):
            Chooser(ms.schedulers.ucb(3), SOURCES, 4).add_source("x", 10)

    def test_a_small_source_is_mentioned_when_it_comes(self):
        with pytest.warns(UserWarning, match="so rows repeat: 'tiny'"):
            Chooser("ucb", SOURCES, 4).add_source("tiny", 2)


class TestOutliers:
    def good_then_bad(self, name, when, outlier):
        """Source 'web' pays most, but once it is told so bad a reward, or the worst one so good a one."""
        chooser = Chooser(name, SOURCES, 4, seed=1)
        noise = np.random.default_rng(0)
        paid = False
        for step in range(400):
            draw = chooser.ask()
            reward = {"web": 0.6, "books": 0.4, "code": 0.3}[draw.source] + 0.1 * noise.normal()
            if step >= when and draw.source == ("web" if outlier < 0 else "code") and not paid:
                reward, paid = outlier, True
            chooser.tell(draw, reward)
        assert paid
        return chooser

    @pytest.mark.parametrize("outlier", [-1e20, 1e20, -1e6])
    @pytest.mark.parametrize("when", [0, 5, 30])
    @pytest.mark.parametrize("name", ["ucb", "thompson", "discounted_ucb"])
    def test_one_outlier_decides_nothing_for_ever(self, name, when, outlier):
        chooser = self.good_then_bad(name, when, outlier)
        tasks = chooser.history()["task"]
        assert (tasks[-150:] == 0).mean() > 0.4
        assert np.nanmax(np.abs(chooser.history()["reward"])) == abs(outlier)
        assert abs(chooser.log(last=400)["reward/web" if outlier < 0 else "reward/code"]) < 2

    def test_rewards_whose_scale_grows_are_followed(self):
        chooser = Chooser("uniform", 1)
        for step in range(40):
            chooser.tell(chooser.ask(), 0.01 * np.sin(step))
        for step in range(20):
            chooser.tell(chooser.ask(), 1e6 + 1e5 * np.sin(step))
        heard = chooser.state_dict()["arrays"]["heard"]
        assert (np.abs(heard[:40]) <= 0.01).all()
        assert heard[-1] == pytest.approx(1e6 + 1e5 * np.sin(19))

    def test_rare_and_equal_rewards_are_heard_as_they_are(self):
        chooser = Chooser("uniform", 2)
        for step in range(100):
            chooser.tell(chooser.ask(), float(step % 25 == 24))
        arrays = chooser.state_dict()["arrays"]
        np.testing.assert_array_equal(arrays["heard"], arrays["rewards"])


def test_log_is_flat_and_counts_by_source():
    chooser = Chooser("cyclic", SOURCES, 4)
    follow(chooser, 7, lambda draw: 0.5 * draw.task)
    assert chooser.log() == {
        "share/web": pytest.approx(3 / 7),
        "share/books": pytest.approx(2 / 7),
        "share/code": pytest.approx(2 / 7),
        "reward/web": 0.0,
        "reward/books": 0.5,
        "reward/code": 1.0,
        "draws/web": 3.0,
        "draws/books": 2.0,
        "draws/code": 2.0,
    }
    assert chooser.shares(last=1) == {"web": 1.0, "books": 0.0, "code": 0.0}


def test_one_source_alone_is_a_word_for_a_chooser_too():
    chooser = Chooser("single:books", {"web": 100, "books": 50}, batch_size=2)
    assert {chooser.ask().source for _ in range(3)} == {"books"}


class TestForgetting:
    @pytest.mark.parametrize("scheduler", ["uniform", "thompson", "softmax", "exp3", "mirror"])
    @pytest.mark.parametrize("options", [{}, {"min_share": 0.05}])
    def test_after_a_draw_that_is_never_told_comes_another_one(self, scheduler, options):
        chooser = ms.Chooser(scheduler, [None] * 9, 8, seed=3, **options)
        for _ in range(4):
            chooser.tell(chooser.ask(), np.arange(8.0))
        seen = set()
        for _ in range(12):
            draw = chooser.ask()
            seen.add(tuple(draw.tasks.tolist()))
            chooser.forget(draw)
        assert len(seen) > 6, f"of 12 draws of {scheduler} that were forgotten, only {len(seen)} differ"

    def test_a_static_scheduler_goes_on_as_after_any_draw(self):
        chooser = ms.Chooser("cyclic", [None] * 3, 1)
        drawn = []
        for _ in range(5):
            draw = chooser.ask()
            drawn.append(draw.task)
            chooser.forget(draw)
        assert drawn == [0, 1, 2, 0, 1]

    def test_a_state_after_forgetting_goes_on_with_the_same_draws(self):
        def new():
            return ms.Chooser("thompson", [20, 30, 40], 6, seed=1)

        chooser = new()
        for number in range(6):
            draw = chooser.ask()
            if number % 2:
                chooser.forget(draw)
            else:
                chooser.tell(draw, np.linspace(0, 1, 6))
        again = new()
        again.load_state_dict(chooser.state_dict())
        for _ in range(4):
            mine, other = chooser.ask(), again.ask()
            assert mine.tasks.tolist() == other.tasks.tolist()
            assert mine.rows.tolist() == other.rows.tolist()
            chooser.forget(mine)
            again.forget(other)


class TestLosses:
    def test_they_are_logged_by_source_and_decide_nothing(self):
        silent, told = (ms.Chooser("thompson", SOURCES, 4, seed=3) for _ in range(2))
        losses = {"web": [], "books": [], "code": []}
        for step in range(30):
            draw, other = silent.ask(), told.ask()
            assert draw.tasks.tolist() == other.tasks.tolist()
            mine = np.where(np.arange(4) == step % 4, np.nan, draw.tasks + 0.01 * step)
            silent.tell(draw, draw.tasks)
            told.tell(other, other.tasks, loss=mine)
            for name, loss in zip(draw.sources, mine, strict=True):
                losses[name].append(loss)
        log = told.log()
        for name, values in losses.items():
            assert log[f"loss/{name}"] == pytest.approx(np.nanmean(values), rel=1e-6)
        assert {key: value for key, value in log.items() if not key.startswith("loss")} == silent.log()
        assert "loss" not in silent.history()
        assert told.history()["loss"].shape == told.history()["reward"].shape

    def test_a_draw_of_one_source_has_the_mean_of_those_that_are_known(self):
        chooser = Chooser("cyclic", SOURCES, 4)
        for loss in ([1.0, np.nan, 3.0, np.nan], {"books": 5}, np.nan):
            chooser.tell(chooser.ask(), 0.0, loss)
        log = chooser.log()
        assert (log["loss/web"], log["loss/books"], "loss/code" in log) == (2, 5, False)

    def test_sources_may_be_left_out_and_a_loss_may_be_infinite(self):
        chooser = ms.Chooser("cyclic", SOURCES, 3)
        chooser.tell(chooser.ask(), 0.0, {"web": np.inf, "code": 1e300})
        log = chooser.log()
        assert (log["loss/web"], log["loss/code"], "loss/books" in log) == (np.inf, np.inf, False)

    def test_a_state_has_them_and_one_from_before_loads(self):
        chooser = ms.Chooser("uniform", SOURCES, 4)
        chooser.tell(chooser.ask(), 0.0)
        before = chooser.state_dict()
        assert "losses" not in before["arrays"]
        chooser.tell(chooser.ask(), 0.0, loss=2.5)
        again = ms.Chooser("uniform", SOURCES, 4)
        again.load_state_dict(fresh(chooser.state_dict()))
        assert again.log() == chooser.log()
        again.load_state_dict(fresh(before))
        assert not any(key.startswith("loss") for key in again.log())

    @pytest.mark.parametrize(
        ("loss", "said"),
        [
            ("high", "the loss is 'high'; give a number"),
            ([1.0], "the loss has 1 numbers, but the draw has 4 rows"),
            ({"wep": 1.0}, "unknown source 'wep'; did you mean 'web'"),
            ({"web": None}, "the loss is None of source 'web'; give a number"),
        ],
    )
    def test_what_is_no_loss_is_refused_and_the_draw_stays_open(self, loss, said):
        chooser = ms.Chooser("cyclic", SOURCES, 4)
        draw = chooser.ask()
        with pytest.raises(ConfigError, match=said):
            chooser.tell(draw, 0.0, loss)
        assert len(chooser.open()) == 1

    def test_a_damaged_state_is_refused(self):
        chooser = ms.Chooser("uniform", SOURCES, 4)
        chooser.tell(chooser.ask(), 0.0, loss=1.0)
        chooser.ask()
        stored = chooser.state_dict()
        losses = stored["arrays"]["losses"]
        for wrong in (losses.astype(float), losses[:1], np.ones_like(losses)):
            with pytest.raises(ConfigError, match="the state is damaged"):
                chooser.load_state_dict({**stored, "arrays": {**stored["arrays"], "losses": wrong}})


SOME = {"web": 6, "books": 1, "code": 3}
EVEN = {"web": 1, "books": 1, "code": 1}


def shares_of(draws, sources=SOURCES):
    tasks = np.concatenate([draw.sources for draw in draws])
    return np.array([np.mean(tasks == name) for name in sources])


class TestStages:
    @pytest.mark.parametrize("batching", ["mixed", "per_source"])
    @pytest.mark.parametrize("loss_weights", [None, EVEN])
    def test_each_counts_from_its_draw_on(self, batching, loss_weights):
        settings = {"batching": batching, "seed": 2, "loss_weights": loss_weights}
        weights = [(0, {"web": 1, "books": 0, "code": 0}), (5, [0, 1, 0]), (9, SOME)]
        chooser = ms.Chooser("uniform", SOURCES, 8, weights=weights, **settings)
        draws = [chooser.ask() for _ in range(3)]  # open ones count as well
        draws += follow(chooser, 400)
        assert {name for draw in draws[:5] for name in draw.sources} == {"web"}
        assert {name for draw in draws[5:9] for name in draw.sources} == {"books"}
        assert_allclose(shares_of(draws[9:]), [0.6, 0.1, 0.3], atol=0.06)
        if loss_weights:
            expected = {"web": 1 / 3 / 0.6, "books": 1 / 3 / 0.1, "code": 1 / 3 / 0.3}
            for draw in draws[9:]:
                assert_allclose(draw.weights, [expected[name] for name in draw.sources], rtol=1e-5)

    def test_a_ramp_goes_in_a_straight_line_between_the_proportions(self):
        weights = [(0, [1, 0, 0]), (100, [0, 50, 50]), (200, [0, 0, 1])]
        chooser = ms.Chooser("uniform", dict.fromkeys(SOURCES), 500, weights=weights, ramp=True)
        draws = follow(chooser, 260)
        for step, expected in ((0, [1, 0, 0]), (50, [0.5, 0.25, 0.25]), (150, [0, 0.25, 0.75]), (259, [0, 0, 1])):
            assert_allclose(shares_of(draws[step : step + 1]), expected, atol=0.08)

    def test_a_temperature_acts_on_every_stage(self):
        chooser = ms.Chooser(
            "uniform", dict.fromkeys(SOURCES), 400, weights=[(0, [16, 1, 1]), (3, [1, 1, 16])], temperature=2
        )
        draws = follow(chooser, 6)
        assert_allclose(shares_of(draws[:3]), [4 / 6, 1 / 6, 1 / 6], atol=0.06)
        assert_allclose(shares_of(draws[3:]), [1 / 6, 1 / 6, 4 / 6], atol=0.06)

    @pytest.mark.parametrize("name", ["uniform", "ucb", "thompson"])
    @pytest.mark.parametrize("batching", ["mixed", "per_source"])
    def test_a_stored_state_goes_on_at_the_same_place_of_a_ramp(self, name, batching):
        def new():
            weights = [(0, SOME), (12, [0, 1, 1]), (24, EVEN)]
            return ms.Chooser(name, SOURCES, 6, weights=weights, ramp=True, prior=200, batching=batching)

        def rewards(draw):
            return np.sin(draw.tasks + 0.3 * draw.id)

        whole, first, second = new(), new(), new()
        expected = [(draw.tasks.tolist(), draw.rows.tolist()) for draw in follow(whole, 30, rewards)]
        seen = follow(first, 15, rewards)
        second.load_state_dict(fresh(first.state_dict()))
        seen += follow(second, 15, rewards)
        assert [(draw.tasks.tolist(), draw.rows.tolist()) for draw in seen] == expected

    def test_one_stage_draws_the_rows_that_plain_weights_draw(self):
        plain, staged = (ms.Chooser("ucb", SOURCES, 6, weights=weights) for weights in (SOME, [(0, SOME)]))
        for one, other in zip(follow(plain, 20), follow(staged, 20), strict=True):
            assert one.tasks.tolist() == other.tasks.tolist()
        assert plain.state_dict()["arrays"].keys() == staged.state_dict()["arrays"].keys()

    @pytest.mark.parametrize(
        ("weights", "ramp", "said"),
        [
            ([(0, SOME), (3, {"web": 1})], False, "weights from draw 3 on are {'web': 1}; give one number for each"),
            ([(0, SOME), (3, [1, -1, 1])], False, "weights from draw 3 on of 'books' is -1"),
            ([(0, SOME), (3, [0, 0, 0])], False, "the weights are all 0"),
            ([(2, SOME), (3, EVEN)], False, r"begin at draws \[2, 3\]; give increasing numbers that start at 0"),
            ([(0, SOME), (0, EVEN)], False, r"begin at draws \[0, 0\]"),
            ([(0, SOME), (2.5, EVEN)], False, "the draw of a stage is 2.5"),
            ([(0, SOME), EVEN], False, "give pairs of a draw and the weights from this draw on"),
            ([(0, SOME, 1)], False, "give pairs of a draw"),
            (SOME, True, "a ramp needs several stages"),
            (None, True, "a ramp needs stages of weights; give weights"),
            ([(0, SOME), (3, EVEN)], "linear", "ramp is 'linear'; give True or False"),
        ],
    )
    def test_what_cannot_be_stages_is_refused(self, weights, ramp, said):
        with pytest.raises(ConfigError, match=said):
            ms.Chooser("uniform", SOURCES, 2, weights=weights, ramp=ramp)


class TestNewWeights:
    @pytest.mark.parametrize("before", [{}, {"weights": SOME}, {"weights": [(0, SOME), (50, EVEN)]}])
    def test_they_count_from_the_next_draw_on_and_open_draws_stay(self, before):
        chooser = ms.Chooser("uniform", SOURCES, 4, **before)
        follow(chooser, 5)
        opened = [chooser.ask() for _ in range(3)]
        chooser.set_weights({"web": 0, "books": 0, "code": 1})
        assert [draw.rows.tolist() for draw in chooser.open()] == [draw.rows.tolist() for draw in opened]
        draws = follow(chooser, 6)
        assert {name for draw in draws for name in draw.sources} == {"code"}
        for draw in opened:
            chooser.tell(draw, 1.0)
        rows = np.concatenate([draw.rows[draw.sources == "code"] for draw in [*opened, *draws[:2]]])
        assert len(set(rows.tolist())) == len(rows)  # no row twice before the pass is over

    def test_a_learner_keeps_what_it_was_told(self):
        chooser = ms.Chooser("ucb", SOURCES, 4, prior=0, weights=SOME)
        follow(chooser, 60, lambda draw: draw.sources == "books")
        before = chooser.state_dict()["arrays"]["scheduler.tells"]
        chooser.set_weights(EVEN)
        after = chooser.state_dict()["arrays"]["scheduler.tells"]
        assert before.tolist() == after.tolist()
        assert shares_of(follow(chooser, 20))[1] > 0.6

    def test_weights_of_every_step_need_no_new_program(self):
        chooser = ms.Chooser("uniform", SOURCES, 4)
        chooser.set_weights(SOME)
        program = chooser._setup.mixture
        for step in range(5):
            chooser.set_weights({"web": step, "books": 1, "code": 0})
            follow(chooser, 1)
        assert chooser._setup.mixture is program

    def test_a_state_has_them_whatever_the_next_chooser_is_made_with(self):
        def new(**settings):
            return ms.Chooser("uniform", SOURCES, 4, seed=5, **settings)

        chooser = new(weights=SOME)
        follow(chooser, 3)
        chooser.ask()
        chooser.set_weights([(0, SOME), (8, EVEN), (16, [0, 1, 0])], ramp=True)
        follow(chooser, 3)
        stored = fresh(chooser.state_dict())
        expected = [draw.rows.tolist() for draw in follow(chooser, 20)]
        for other in (new(), new(weights=SOME), new(weights=[(0, SOME), (4, EVEN)])):
            other.load_state_dict(stored)
            assert [draw.rows.tolist() for draw in follow(other, 20)] == expected

    def test_a_state_without_them_leaves_weights_that_the_chooser_has(self):
        before = ms.Chooser("uniform", SOURCES, 4, weights=SOME)
        follow(before, 5)
        staged = ms.Chooser("uniform", SOURCES, 4, weights=[(0, SOME), (5, [0, 0, 1])])
        staged.load_state_dict(fresh(before.state_dict()))
        assert {name for draw in follow(staged, 4) for name in draw.sources} == {"code"}

    def test_sources_come_and_go_with_them(self):
        chooser = ms.Chooser("uniform", SOURCES, 4)
        chooser.set_weights([(0, SOME), (10, [0, 0, 1])])
        chooser.add_source("forum", 50, weight=0)
        chooser.remove_source("web")
        assert {name for draw in follow(chooser, 9) for name in draw.sources} == {"books", "code"}
        chooser.set_weights({"books": 0, "code": 0, "forum": 1})
        stored = fresh(chooser.state_dict())
        again = ms.Chooser("uniform", {**SOURCES, "forum": 50}, 4)
        again.load_state_dict(stored)
        assert again.ask().by_source.keys() == chooser.ask().by_source.keys() == {"forum"}

    @pytest.mark.parametrize(
        ("name", "weights", "said"),
        [
            ("cyclic", SOME, "'cyclic' has its own order"),
            ("exp3", SOME, "'exp3' must know the probability of every draw"),
            ("uniform", {"web": 1}, "give one number for each source: web, books, code"),
            ("uniform", [0, 0, 0], "the weights are all 0"),
        ],
    )
    def test_what_cannot_be_is_refused_and_changes_nothing(self, name, weights, said):
        chooser = ms.Chooser(name, SOURCES, 2)
        follow(chooser, 3)
        before = chooser.state_dict()
        with pytest.raises(ConfigError, match=said):
            chooser.set_weights(weights)
        assert chooser.state_dict()["facts"] == before["facts"]
        follow(chooser, 3)

    @pytest.mark.parametrize(
        "weights", [[], [[3, EVEN]], [[0, EVEN], [0, EVEN]], [[0, {"web": -1.0}]], [[0, {"web": np.inf}]], [[0, 1]], 7]
    )
    def test_damaged_weights_in_a_state_are_refused(self, weights):
        chooser = ms.Chooser("uniform", SOURCES, 2)
        chooser.set_weights(SOME)
        stored = chooser.state_dict()
        with pytest.raises(ConfigError, match="the state is damaged"):
            chooser.load_state_dict({**stored, "facts": {**stored["facts"], "weights": weights}})
