import json
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

import metasched as ms
from metasched.errors import ConfigError

LEVELS = np.repeat(["solved", "reach", "never"], 100)
CHANCES = {"solved": 1.0, "reach": 0.5, "never": 0.0}


def rollouts(prompts, random, size=4):
    """Indices, successes and advantages of groups of completions."""
    indices = prompts.repeat(size)
    right = random.random(len(indices)) < [CHANCES[LEVELS[index]] for index in indices]
    return indices, right, (right - right.reshape(-1, size).mean(axis=1).repeat(size)).astype(float)


@pytest.mark.parametrize(("values", "kind"), [("advantages", 2), ("successes", 1), (np.ptp, 2)])
def test_most_prompts_are_of_the_level_within_reach(values, kind):
    random, chooser = np.random.default_rng(0), ms.PromptChooser(LEVELS, values=values)
    for _ in range(25):
        given = rollouts(chooser.next(16), random)
        chooser.observe(given[0], given[kind])
    metrics = chooser.metrics()
    assert metrics["share/reach"] > 0.8
    assert metrics["reward/solved"] == metrics["reward/never"] == metrics["waiting"] == 0
    assert metrics["no_signal"] < 0.4


def test_indices_are_of_the_levels_they_are_counted_under_and_each_comes_once_a_pass():
    chooser = ms.PromptChooser(LEVELS, scheduler="cyclic")
    prompts = chooser.next(300)
    assert sorted(prompts.tolist()) == list(range(300))
    assert LEVELS[prompts[:4]].tolist() == ["solved", "reach", "never", "solved"]
    assert chooser.sources == {"solved": 100, "reach": 100, "never": 100}


def test_values_late_out_of_order_and_one_by_one_make_the_same_chooser():
    random = np.random.default_rng(0)
    whole, pieces = (ms.PromptChooser(LEVELS, group_size=4) for _ in range(2))
    for _ in range(5):
        prompts = whole.next(12)
        assert prompts.tolist() == pieces.next(12).tolist()
        indices, _, advantages = rollouts(prompts, random)
        whole.observe(indices, advantages)
        for place in range(4):  # the first completion of every prompt, then the second …
            pieces.observe(indices[place::4], advantages[place::4])
    assert whole.next(8).tolist() == pieces.next(8).tolist()


def test_one_compiled_program_chooses_all_prompts_of_a_step(caplog):
    chooser = ms.PromptChooser(LEVELS, memory=37)  # with settings of its own, so that nothing is compiled yet
    with jax.log_compiles():
        chooser.next(64)
    assert sum("Finished XLA compilation of jit(step)" in line for line in caplog.messages) == 1


def test_a_prompt_that_waits_twice_has_two_groups():
    chooser = ms.PromptChooser(["a"], group_size=2)
    chooser.next(2)
    chooser.observe([0, 0, 0], [1, -1, 5])
    assert chooser.metrics()["waiting"] == 1
    chooser.observe([0], [-5])
    assert chooser.metrics()["reward/a"] == 3
    together = ms.PromptChooser(["a"])
    together.observe(together.next(2).repeat(2), [1, -1, 5, -5])
    assert together.metrics()["waiting"] == 0
    together.observe([0], [1])  # had the values been of one group, these were the other's
    assert together.metrics()["too_late"] == 1


def test_prompts_without_values_are_given_up_and_late_values_are_passed_over():
    chooser = ms.PromptChooser(LEVELS, patience=4)
    first = chooser.next(4)
    chooser.next(3)
    metrics = chooser.metrics()
    assert (metrics["waiting"], metrics["given_up"]) == (4, 3)
    chooser.observe(first[[0, 0, 3]], [1, -1, 1])  # the last one still waits
    metrics = chooser.metrics()
    assert (metrics["waiting"], metrics["too_late"]) == (3, 2)
    with pytest.raises(ConfigError, match="is not waiting"):
        chooser.observe(first[:1], [1])


def test_what_had_come_counts_when_a_prompt_is_forgotten():
    chooser = ms.PromptChooser(["a", "b"], scheduler="cyclic", group_size=4)
    chooser.observe(chooser.next(2)[:1].repeat(2), [1, -1])
    chooser.forget([0, 1])
    metrics = chooser.metrics()
    assert metrics["reward/a"] == 1
    assert "reward/b" not in metrics
    with pytest.raises(ConfigError, match="prompt 0 is not waiting for values; forget each group once"):
        chooser.forget([0])


def test_a_prompt_is_forgotten_as_often_as_it_is_named():
    chooser = ms.PromptChooser(["a"])
    chooser.next(3)
    assert chooser.waiting().tolist() == [0, 0, 0]
    chooser.forget([0, 0])
    assert chooser.waiting().tolist() == [0]
    with pytest.raises(ConfigError, match="prompt 0 is not waiting for values; forget each group once"):
        chooser.forget([0, 0])
    chooser.forget(chooser.waiting())
    assert chooser.waiting().shape == (0,)


def test_the_history_has_the_source_and_the_reward_of_every_prompt():
    chooser = ms.PromptChooser(LEVELS, group_size=2)
    prompts = chooser.next(6)
    chooser.observe(prompts[[4, 4, 1, 1]], [2, -2, 1, -1])
    history = chooser.history()
    assert history["source"].tolist() == LEVELS[prompts].tolist()
    assert history["told"].tolist() == [-1, 1, -1, -1, 0, -1]
    assert history["reward"][[1, 4]].tolist() == [1, 2]
    assert np.isnan(history["reward"][[0, 2, 3, 5]]).all()


