"""The benchmark of data mixing: its smallest size from corpus to table, and what its numbers are made of."""

import json
import random
import struct
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """A function that imports a script of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("common", "mixing", "mixing_corpus", "mixing_model", "mixing_table", "images", "torch_rewards"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__


@pytest.fixture
def corpus(tmp_path):
    """Made-up text under the names that the benchmark knows."""
    chance = random.Random(0)
    for name, letters in {"man-da": "abc", "messages-da": "abd", "random": "xyz", "tune": "abc", "test": "abc"}.items():
        (tmp_path / f"{name}.bin").write_text("".join(chance.choices(letters, k=2000)), encoding="ascii")
    return tmp_path


def run(script, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [script.__name__, *map(str, arguments)])
    script.main()


def lines_of(folder):
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def test_smallest_size_runs_from_corpus_to_table(benchmark, corpus, tmp_path, monkeypatch, capsys):
    mixing = benchmark("mixing")
    asked = ["--corpus", corpus, "--out", tmp_path / "out", "--size", "tiny", "--methods", "ours,uniform"]
    run(mixing, monkeypatch, *asked, "--tune", "--seeds", "100")
    for part in ("1/2", "2/2", "1/1"):  # the last finds nothing left to do
        run(mixing, monkeypatch, *asked, "--seeds", "0-1", "--part", part)
    run(mixing, monkeypatch, *asked, "--time")
    lines = lines_of(tmp_path / "out")
    assert [line["kind"] for line in lines] == ["tune"] * 4 + ["run"] * 4 + ["time"] * 4
    best = min((line for line in lines[:4] if line["method"] == "ours"), key=lambda line: line["points"][-1][1])
    assert {line["variant"] for line in lines[4:8] if line["method"] == "ours"} == {best["variant"]}
    results = tmp_path / "mixing-tiny.jsonl"
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    run(benchmark("mixing_table"), monkeypatch, results)
    table = capsys.readouterr().out
    assert "**ours**" in table
    assert "uniform (planned)" in table


def test_target_with_a_share_of_its_own_gets_just_that(benchmark, corpus):
    mixing, model = benchmark("mixing"), benchmark("mixing_model")
    size = model.SIZES["tiny"]
    for variant, share in (("uniform+share=2", 12), ("uniform+late=2", 3)):
        loop = mixing.Loop(model.load(corpus, size, "cpu"), size, variant, 1e-3, 0)
        for _ in range(size.steps):
            loop.step()
        assert loop.drawn.count("man-da") == share
        assert "man-da" not in loop.drawn[: 18 if "late" in variant else 1]


def test_method_that_takes_twice_as_long_is_judged_at_half_its_steps(benchmark, tmp_path):
    table = benchmark("mixing_table")
    common = {"size": "tiny", "device": "cpu", "steps": 100}
    points = {"ours": [[50, 3.0, 4.0], [100, 2.0, 2.5]], "uniform": [[50, 3.5, 4.5], [100, 3.0, 3.5]]}
    lines = [{"kind": "time", "method": name, "seconds": 2.0 if name == "ours" else 1.0} for name in points]
    lines += [
        {"kind": "run", "method": name, "variant": name, "seed": 0, "points": curve} for name, curve in points.items()
    ]
    path = tmp_path / "mixing-tiny.jsonl"
    path.write_text("".join(json.dumps(common | line) + "\n" for line in lines))
    found = table.Lines.read(path)
    assert found.equal_time("ours") == {0: 4.0}
    assert found.equal_time("uniform") == {0: 3.5}
    assert found.at("ours", 1.0) == {0: 2.5}


def test_settings_are_chosen_on_tuning_pages_and_on_seeds_that_all_of_them_have(benchmark):
    settled = benchmark("mixing").settled
    ends = {  # variant and seed: tuning pages, reported pages
        ("ours", 100): (2.0, 5.0),
        ("ours+share=4", 100): (3.0, 1.0),
        ("ours+share=4", 101): (0.5, 1.0),
    }
    lines = [
        {"kind": "tune", "size": "tiny", "method": "ours", "variant": variant, "rate": 1e-3, "seed": seed}
        | {"points": [[8, *end]]}
        for (variant, seed), end in ends.items()
    ]
    assert settled(lines, "tiny") == {"ours": ("ours", 1e-3)}


def test_table_of_images_is_made_of_the_results_beside_it(benchmark):
    images = benchmark("images")
    path = BENCHMARKS / "results" / "images.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    reported = {line["method"]: line["rate"] for line in lines if line["kind"] == "run"}
    assert images.tuned(lines) == reported


@pytest.mark.parametrize("size", ["small", "large"])
def test_reported_runs_have_the_settings_that_tuning_chose(benchmark, size):
    path = BENCHMARKS / "results" / f"mixing-{size}.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    reported = {line["method"]: (line["variant"], line["rate"]) for line in lines if line["kind"] == "run"}
    assert benchmark("mixing").settled(lines, size) == reported


def test_no_long_line_of_held_out_text_is_in_a_source(benchmark):
    corpus = benchmark("mixing_corpus")
    held, short = b"a line of held-out text that is long enough\n", b".TP\n"
    lines = corpus.Lines()
    assert corpus.gathered(iter([held + short]), 1000, lines) == held + short
    assert (
        corpus.gathered(iter([b"  " + held + short + b"something else\n"]), 1000, lines) == short + b"something else\n"
    )


def test_messages_come_out_of_a_compiled_catalogue(benchmark, tmp_path, monkeypatch):
    corpus = benchmark("mixing_corpus")
    texts = [b"Content-Type: text/plain\n", b"Fil ikke fundet", b"en fil\0flere filer"]
    start = 28 + 8 * len(texts)
    table, body = b"", b""
    for text in texts:
        table += struct.pack("<II", len(text), start + len(body))
        body += text + b"\0"
    folder = tmp_path / "da" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "a.mo").write_bytes(struct.pack("<7I", 0x950412DE, 0, len(texts), 0, 28, 0, 0) + table + body)
    monkeypatch.setattr(corpus, "MESSAGES", tmp_path)
    assert list(corpus.messages("da")) == [b"Fil ikke fundet\nen fil\nflere filer\n"]
