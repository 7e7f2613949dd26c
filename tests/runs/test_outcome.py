import gzip

import msgspec
import numpy as np
import pytest

from metasched.errors import DataError
from metasched.runs import outcome as outcomes
from metasched.runs.outcome import About, Diverged, Final, Origin, Outcome, Study, outputs_of
from metasched.runs.spec import DataSpec, RunSpec

FINAL = Final(
    test_accuracy=0.5,
    balanced_test_accuracy=0.4,
    test_accuracy_by_class=(0.5, None),
    drawn_by_label=((1.5, 2.0), (0.0, 0.0)),
)


def outcome(seed=0, **changes):
    what = {"network": "mlp", "learner": "joint", "settings": {"batch_size": 4}, "scheduler": "ucb", "reward": "gain"}
    spec = RunSpec(data=DataSpec(fingerprint="0a"), **what, seed=seed)
    known = {
        "run": spec.name,
        "spec": spec,
        "method": "ucb",
        "family": "active",
        "about": About(name="made up", simulated=False, tasks=("a", "b"), source_rows=9, target_rows=3, test_rows=5),
        "origin": Origin(created="2026-01-01T00:00:00+00:00", command="test", device="cpu"),
        "updates": (1, 2),
        "samples": (8, 16),
        "test_accuracy": (0.25, 0.5),
        "final": FINAL,
        "drawn": (8, 8),
        "schedule": ((1, 1, 0), (1, 1, 0)),
    }
    return Outcome(**{**known, **changes})


STUDY = Study(experiment="digits", regime="few-label", variant="30 labels", cell="digits/few-label-30", title="Digits")


class TestFiles:
    @pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
    def test_what_is_written_is_read(self, tmp_path, name):
        wanted = [
            outcome(0, study=STUDY),
            outcome(1, final=Final(test_accuracy=0.1)),
            outcome(2, study=STUDY, final=None, diverged=Diverged(update=2, cause="too fast")),
        ]
        outcomes.write(tmp_path / name, wanted)
        assert list(outcomes.read(tmp_path / name)) == wanted

    def test_a_compressed_file_is_small_and_has_no_time_in_it(self, tmp_path, monkeypatch):
        wanted = [outcome(seed, study=STUDY, method=name) for name in ("a", "b") for seed in range(10)]
        outcomes.write(tmp_path / "a.jsonl", wanted)
        outcomes.write(tmp_path / "a.jsonl.gz", wanted)
        monkeypatch.setattr("time.time", lambda: 1.0)
        outcomes.write(tmp_path / "b.jsonl.gz", wanted)
        packed = (tmp_path / "a.jsonl.gz").read_bytes()
        assert packed == (tmp_path / "b.jsonl.gz").read_bytes()
        assert 10 * len(packed) < len(gzip.decompress(packed)) == (tmp_path / "a.jsonl").stat().st_size

    def test_lines_may_be_added_one_by_one(self, tmp_path):
        with (tmp_path / "a.jsonl").open("ab") as stream:
            for seed in range(3):
                stream.write(outcomes.encode(outcome(seed)))
        assert [found.spec.seed for found in outcomes.read(tmp_path / "a.jsonl")] == [0, 1, 2]

    @pytest.mark.parametrize("cut", [1, 7, 100])
    def test_a_last_line_that_a_kill_cut_short_is_left_out(self, tmp_path, cut):
        outcomes.write(tmp_path / "a.jsonl", [outcome(seed, samples=(seed, 999)) for seed in range(2)])
        content = (tmp_path / "a.jsonl").read_bytes()
        start = content.rstrip(b"\n").rindex(b"\n") + 1
        (tmp_path / "a.jsonl").write_bytes(content[: min(start + cut, len(content) - 2)])
        assert [found.spec.seed for found in outcomes.read(tmp_path / "a.jsonl")] == [0]


