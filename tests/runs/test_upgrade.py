import msgspec
import pytest

from metasched.errors import DataError
from metasched.runs import outcome as outcomes

OLD = [
    {
        "shared": {
            "format": 2,
            "spec": {"data": {"fingerprint": "0a"}, "network": "mlp", "scheduler": "ucb", "config": {"batch_size": 4}},
            "family": "active",
            "about": {
                "name": "a",
                "simulated": False,
                "tasks": ["a"],
                "source_rows": 9,
                "target_rows": 3,
                "test_rows": 5,
            },
            "origin": {"created": "2026-01-01T00:00:00+00:00", "command": "test", "device": "cpu"},
            "final": {"test_accuracy": 0.5, "initial_test_accuracy": 0.25},
        }
    },
    {"method": {"method": "ours", "spec": {"options": {"upper": 0.5}}, "final": {"balanced_accuracy": 0.4}}},
    {"run": "0a", "spec": {"seed": 0}, "by_class": [0.5, None], "drawn_by_label": [[1.5, 2.0]]},
    {"run": "0b", "spec": {"seed": 1}, "final": {"test_accuracy": 0.75}},
    {"method": {"method": "other", "spec": {"config": {"meta_updates": 2}}}},
    {"run": "0c", "spec": {"seed": 0}},
]


def put(path, lines):
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path


def test_outcomes_of_the_last_version_are_read_with_what_their_neighbours_share(tmp_path):
    first, second, third = outcomes.read(put(tmp_path / "a.jsonl", OLD))
    assert [each.method for each in (first, second, third)] == ["ours", "ours", "other"]
    assert [each.spec.seed for each in (first, second, third)] == [0, 1, 0]
    assert first.spec.options == second.spec.options == {"upper": 0.5}
    assert third.spec.options == {}
    assert [each.run for each in (first, second, third)] == [each.spec.name for each in (first, second, third)]
    assert first.final == outcomes.Final(
        test_accuracy=0.5,
        initial_test_accuracy=0.25,
        balanced_test_accuracy=0.4,
        test_accuracy_by_class=(0.5, None),
        drawn_by_label=((1.5, 2.0),),
    )
    assert second.final.test_accuracy == 0.75
    assert third.final.balanced_test_accuracy is None


def test_a_line_of_this_version_takes_nothing_from_what_others_share(tmp_path):
    path = put(tmp_path / "a.jsonl", OLD)
    *_, last = outcomes.read(path)
    alone = msgspec.structs.replace(last, origin=msgspec.structs.replace(last.origin, device="gpu"), role="alone")
    with path.open("ab") as stream:
        stream.write(outcomes.encode(alone))
    assert list(outcomes.read(path))[-1] == alone


def test_what_was_written_by_the_version_before_the_last_is_refused(tmp_path):
    lines = [{"shared": {**OLD[0]["shared"], "format": 1}}, *OLD[1:]]
    with pytest.raises(DataError, match=r"line 3: is not an outcome of format 3 \(its format is 1\)"):
        list(outcomes.read(put(tmp_path / "a.jsonl", lines)))
