"""The campaign's small runs are runs: a change of the runner that they do not follow is seen in the fast tests."""

import json

import pytest

from campaign import protocol
from campaign.table import count
from metasched.runs import runner
from metasched.runs.jobs import claim_folders


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """What two runs leave that only count, and two that train."""
    place = tmp_path_factory.mktemp("runs")
    protocol.run(place / "counted", (0, 1))
    runner.run(claim_folders(protocol._jobs((0, 1), place / "trained"), place / "trained"), checkpoint_seconds=0)
    return place / "counted", place / "trained"


def test_runs_that_count_leave_the_files_of_runs_that_train(folders):
    counted, trained = ({name for name, _ in protocol.content(folder)} for folder in folders)
    assert counted == trained
    assert any(name.endswith("checkpoint.safetensors") for name in counted)


@pytest.mark.parametrize("kind", ["*.json", "*.jsonl"])
def test_their_files_hold_the_same_names(folders, kind):
    counted, trained = folders
    paths = sorted(path.relative_to(counted) for path in counted.rglob(kind))
    assert paths
    for path in paths:
        assert names(counted / path) == names(trained / path)


def names(path):
    """The names in each object of a file, and in the objects inside."""
    text = path.read_text()
    return [inside(json.loads(part)) for part in ([text] if path.suffix == ".json" else text.splitlines())]


def inside(value):
    return {name: inside(held) for name, held in value.items()} if isinstance(value, dict) else None


def test_a_crash_before_any_operation_leads_to_the_bytes_of_a_run_that_was_never_stopped(tmp_path):
    counted = count("protocol", protocol.explore(tmp_path, (0,), crashes=1))
    assert counted.attempts > 100
    assert [f"{each.case}: {each.detail}" for each in counted.failures] == []
