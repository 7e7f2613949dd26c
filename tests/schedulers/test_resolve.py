"""Words for schedulers, without data: names, one source alone, none, those known to be useful."""

import jax
import jax.numpy as jnp
import pytest

from metasched.errors import ConfigError
from metasched.schedulers.resolve import SchedulerSpec, build, check_word, family, needs_plan, resolve

NAMES = ["web", "books", "code"]


def first_choice(spec, **settings):
    scheduler = build(spec, [100, None, 7], batch_size=4, **settings)
    return int(scheduler.select(scheduler.init(jax.random.key(0)), jnp.zeros(3, jnp.int32)))


def test_auto_is_what_the_caller_says_and_keeps_its_options():
    assert resolve("auto", {"width": 2.0}, NAMES) == SchedulerSpec("thompson", {"width": 2.0})
    assert resolve("auto", {}, NAMES, auto="ucb").name == "ucb"


def test_every_word_has_a_family():
    assert [family(word) for word in ("auto", "uniform", "single:2", "target-only")] == [
        "active",
        "static",
        "control",
        "control",
    ]


@pytest.mark.parametrize(("word", "number"), [("single:books", 2), ("single:3", 3), ("single", 1)])
def test_single_is_one_source_by_name_or_number_from_one(word, number):
    spec = resolve(word, {}, NAMES)
    assert spec == SchedulerSpec(f"single:{number}", {})
    assert first_choice(spec) == first_choice(spec, abstain=True) == number - 1


def test_single_without_a_source_is_the_first_even_where_another_is_called_1():
    assert resolve("single", {}, ["2", "1"]).name == "single:1"
    assert resolve("single:1", {}, ["2", "1"]).name == "single:2"


def test_useful_draws_from_those_that_are_known_to_be():
    spec = resolve("useful", {}, NAMES, useful=["code"])
    assert spec == SchedulerSpec("useful", {"tasks": [2]})
    assert first_choice(spec) == 2
    for nobody in ((), None):
        with pytest.raises(ConfigError, match="no task is known to be useful; take another scheduler"):
            resolve("useful", {}, NAMES, useful=nobody)


def test_target_only_draws_from_no_source():
    assert first_choice(resolve("target-only", {}, NAMES)) == 3


@pytest.mark.parametrize("word", ["target-only", "useful", "single:1", "oracle-best-single"])
def test_controls_take_no_options(word):
    with pytest.raises(ConfigError, match=f"scheduler '{word}' takes no options: leave out upper"):
        resolve(word, {"upper": 1}, NAMES, useful=NAMES)


def test_sequential_stays_for_one_pass_and_streams_have_one_batch():
    scheduler = build(resolve("sequential", {}, NAMES), [8, None, 7], batch_size=4)
    state, drawn = scheduler.init(jax.random.key(0)), []
    for _ in range(5):
        drawn.append(int(scheduler.select(state, jnp.zeros(3, jnp.int32))))
        state = scheduler.update(state, jnp.zeros(3, jnp.int32), jnp.int32(0), jnp.float32(0))
    assert drawn == [0, 0, 1, 2, 0]


def test_words_that_are_none_are_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown scheduler 'thomson'; did you mean 'thompson'\? Known: auto"):
        resolve("thomson", {}, NAMES)
    with pytest.raises(ConfigError, match=r"unknown scheduler 'singel:boks'; did you mean 'single:books'\?"):
        resolve("singel:boks", {}, NAMES)
    with pytest.raises(ConfigError, match=r"unknown scheduler 'singel:boks'; did you mean 'single:boks'\?"):
        check_word("singel:boks")
    with pytest.raises(ConfigError, match=r"unknown task 'boks'; did you mean 'books'\? .* or give a number"):
        resolve("single:boks", {}, NAMES)
    check_word("everything", besides=("everything",))
    assert not needs_plan("target-only")
