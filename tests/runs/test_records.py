import json
import os
from pathlib import Path

import pytest

from helpers import make_line as line
from metasched.errors import RunError
from metasched.runs.records import LONGEST_LINE, append, check, read

FINAL = {
    "test_accuracy": 0.5,
    "balanced_test_accuracy": 0.5,
    "test_accuracy_by_class": [0.5, None],
    "initial_test_accuracy": 0.1,
    "test_rows": 7,
    "drawn_by_label": [[4, 0], [0, 8]],
}
DIVERGED = {"seed": 0, "update": 2, "diverged": "the loss is no longer finite"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def put(path, *records):
    append(path.parent, records)


def test_what_was_written_comes_back(path):
    records = [line(1, loss=float("nan")), line(2, test_accuracy=0.5, test_rows=3), line(3, final=FINAL)]
    put(path, *records)
    assert str(read(path.parent)) == str(records)
    assert read(path.parent, 0) == []
    assert len(read(path.parent, 2)) == 2


@pytest.mark.parametrize("rest", [b"{", b"\xff\n", b'{"seed":0,"update":2}', b"[" * 9999 + b"\n", b"\0" * 50 + b"\n"])
def test_what_is_no_whole_json_ends_the_list(path, rest):
    put(path, line(1))
    with path.open("ab") as stream:
        stream.write(rest)
    assert read(path.parent) == [line(1)]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ([], "Expected `object`"),
        ({}, "missing required field `seed`"),
        (line(1, surprise=1), "unknown field `surprise`"),
        ({**line(1), "update": "1"}, r"`\$\.update`"),
        (line(1, loss="low"), r"`\$\.loss`"),
        (line(1, drawn=[-1, 0]), r"`\$\.drawn\[0\]`"),
        (line(1, final={}), r"`\$\.final`"),
        (line(1, tasks=[2**40]), "names task 1099511627776 of 2"),
        (line(2), "belongs to update 2"),
        ({**DIVERGED, "update": 1, "diverged": 1}, r"`\$\.diverged`"),
    ],
)
def test_a_line_of_other_keys_or_types_is_named_with_the_place(path, record, said):
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(RunError, match=rf"metrics\.jsonl, line 1: .*{said}.*start the run again"):
        read(path.parent)


def test_a_line_without_end_is_not_read_to_its_end(path):
    with path.open("wb") as stream:
        stream.truncate(100 * LONGEST_LINE)
    assert read(path.parent) == []


def test_a_pipe_is_not_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(RunError, match="is not a data file"):
        read(path.parent)


HOLDER = Path("a/metrics.jsonl")


@pytest.mark.parametrize(
    ("records", "updates"),
    [([], 0), ([line(1)], 1), ([line(1), line(2, final=FINAL)], 2), ([line(1), DIVERGED], 2)],
)
def test_records_of_the_run_pass(records, updates):
    check(records, updates, 2, (2, 2), HOLDER)


def test_a_run_that_diverged_within_a_chunk_has_fewer_records_than_updates():
    check([line(1), DIVERGED], 4, 5, (2, 2), HOLDER)


@pytest.mark.parametrize(
    ("records", "updates", "said"),
    [
        ([line(1)], 2, "lines are missing"),
        ([line(1)], 0, "lines are missing"),
        ([line(1), line(2, final=FINAL), line(3)], 3, "lines are missing"),
        ([line(1, final=FINAL)], 1, "line 1: belongs to another run"),
        ([line(1), line(2)], 2, "line 2: belongs to another run"),
        ([line(1, drawn=[4])], 1, "line 1: belongs to another run"),
        ([line(1), line(2, final={**FINAL, "drawn_by_label": [[1, 2], [3]]})], 2, "line 2: belongs to another run"),
        ([{**DIVERGED, "update": 1}, DIVERGED], 2, "line 1: is not the last"),
    ],
)
def test_records_of_another_run_are_refused(records, updates, said):
    with pytest.raises(RunError, match=said):
        check(records, updates, 2, (2, 2), HOLDER)
