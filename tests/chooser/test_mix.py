"""Mixed streams: whose rows, what happens at an end, and going on anywhere with the very same rows."""

import json
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import metasched as ms
from metasched.errors import ConfigError, DataError

CYCLIC = ms.schedulers.cyclic(2)


class Counting:
    """A source with a state of its own, as a stateful loader has; iterating it twice goes on from the state loaded."""

    def __init__(self, rows):
        self.rows, self.place, self.start = rows, 0, 0

    def __iter__(self):
        self.place, self.start = self.start, 0
        while self.place < len(self.rows):
            self.place += 1
            yield self.rows[self.place - 1]

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, stored):
        self.start = stored["place"]


def lines_of(rows, folder):
    path = folder / f"{rows[0]}.txt"
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


KINDS = {
    "a list": lambda rows, _: rows,
    "a function": lambda rows, _: lambda: (row for row in rows),
    "iterated again": lambda rows, _: dict.fromkeys(rows),
    "a state of its own": lambda rows, _: Counting(rows),
    "a file": lines_of,
}


def rows_of(source, size):
    return [f"{source}{number}" for number in range(size)]


def drive(stream, number, lag, stop=None, batch_size=None):
    """Take ``number`` draws, telling one of those that wait whenever more than ``lag`` do; or stop, and say the state.

    ``stop`` is (draws, told): after so many draws, before or after what this draw makes us tell.
    """
    taken, waiting = [], []
    for draw, rows in islice(stream, number):
        assert batch_size is None or len(rows) == len(draw.rows)
        taken.append((draw.id, draw.tasks.tolist(), rows))
        waiting.append(draw)
        if stop == (len(taken), False):
            return taken, stream.state_dict()
        if len(waiting) > lag:
            one = waiting.pop(7 * draw.id % len(waiting))
            stream.tell(one, np.sin(3 * one.tasks + 0.7 * one.id + np.arange(len(one.tasks))))
        if stop == (len(taken), True):
            return taken, stream.state_dict()
    return taken, None


@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=3, max_size=3),
    sizes=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    batch_size=st.sampled_from([None, 1, 2, 5]),
    batching=st.sampled_from(["mixed", "mixed", "per_source"]),
    at_end=st.sampled_from(["repeat", "stop", "drop"]),
    lag=st.integers(0, 4),
    stops=st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=3),
)
def test_interrupted_anywhere_it_goes_on_with_the_same_rows(
    tmp_path_factory, kinds, sizes, batch_size, batching, at_end, lag, stops
):
    def build(seed):
        folder = tmp_path_factory.mktemp("rows")
        sources = {
            name: KINDS[kind](rows_of(name, size), folder) for name, kind, size in zip("abc", kinds, sizes, strict=True)
        }
        return ms.mix(sources, "thompson", batch_size=batch_size, at_end=at_end, seed=seed, batching=batching)

    whole, _ = drive(build(seed=3), 40, lag, batch_size=batch_size)  # more than all sources have together
    stream, seen = build(seed=3), {}
    for stop in stops:
        taken, state = drive(stream, 40, lag, stop, batch_size)
        for number, *rest in taken:
            assert seen.setdefault(number, rest) == rest
        if state is None:
            break
        stream = build(seed=4)
        stream.load_state_dict({"facts": json.loads(json.dumps(state["facts"])), "chooser": state["chooser"]})
    taken, _ = drive(stream, 40, lag, batch_size=batch_size)
    for number, *rest in taken:
        assert seen.setdefault(number, rest) == rest
    agreed = [(number, *rest) for number, rest in sorted(seen.items())]
    assert agreed[: len(whole)] == whole
    assert at_end == "repeat" or len(agreed) == len(whole)


def test_a_source_without_a_place_to_come_back_to_is_mixed_but_not_stored():
    stream = ms.mix({"a": (number for number in range(9)), "b": [1]}, CYCLIC)
    assert [row for _, row in islice(stream, 4)] == [0, 1, 1, 1]
    with pytest.raises(ConfigError, match="source 'a' cannot be resumed exactly: it is an iterator"):
        stream.state_dict()


def test_an_iterator_that_ends_is_not_repeated():
    stream = ms.mix({"a": iter([0]), "b": [1]}, CYCLIC)
    with pytest.raises(DataError, match="source 'a' ended, and an iterator cannot be read again"):
        list(islice(stream, 4))


def test_a_batch_goes_on_at_the_start_of_a_source_that_is_repeated():
    stream = ms.mix({"a": ["x", "z"], "b": list(range(5))}, CYCLIC, batch_size=3, batching="per_source")
    taken = []
    for draw, rows in islice(stream, 4):
        taken.append(rows)
        stream.tell(draw, 0)
    assert taken == [["x", "z", "x"], [0, 1, 2], ["z", "x", "z"], [3, 4, 0]]


def test_stop_ends_with_the_first_source_and_hands_out_what_is_left_of_it():
    sources = {"a": [0, 1, 2], "b": range(10, 20)}
    stream = ms.mix(sources, CYCLIC, batch_size=2, at_end="stop", batching="per_source")
    assert [rows for _, rows in stream] == [[0, 1], [10, 11], [2]]
    assert list(stream) == []


def test_mixed_batches_hold_rows_of_several_streams_and_end_row_by_row():
    sources = {"a": [0, 1, 2], "b": range(10, 20)}
    assert [rows for _, rows in ms.mix(sources, CYCLIC, batch_size=3, at_end="stop")] == [[0, 10, 1], [11, 2, 12], [13]]
    draws = list(ms.mix(sources, CYCLIC, batch_size=3, at_end="stop"))
    assert [draw.sources.tolist() for draw, _ in draws] == [["a", "b", "a"], ["b", "a", "b"], ["b"]]


