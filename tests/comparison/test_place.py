"""The folder of a comparison: made, found again, or refused with the difference."""

import json

import pytest

from metasched.comparison.place import claimed, stored
from metasched.errors import RunError
from metasched.runs.folder import COMPARISON, COMPARISON_FORMAT

METHODS = {"ucb": {"scheduler": "ucb", "options": {}, "reward": "gain", "abstain": False}}
ASKED = {
    "data": "a" * 64,
    "learner": "joint",
    "network": "auto",
    "methods": METHODS,
    "seeds": [0, 1],
    "tuned": True,
    "references": True,
    "budget": None,
    "settings": {"updates": 4, "learning_rate": 0.01},
}


@pytest.fixture
def out(tmp_path):
    with claimed(tmp_path / "a", ASKED):
        return tmp_path / "a"


def test_a_new_folder_says_what_was_asked(out, tmp_path):
    assert stored(out) == {"format": COMPARISON_FORMAT, **ASKED}
    assert stored(tmp_path / "b") is None


def test_the_same_comparison_goes_on(out):
    before = (out / COMPARISON).read_bytes()
    with claimed(out, ASKED):
        pass
    assert (out / COMPARISON).read_bytes() == before


def test_new_seeds_are_written_down_before_anything_is_run(out):
    with claimed(out, {**ASKED, "seeds": [0, 1, 7]}):
        assert stored(out)["seeds"] == [0, 1, 7]


def test_a_longer_budget_goes_on_and_a_shorter_one_does_not(tmp_path):
    place = tmp_path / "a"
    with claimed(place, {**ASKED, "budget": 30.0, "seeds asked": [0, 1, 2]}):
        pass
    with claimed(place, {**ASKED, "budget": 60.0, "seeds": [0, 1, 2]}):
        assert stored(place) == {"format": COMPARISON_FORMAT, **ASKED, "budget": 60.0, "seeds": [0, 1, 2]}
    for budget in (30.0, None):
        with (
            pytest.raises(RunError, match=rf"with another budget \(60.0, not {budget or 'none'}\)"),
            claimed(place, {**ASKED, "budget": budget, "seeds": [0, 1, 2]}),
        ):
            pytest.fail("claimed")


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"settings": {"updates": 5, "learning_rate": 0.01}}, r"with another setting updates \(4, not 5\)"),
        ({"methods": {}}, "with the method 'ucb', which is missing now"),
        ({"methods": {**METHODS, "b": METHODS["ucb"]}}, "without the method 'b'"),
        ({"tuned": False}, r"with another setting tune \(True, not False\)"),
        ({"references": False}, r"with another .*references.* \(True, not False\)"),
        ({"budget": 60.0}, r"with another budget \(none, not 60.0\)"),
        ({"data": "b" * 64}, r"on other rows: .*checksum aaaaaaaaaaaa, not bbbbbbbbbbbb"),
        ({"seeds": [0, 5]}, r"with 2 seeds; give at least these \(seeds 0, 1\), or choose another folder"),
        ({"seeds": [0, 5], "budget": 60.0}, r"with another budget \(none, not 60.0\)"),
    ],
)
def test_another_comparison_is_refused_naming_the_difference(out, changes, difference):
    before = (out / COMPARISON).read_bytes()
    with (
        pytest.raises(RunError, match=f"holds a comparison {difference}") as refused,
        claimed(out, {**ASKED, **changes}),
    ):
        pytest.fail("claimed")
    assert "\n" not in str(refused.value)
    assert (out / COMPARISON).read_bytes() == before


@pytest.mark.parametrize("content", [{key: ASKED[key] for key in ("data", "seeds")}, {"format": 1}, {"format": 3}, {}])
def test_the_folder_of_another_version_is_refused_in_one_line(tmp_path, content):
    (tmp_path / COMPARISON).write_text(json.dumps(content))
    for ask in (lambda: stored(tmp_path), claimed(tmp_path, ASKED).__enter__):
        with pytest.raises(RunError, match=r"of another version of metasched, .*; compare again in another folder$"):
            ask()


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(RunError, match="already exists"), claimed(tmp_path, ASKED):
        pytest.fail("claimed")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    with pytest.raises(RunError, match="already exists"):
        stored(tmp_path)  # which is asked before anything takes time


def test_a_damaged_comparison_says_so(tmp_path):
    (tmp_path / COMPARISON).write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        stored(tmp_path)


def test_one_process_works_there_at_a_time(out):
    with claimed(out, ASKED), pytest.raises(RunError, match="another process"), claimed(out, ASKED):
        pytest.fail("claimed")
