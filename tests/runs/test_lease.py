import os
import time

import msgspec
import pytest

import metasched as ms
from metasched.errors import RunError
from metasched.runs import lease as leases
from metasched.runs import runner as engine
from metasched.runs.folder import BusyError
from metasched.runs.jobs import claim_folders, make_jobs
from metasched.runs.lease import LEASE, Lease, LostError, holder, leased


def test_a_lease_is_there_while_it_is_held_and_names_its_holder(tmp_path):
    with leased([tmp_path]) as held:
        assert holder(tmp_path) == held[tmp_path].holder
        assert holder(tmp_path).process == os.getpid()
    assert not (tmp_path / LEASE).exists()


def test_a_second_holder_on_this_machine_is_told_to_try_again(tmp_path):
    with (
        leased([tmp_path]),
        pytest.raises(BusyError, match="another process is working"),
        leased([tmp_path]),
    ):
        pass


def test_what_a_dead_process_left_behind_is_taken_over(tmp_path):
    Lease(tmp_path).take()
    with leased([tmp_path]) as held:
        held[tmp_path].check()


def elsewhere(place, seconds_ago):
    """A lease that a process on another machine has last touched so long ago."""
    other = Lease(place)
    other.holder = msgspec.structs.replace(other.holder, host="another")
    (place / LEASE).write_bytes(msgspec.json.encode(other.holder))
    then = time.time() - seconds_ago
    os.utime(place / LEASE, (then, then))


def test_a_lease_of_another_machine_holds_as_long_as_it_is_touched(tmp_path):
    elsewhere(tmp_path, 0)
    with pytest.raises(BusyError, match="another is working on this run"), leased([tmp_path]):
        pass


def test_a_lease_of_another_machine_that_went_silent_is_taken_over(tmp_path):
    elsewhere(tmp_path, leases.STALE_SECONDS + 1)
    with leased([tmp_path]) as held:
        held[tmp_path].check()


def test_a_holder_shows_that_it_lives(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.01)
    with leased([tmp_path]):
        os.utime(tmp_path / LEASE, (0, 0))
        end = time.monotonic() + 600
        while leases.seconds_since(tmp_path) > 60:
            assert time.monotonic() < end, "the lease was never touched"
            time.sleep(0.01)


def test_a_worker_that_was_given_up_and_returns_writes_nothing_more(tasks, tmp_path):
    out = tmp_path / "run"
    config = ms.Joint(updates=6, eval_every=1, batch_size=4)
    (job,) = claim_folders(make_jobs(tasks, "uniform", learner=config, seeds=[0], out=out), out)

    def given_up(_, record):
        if record["update"] == 2:
            Lease(out).take()  # somebody else took the run over
            given_up.content = {path.name: path.read_bytes() for path in out.iterdir()}

    with pytest.raises(LostError, match="has passed to process"):
        engine.run([job], on_record=given_up, checkpoint_seconds=0)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == given_up.content
    assert not (out / "outcome.jsonl").exists()
    engine.run([job])
    assert (out / "outcome.jsonl").exists()


def test_what_a_kill_left_of_a_lease_is_tidied(tmp_path):
    (tmp_path / "lease.json.part").write_bytes(b'{"token": "half')
    with leased([tmp_path]) as held:
        held[tmp_path].check()
    assert {path.name for path in tmp_path.iterdir()} == {".lock"}


def test_a_folder_that_will_never_do_is_not_waited_for(tmp_path):
    """Busy is tried again and again: a link in the folder, which nobody else will remove, is no such thing."""
    (tmp_path / "metrics.jsonl.part").symlink_to("elsewhere")
    with pytest.raises(RunError, match="is a link; remove it") as refused, leased([tmp_path]):
        pass
    assert not isinstance(refused.value, BusyError)