@pytest.mark.parametrize("batching", ["mixed", "per_source"])
@pytest.mark.parametrize("scheduler", ["cyclic", "ucb", "single", "thompson"])
def test_drop_hands_out_every_row_once(scheduler, batching):
    sources = {name: rows_of(name, size) for name, size in (("a", 3), ("b", 7), ("c", 1))}
    stream = ms.mix(sources, scheduler, batch_size=2, at_end="drop", batching=batching)
    taken = []
    for draw, rows in stream:
        assert [row[0] for row in rows] == draw.sources.tolist()
        taken += rows
        stream.tell(draw, draw.tasks)
    assert sorted(taken) == sorted(chain(*sources.values()))


def test_abstaining_reads_nothing():
    stream = ms.mix({"a": [1]}, "cyclic", abstain=True)
    assert [row for _, row in islice(stream, 2)] == [1, None]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sources": {}}, "sources are empty or have no names"),
        ({"sources": [[1], [2]]}, "sources are empty or have no names"),
        ({"sources": {"a": 3}}, "source 'a' is 3; give an iterable"),
        ({"sources": {"a": "rows.txt"}}, "source 'a' is 'rows.txt'; give an iterable, .* or a Path"),
        ({"at_end": "restart"}, "unknown at_end 'restart'"),
        ({"batch_size": 0}, "batch_size is 0"),
        (
            {"chooser": ms.Chooser(CYCLIC, {"a": None, "b": None}), "batch_size": 2},
            "batch_size is 2, but the chooser's 1",
        ),
        ({"chooser": ms.Chooser(CYCLIC, {"a": None, "b": None}), "seed": 1}, "seed: pass these to the chooser"),
        ({"chooser": ms.Chooser(CYCLIC, {"a": None, "c": None})}, "the sources are a, b, but the chooser's a, c"),
    ],
)
def test_bad_input_is_one_clear_line(change, said):
    with pytest.raises(ConfigError, match=said):
        ms.mix(**{"sources": {"a": [1], "b": [2]}, "chooser": "cyclic", **change})


def test_an_empty_source_says_so():
    with pytest.raises(DataError, match="source 'a' has no rows; leave it out"):
        next(ms.mix({"a": lambda: iter([]), "b": [1]}, CYCLIC))


def test_an_empty_source_says_so_before_the_first_row_where_that_can_be_told(tmp_path):
    (tmp_path / "rows.txt").touch()
    for empty in ([], (), np.empty((0, 3)), set(), tmp_path / "rows.txt"):
        with pytest.raises(DataError, match="source 'b' has no rows; leave it out"):
            ms.mix({"a": [1], "b": empty}, CYCLIC)
        assert [row for _, row in ms.mix({"a": [1], "b": empty}, "cyclic", at_end="drop")] == [1]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda state: {}, "not a state from state_dict"),
        (lambda state: state["facts"]["sources"]["a"].update(ended=1), "not a state from state_dict"),
        (lambda state: state["facts"]["sources"]["a"]["position"].update(read=-1), "not a state from state_dict"),
        (lambda state: state["facts"].update(batch_size=7), "the state has batch_size 7, this stream 2"),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(damage, said):
    def build():
        return ms.mix({"a": list(range(9)), "b": list(range(9))}, CYCLIC, batch_size=2, batching="per_source")

    state = build().state_dict()
    wrong = damage(state)
    stream = build()
    draw, rows = next(stream)
    with pytest.raises(ConfigError, match=said):
        stream.load_state_dict(state if wrong is None else wrong)
    stream.tell(draw, 0)
    assert (rows, next(stream)[1]) == ([0, 1], [0, 1])


def test_a_state_that_an_earlier_version_stored_goes_on_with_the_same_rows():
    stored = json.loads(Path(__file__).with_name("mix_format_1.json").read_text())
    arrays = {name: np.array(one["values"], one["dtype"]) for name, one in stored["arrays"].items()}
    stream = ms.mix({"a": list(range(9)), "b": list(range(10, 25))}, "ucb", batch_size=4, batching="per_source")
    stream.load_state_dict({"facts": stored["facts"], "chooser": {"facts": stored["chooser"], "arrays": arrays}})
    found = []
    for draw, rows in islice(stream, 8):
        found.append([draw.id, draw.source, rows])
        stream.tell(draw, 0.1 * draw.task)
    assert found == stored["next"]


def test_a_stream_that_is_added_in_the_middle_is_resumed_with_the_others():
    def new(*more):
        named = {name: range(10 * number, 10 * number + 10) for number, name in enumerate("ab" + "".join(more))}
        return ms.mix(named, "ucb", batch_size=3, seed=1)

    def go(stream, steps):
        seen = []
        for _ in range(steps):
            draw, rows = next(stream)
            seen.append((draw.sources.tolist(), rows))
            stream.tell(draw, np.sin(draw.tasks + draw.id))
        return seen

    stream = new()
    go(stream, 4)
    next(stream)  # open when the source comes
    stream.add_source("c", range(20, 30))
    stream.chooser.set_weights({"a": 0, "b": 1, "c": 3})
    assert "c" in {name for sources, _ in go(stream, 6) for name in sources}
    again = new("c")
    again.load_state_dict(stream.state_dict())
    opened, _ = next(again)
    assert opened.id == 4
    assert go(again, 8) == go(stream, 8)
    with pytest.raises(ConfigError, match="there already was a source 'c'"):
        stream.add_source("c", range(3))
    with pytest.raises(DataError, match="source 'd' has no rows"):
        stream.add_source("d", [])
