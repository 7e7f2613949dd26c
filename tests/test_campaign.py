"""The campaign in short; `python -m campaign` is the long form."""

import math
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver, get_context
from multiprocessing.connection import wait
from pathlib import Path

import pytest

import metasched as ms
from campaign import faults, kills, loops, protocol, victims
from campaign.__main__ import main
from campaign.table import Effort, Result, Verdict, count, markdown, processor_seconds
from campaign.victims import Running, essence, start
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


def test_real_kills_of_an_executor_and_of_its_workers_change_no_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    assert failures(kills.workers(Effort(seed=0, attempts=4, workers=2, place=tmp_path))) == []


def test_real_kills_of_loops_with_draws_under_way_change_no_draw_and_no_reward(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    assert failures(kills.loops(Effort(seed=0, attempts=4, workers=2, place=tmp_path))) == []


def test_a_loop_that_forgets_open_draws_is_noticed(tmp_path, monkeypatch):
    loops.run("mixed draws", tmp_path / "whole")
    with monkeypatch.context() as killed:
        killed.setattr(loops, "append", dying_after(15, loops.append))
        with pytest.raises(KeyboardInterrupt):
            loops.run("mixed draws", tmp_path / "killed")
    shutil.copytree(tmp_path / "killed", tmp_path / "again")
    loops.run("mixed draws", tmp_path / "again")
    assert essence(tmp_path / "again") == essence(tmp_path / "whole")
    load = ms.Chooser.load_state_dict

    def forgetful(chooser, stored):
        load(chooser, stored)
        chooser.forget(chooser.open()[0])

    monkeypatch.setattr(ms.Chooser, "load_state_dict", forgetful)
    loops.run("mixed draws", tmp_path / "killed")
    assert essence(tmp_path / "killed") != essence(tmp_path / "whole")


def dying_after(times, function):
    """The function, which is interrupted when it is called once more."""
    calls = []

    def call(*arguments, **named):
        calls.append(None)
        if len(calls) > times:
            raise KeyboardInterrupt
        function(*arguments, **named)

    return call


def test_whoever_starts_a_process_does_not_hear_how_another_one_ended(tmp_path, monkeypatch):
    """Of two threads that ask at once for one exit code, only one hears it."""
    read = forkserver.read_signed

    def slowly(descriptor):
        time.sleep(0.2)
        return read(descriptor)

    monkeypatch.setattr(forkserver, "read_signed", slowly)
    running = [start(tmp_path / f"{number}", ["loop", "nonsense"]) for number in range(2)]
    for each in running:
        wait([each.process.sentinel])
    with ThreadPoolExecutor(3) as pool:
        last = pool.submit(lambda: start(tmp_path / "last", ["loop", "nonsense"]).end())
        ends = [last, *(pool.submit(one.end) for one in running)]
        assert [each.result().code for each in ends] == [1, 1, 1]


@pytest.mark.parametrize(("used", "least"), [(1.0, 0.2), (0.0, 2.0)])
def test_a_process_that_had_no_time_of_the_processor_is_waited_for_longer(tmp_path, monkeypatch, used, least):
    monkeypatch.setattr(Running, "_used", lambda _: used)
    monkeypatch.setattr(victims, "_SECONDS_BETWEEN_LOOKS", 0.1)
    process = get_context("spawn").Process(target=time.sleep, args=(600,), daemon=True)
    process.start()
    ended = Running(process, tmp_path, time.monotonic()).end(0.2)
    assert ended.code is None
    assert ended.seconds >= least
    assert processor_seconds(process.pid) == math.inf  # it is gone


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
