"""The campaign in short; `python -m campaign` is the long form."""

import os
from pathlib import Path

import pytest

from campaign import faults, kills, protocol
from campaign.__main__ import main
from campaign.table import Effort, Result, Verdict, count, markdown
from metasched.runs import checkpoint

pytestmark = pytest.mark.slow


def failures(results):
    counted = count("any", results)
    assert counted.attempts > 0
    return [f"{each.verdict}: {each.case}: {each.detail}" for each in counted.failures]


def test_every_crash_three_deep_leads_to_the_bytes_of_a_run_that_was_never_stopped(tmp_path):
    assert failures(protocol.explore(tmp_path, (0,))) == []


def test_a_crash_while_two_seeds_begin_or_run_loses_neither(tmp_path):
    assert failures(protocol.explore(tmp_path, (0, 1), crashes=1)) == []


def test_full_broken_and_foreign_disks_deleted_folders_and_clocks_lose_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "SEEDS", (0,))
    assert failures(faults.faults(Effort(seed=0, attempts=3, workers=1, place=tmp_path))) == []


def test_real_kills_of_a_run_that_is_resumed_change_no_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    effort = Effort(seed=0, attempts=2, workers=2, place=tmp_path)
    assert failures(kills.kills(effort, ("resume",))) == []


def test_real_kills_of_runs_that_only_count_change_no_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    assert failures(kills.counters(Effort(seed=0, attempts=8, workers=2, place=tmp_path))) == []


def test_the_model_sees_a_checkpoint_that_is_not_moved_aside(tmp_path, monkeypatch):
    """A writer that empties the old file first: the crash after that loses everything, and must be noticed."""
    monkeypatch.setattr(checkpoint, "rename", lambda old, _: old.write_bytes(b""))
    found = failures(protocol.explore(tmp_path, (0,), crashes=1))
    assert any("has no complete checkpoint" in each for each in found)


def test_results_are_counted_in_a_table_and_the_exit_code_says_whether_all_held(tmp_path, monkeypatch, capsys):
    results = [Result("a"), Result("b", Verdict.HANG, "no end after 60 s")]
    monkeypatch.setattr("campaign.__main__.find", lambda _: lambda _: iter(results))
    assert main(["protocol", "--out", str(tmp_path / "found.jsonl")]) == 1
    out, error = capsys.readouterr()
    assert out == markdown([count("protocol", results)]) + "\n"
    assert "| protocol | 2 | 1 | 0 | 0 | 1 | 0 |" in out
    assert "protocol: hangs: b: no end after 60 s" in error
    assert len(Path(tmp_path / "found.jsonl").read_text().splitlines()) == 2
    results.pop()
    assert main(["protocol"]) == 0


def test_ctrl_c_ends_all_attacks_with_the_table_so_far(monkeypatch, capsys):
    def interrupted(_):
        yield Result("a")
        raise KeyboardInterrupt

    monkeypatch.setattr("campaign.__main__.find", lambda _: interrupted)
    assert main(["protocol", "kills"]) == 130
    assert "| protocol | 1 | 1 | 0 | 0 | 0 | 0 |" in (out := capsys.readouterr().out)
    assert "kills" not in out


def test_an_attack_that_tried_nothing_has_not_held(monkeypatch):
    monkeypatch.setattr("campaign.__main__.find", lambda _: lambda _: iter(()))
    assert main(["protocol"]) == 1


def test_an_unknown_attack_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["nonsense"])
    assert "unknown attack nonsense; there are " in capsys.readouterr().err
