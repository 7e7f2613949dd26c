"""The campaign's attacks on inputs, in short: damaged files, choosers, downloads."""

import os
from pathlib import Path

import pytest

from campaign import chooser, downloads, mutations
from campaign.formats import Format, formats, prepare
from campaign.mutate import edits
from campaign.table import Effort, Verdict, count
from metasched.datasets import store

pytestmark = pytest.mark.slow


def failures(results):
    counted = count("any", results)
    assert counted.attempts > 0
    return [f"{each.verdict}: {each.case}: {each.detail}" for each in counted.failures]


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    place = tmp_path_factory.mktemp("good")
    prepare(place)
    return formats(place)


def test_undamaged_files_of_every_format_are_read(known, tmp_path):
    for name, one in known.items():
        for number, good in enumerate(one.good):
            (tmp_path / f"{name}{number}").mkdir()
            one.read(good, tmp_path / f"{name}{number}")


def test_damaged_files_are_read_or_refused_in_one_line(known, tmp_path):
    numbers = range(20 * len(known))
    assert failures(mutations.attempts(known, 0, numbers, tmp_path / "at", tmp_path / "found")) == []
    assert not (tmp_path / "found").exists()


def found():
    return sorted(mutations.FOUND.iterdir(), key=lambda path: path.name)


@pytest.mark.parametrize("path", found(), ids=lambda path: path.name)
def test_what_was_found_once_is_refused_in_one_line_ever_after(known, tmp_path, path):
    one = known.get(path.stem)
    if one is None:
        pytest.skip(f"{path.stem} needs a package that is not here")
    assert mutations.outcome(one, path.read_bytes(), tmp_path / "at") == (Verdict.HELD, "")


def test_a_reader_that_fails_is_noticed_and_the_damage_kept_is_small(tmp_path):
    def read(content: bytes, at: Path) -> None:
        assert content == bytes(100), "a traceback"

    fragile = {"odd": Format((bytes(100),), edits, read)}
    results = list(mutations.attempts(fragile, 0, range(30), tmp_path / "at", tmp_path / "found"))
    assert Verdict.TRACEBACK in {each.verdict for each in results}
    assert "a traceback" in next(each.detail for each in results if each.detail)
    for kept in (tmp_path / "found").iterdir():
        assert mutations.outcome(fragile["odd"], kept.read_bytes(), tmp_path / "at")[0] is Verdict.TRACEBACK


def test_attempts_of_one_seed_are_the_same_whoever_makes_them(tmp_path):
    seen = []
    known = {"any": Format((bytes(50),), edits, lambda content, at: seen.append(content))}
    list(mutations.attempts(known, 5, range(20), tmp_path / "at"))
    list(mutations.attempts(known, 5, range(10, 20), tmp_path / "at"))
    assert seen[10:20] == seen[20:]


@pytest.mark.parametrize("number", [1, 4])
def test_a_chooser_does_what_its_plain_model_says(number):
    assert chooser.session(0, number, 400) == (400, Verdict.HELD, "")


def test_a_chooser_that_forgets_a_draw_is_noticed(monkeypatch):
    from metasched import Chooser

    monkeypatch.setattr(Chooser, "open", lambda self: ())
    done, verdict, _ = chooser.session(0, 1, 400)
    assert done < 400
    assert verdict is Verdict.LOST


def test_downloads_from_bad_servers_end_in_the_right_bytes_or_in_one_line(tmp_path, monkeypatch):
    for name in ("TIMEOUT_SECONDS", "DEADLINE_SECONDS", "SLOWEST"):
        monkeypatch.setattr(store, name, getattr(store, name))
    monkeypatch.setattr(os, "environ", os.environ.copy())
    # On a busy machine a good home, too, is silent for a moment.
    for name, seconds in (("SILENCE", 2.0), ("DEADLINE", 12.0), ("SECONDS", 600.0)):
        monkeypatch.setattr(downloads, name, seconds)
    assert failures(downloads.downloads(Effort(seed=0, attempts=12, workers=1, place=tmp_path))) == []