def test_threads_that_sample_and_tell_lose_no_value():
    chooser, random = ms.PromptChooser(LEVELS, group_size=4), np.random.default_rng(0)
    mine = [list(part) for part in np.array_split(random.random((96, 4)), 4)]

    def work(values):
        for group in values:
            (prompt,) = chooser.next(1)
            for value in group:
                chooser.observe([prompt], [value])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, mine))
    metrics, history = chooser.metrics(), chooser.history()
    assert metrics["waiting"] == metrics["too_late"] == metrics["given_up"] == 0
    assert sorted(history["told"].tolist()) == list(range(96))
    assert history["reward"].sum() * 4 == pytest.approx(sum(np.sum(part) for part in mine))


@pytest.mark.parametrize(
    ("settings", "indices", "values", "said"),
    [
        ({}, [5, 299], [1, 1], "is not waiting for values; give those of a group in one call, or set group_size"),
        ({"group_size": 2}, [0, 0, 0], [1, 1, 1], "has 3 values, more than it waits for; is group_size 2 right"),
        ({"values": "successes"}, [0, 1], [0, 3], "a success is 3"),
        ({}, [0], [1e300], "the reward of prompt 0 is 1e[+]300; give a number"),
        ({"values": lambda group: float("nan")}, [0], [1], "the reward of prompt 0 is nan; give a number"),
    ],
)
def test_what_is_refused_changes_nothing(settings, indices, values, said):
    chooser = ms.PromptChooser(LEVELS, scheduler="sequential", shuffle=False, **settings)
    assert chooser.next(3).tolist() == [0, 1, 2]
    before = json.dumps(chooser.state_dict()["facts"])
    with pytest.raises(ConfigError, match=said):
        chooser.observe(indices, values)
    assert json.dumps(chooser.state_dict()["facts"]) == before
    assert chooser.waiting().tolist() == [0, 1, 2]


@pytest.mark.parametrize("group_size", [None, 4])
def test_a_stored_chooser_goes_on_with_the_same_prompts(group_size):
    def go_on(chooser, random, steps):
        drawn, late = [], []
        for _ in range(steps):
            prompts = np.unique(chooser.next(8))
            drawn.append(prompts.tolist())
            indices, _, advantages = rollouts(prompts, random)
            late.append((indices, advantages))
            if len(late) > 2:  # two steps late; a quarter never comes
                indices, advantages = late.pop(0)
                come = len(indices) // 4 // 4 * 12
                chooser.observe(indices[:come], advantages[:come])
                if group_size:
                    chooser.observe(indices[-1:], advantages[-1:])
        return drawn

    settings = {"group_size": group_size, "patience": 40}
    chooser, random = ms.PromptChooser(LEVELS, **settings), np.random.default_rng(1)
    go_on(chooser, random, 12)
    state, place = chooser.state_dict(), random.bit_generator.state
    again = ms.PromptChooser(LEVELS, seed=5, **settings)
    again.load_state_dict({"facts": json.loads(json.dumps(state["facts"])), "arrays": state["arrays"]})
    assert again.metrics() == chooser.metrics()
    expected = go_on(chooser, random, 12)
    random.bit_generator.state = place
    assert go_on(again, random, 12) == expected
    assert json.dumps(again.state_dict()["facts"]) == json.dumps(chooser.state_dict()["facts"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"prompts": LEVELS[:-1]}, "the state belongs to other prompts; make the chooser as it was"),
        ({"values": "successes"}, "the state has values 'advantages', this one 'successes'"),
        ({"group_size": 3}, "the state has group_size None, this one 3"),
        ({"memory": 50}, "the state has options"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change, said):
    state = ms.PromptChooser(LEVELS).state_dict()
    other = ms.PromptChooser(change.pop("prompts", LEVELS), **change)
    with pytest.raises(ConfigError, match=said):
        other.load_state_dict(state)


def test_damaged_states_are_refused_and_change_nothing():
    chooser = ms.PromptChooser(LEVELS)
    chooser.next(3)
    state = chooser.state_dict()
    with pytest.raises(ConfigError, match=r"not a state from state_dict\(\) of a PromptChooser"):
        chooser.load_state_dict({"facts": {}})
    with pytest.raises(ConfigError, match=r"not a state from state_dict\(\) of a PromptChooser"):
        chooser.load_state_dict({**state, "facts": {**state["facts"], "late": {"1": float("inf")}}})
    renamed = {**state["facts"]["chooser"], "sources": [["other", 100, False]]}
    nested = {**state["facts"]["chooser"], "open": [[0], [1], [2]]}
    for damage in (
        {"values": {"77": [1.0]}},
        {"values": {"0": [float("nan")]}},
        {"values": {"0": [1.0] * 9}},
        {"late": {"-1": 2}},
        {"late": {"1": 0}},
        {"chooser": None},
        {"chooser": renamed},
        {"chooser": nested},
    ):
        facts = {**state["facts"], **damage}
        with pytest.raises(ConfigError, match="the state is damaged"):
            chooser.load_state_dict({"facts": facts, "arrays": state["arrays"]})
    assert chooser.metrics()["waiting"] == 3


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"batch_size": 4}, "PromptChooser has no batch_size"),
        ({"memory": 1}, "memory is 1; give a number ≥ 2"),
        ({"memory": 50, "scheduler": "ucb"}, "memory is only for 'thompson'"),
        ({"group_size": 0}, "group_size is 0"),
        ({"patience": 0}, "patience is 0"),
        ({"scheduler": "tompson"}, "did you mean 'thompson'"),
        ({"min_share": 0.6}, "min_share is 0.6"),
    ],
)
def test_settings_are_checked_when_it_is_made(settings, said):
    with pytest.raises(ConfigError, match=said):
        ms.PromptChooser(LEVELS, **settings)
    with pytest.raises(ConfigError, match="n is 0"):
        ms.PromptChooser(LEVELS).next(0)