class TestBadFiles:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"format": 1}, "its format is 1"),
            ({"format": None}, "its format is None"),
            ({"family": "best"}, "Invalid enum value 'best' - at `$.family`"),
            ({"final": {"test_accuracy": "high"}}, "Expected `float`, got `str` - at `$.final.test_accuracy`"),
            ({"updates": [1]}, "differ in length"),
            ({"updates": [-1, 2]}, "`int` >= 0"),
            ({"surprise": 1}, "unknown field `surprise`"),
            ({"diverged": {"update": 1, "cause": "x"}}, "either final or diverged"),
            ({"spec": []}, "Expected `object`"),
            ({"final": {"test_accuracy": 0.5, "outputs": "AAAA"}}, "its outputs are not those of its test rows"),
            ({"final": {"test_accuracy": 0.5, "outputs": ""}}, "its outputs are not those of its test rows"),
            ({"final": {"test_accuracy": 0.5, "outputs": "?"}}, "Invalid base64"),
        ],
    )
    def test_the_line_and_the_fault_are_named(self, tmp_path, change, message):
        content = {**msgspec.json.decode(outcomes.encode(outcome())), **change}
        path = tmp_path / "a.jsonl"
        path.write_bytes(outcomes.encode(outcome(5)) + msgspec.json.encode(content) + b"\n")
        with pytest.raises(DataError) as error:
            list(outcomes.read(path))
        assert f"{path}, line 2: is not an outcome of format 3" in str(error.value)
        assert message in str(error.value)
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize(
        "content", [b"[]\n", b"nonsense\n", b"\xff\xfe\n", b"[" * 5000 + b"\n", b'{"shared": 3}\n']
    )
    def test_what_is_no_outcome_is_said(self, tmp_path, content):
        (tmp_path / "a.jsonl").write_bytes(content)
        with pytest.raises(DataError, match="line 1: is not an outcome"):
            list(outcomes.read(tmp_path / "a.jsonl"))

    def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked(self, tmp_path, monkeypatch):
        monkeypatch.setattr(outcomes, "LARGEST", 2**20)
        (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b" " * 2**24))
        with pytest.raises(DataError, match=r"a\.jsonl\.gz: unpacks to more than 1,048,576 bytes"):
            list(outcomes.read(tmp_path / "a.jsonl.gz"))

    @pytest.mark.parametrize("spoil", [lambda packed: packed[:-9], lambda packed: b"x" + packed, lambda _: b"{}\n"])
    def test_a_compressed_file_that_is_damaged_is_one_line(self, tmp_path, spoil):
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(spoil(gzip.compress(outcomes.encode(outcome()))))
        with pytest.raises(DataError, match=r"a\.jsonl\.gz: .*; give a file of results") as error:
            list(outcomes.read(path))
        assert "\n" not in str(error.value)

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(DataError, match="cannot read"):
            list(outcomes.read(tmp_path / "a.jsonl"))


class TestPredictions:
    def about(self, test_rows, classes=("x", "y")):
        return msgspec.structs.replace(outcome().about, test_rows=test_rows, classes=classes)

    @pytest.mark.parametrize(("test_rows", "n"), [(5, 5), (5000, 5000), (5001, 5000)])
    def test_they_come_back_as_they_were(self, tmp_path, test_rows, n):
        said = np.random.default_rng(0).dirichlet([1, 1], n).astype(np.float32)
        one = outcome(about=self.about(test_rows), final=Final(test_accuracy=0.5, outputs=said.tobytes()))
        outcomes.write(tmp_path / "a.jsonl", [one])
        (read,) = outcomes.read(tmp_path / "a.jsonl")
        assert read == one
        assert (outputs_of(read) == said).all()
        assert outputs_of(read).flags.writeable

    @pytest.mark.parametrize("size", [0, 4, 39, 20, 44])
    def test_a_length_that_does_not_fit_five_rows_of_two_classes_is_refused(self, size):
        one = outcome(about=self.about(5), final=Final(test_accuracy=0.5, outputs=bytes(size)))
        with pytest.raises(DataError, match="ucb, seed 0: has predictions that are not those of its test rows"):
            outputs_of(one)

    def test_numbers_have_as_many_columns_as_there_are(self):
        about = msgspec.structs.replace(self.about(5, tuple("abcdef")), deviation=2.0)
        one = outcome(about=about, final=Final(test_accuracy=0.5, outputs=bytes(60)))
        assert outputs_of(one).shape == (5, 3)

    @pytest.mark.parametrize("final", [FINAL, None])
    def test_a_run_without_them_says_so(self, final):
        with pytest.raises(DataError, match="has no predictions"):
            outputs_of(outcome(final=final))


def test_runs_are_compared_within_a_cell_or_on_the_same_rows():
    mine = [outcome(0), outcome(1)]
    other = [outcome(0, study=STUDY)]
    groups = outcomes.by_cell([*mine, *other])
    assert list(groups.values()) == [mine, other]
    assert "digits/few-label-30" in groups
