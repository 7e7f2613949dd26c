"""The benchmark of data mixing: its smallest size from corpus to table, and what its numbers are made of."""

import json
import random
import struct
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:rewards of rows leave out", "ignore:a batch of"),
]
BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
MODULES = ("mixing", "mixing_corpus", "mixing_model", "mixing_table", "images", "torch_rewards")


@pytest.fixture
def benchmark(monkeypatch):
    """A function that imports a script of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("common", *MODULES):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__


@pytest.fixture
def corpus(tmp_path):
    """Made-up text: the target is of three letters, one source has two of them, and another none."""
    chance, folder = random.Random(0), tmp_path / "corpus"
    letters = {"danish/target": "abc", "danish/tune": "abc", "danish/test": "abc"}
    for name, drawn in (letters | {"sources/near": "abd", "sources/random": "xyz"}).items():
        path = folder / f"{name}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(chance.choices(drawn, k=2000)), encoding="ascii")
    known = {"targets": {"danish": {"sources": ["near", "random"], "useful": ["near"]}}, "noise": ["random"]}
    known["files"] = {str(path.relative_to(folder).with_suffix("")): {"bytes": 2000} for path in folder.rglob("*.bin")}
    (folder / "corpus.json").write_text(json.dumps(known), encoding="utf-8")
    return folder


@pytest.fixture
def tiny(benchmark, corpus):
    """The smallest size, and the data cut for it."""
    model = benchmark("mixing_model")
    return model.SIZES["tiny"], model.load(corpus, "danish", model.SIZES["tiny"], "cpu")


def run(script, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [script.__name__, *map(str, arguments)])
    script.main()


def lines_of(method, rate, seed, *points, target="danish", **more):
    """A run as it stands in a file of results."""
    return (
        {"kind": "run", "size": "tiny", "steps": 100, "device": "cpu", "target": target, "method": method, "rate": rate}
        | {"seed": seed, "points": [list(point) for point in points], "useful": 0.5, "noise": 0.1}
        | {"rows": {"near": 60, "random": 40}, "most_passes": ["near", 1.5], "seconds": 1.0}
        | more
    )


def test_every_method_is_tuned_run_and_written_into_a_page(benchmark, corpus, tmp_path, monkeypatch, capsys):
    mixing, table, out = benchmark("mixing"), benchmark("mixing_table"), tmp_path / "out" / "mixing.jsonl"
    asked = ["--corpus", corpus, "--out", out, "--target", "danish", "--size", "tiny", "--steps", 16]
    for step in (["--tune", "--rates", 1e-3, 3e-3], ["--seeds", 0], ["--seeds", 0, 1], ["--time"]):
        with pytest.raises(SystemExit) as ended:
            run(mixing, monkeypatch, *asked, "--processes", 2, *step)
        assert ended.value.code == 0
    lines = mixing.read(out)
    made = [(line["method"], line["rate"], line["seed"]) for line in lines if line["kind"] == "run"]
    assert len(set(made)) == len(made)  # nothing was run twice
    tried = {(method, rate) for method, rate, seed in made if seed == mixing.TUNING_SEED}
    assert {method for method, _ in tried} == {*mixing.METHODS}
    for method in mixing.METHODS:
        rates = sorted(rate for name, rate in tried if name == method)
        assert len(rates) == 3  # the best of two is at an edge, so that there is one further
        assert rates[1] / rates[0] == pytest.approx(rates[2] / rates[1])
    for method in mixing.REPORTED:
        best = mixing.tuned(lines, "danish", method)
        assert {(*best, 0), (*best, 1)} <= set(made)
    files = next(line["files"] for line in lines if line["kind"] == "corpus")
    assert files["sources/near"]["bytes"] == 2000

    page = tmp_path / "mixing.md"
    marks = [f"<!-- mixing-{name}: begin -->\nold\n<!-- mixing-{name}: end -->\n" for name in table.PARTS]
    page.write_text("before\n" + "".join(marks) + "after\n", encoding="utf-8")
    (tmp_path / "figures").mkdir()
    run(table, monkeypatch, out, "--size", "tiny", "--page", page)
    text = page.read_text(encoding="utf-8")
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert all(f"| {method} |" in text for method in mixing.REPORTED)
    assert (tmp_path / "figures" / "mixing.svg").read_text(encoding="utf-8").startswith("<svg")


def test_doge_is_fixed_at_the_mean_shares_of_mirror_and_needs_its_run(benchmark, corpus, tmp_path):
    mixing, model = benchmark("mixing"), benchmark("mixing_model")
    campaign = mixing.Campaign(corpus, tmp_path / "runs.jsonl", "tiny", model.SIZES["tiny"], "cpu", None)
    common = campaign.common
    campaign.add(lines_of("mirror", 0.1, mixing.TUNING_SEED, (32, 5.0), **common))
    campaign.add(lines_of("mirror", 0.2, mixing.TUNING_SEED, (32, 4.0), **common))
    campaign.add(lines_of("mirror", 0.2, 3, (32, 4.0), **common, rows={"near": 30, "random": 10}))
    assert campaign.shares(mixing.Job("danish", "doge", 0.5, 3)) == {"near": 0.75, "random": 0.25}
    with pytest.raises(SystemExit, match="doge needs a run of mirror on danish with seed 4; make it first"):
        campaign.shares(mixing.Job("danish", "doge", 0.5, 4))


def test_the_best_on_the_tuning_pages_is_chosen_and_its_edge_extended(benchmark):
    mixing = benchmark("mixing")
    ends = {("uniform", 1e-3): 4.0, ("uniform", 2e-3): 3.0, ("uniform", 4e-3): 3.5}
    ends |= {("half-useful", 1e-3): 3.9, ("half-useful", 2e-3): 3.2, ("half-useful", 4e-3): 2.9}
    lines = [lines_of(*key, mixing.TUNING_SEED, (100, end)) for key, end in ends.items()]
    lines += [lines_of("uniform", 1e-3, 0, (100, 1.0)), lines_of("uniform", 1e-3, mixing.TUNING_SEED, (100, 1.0))]
    lines[-1]["target"] = "docs"  # neither a reported run nor another target decides
    assert mixing.tuned(lines, "danish", "uniform") == ("uniform", 2e-3)
    assert mixing.tuned(lines, "danish", "static") == ("half-useful", 4e-3)
    assert mixing.tuned(lines, "danish", "ours") is None
    rates = [1e-3, 2e-3, 4e-3]
    assert mixing.beyond(lines, "danish", "uniform", rates) is None
    assert mixing.beyond(lines, "danish", "half-useful", rates) == 8e-3
    assert mixing.beyond(lines, "docs", "uniform", rates) == 5e-4
    further = [*lines, lines_of("half-useful", 8e-3, mixing.TUNING_SEED, (100, 2.5))]
    assert mixing.beyond(further, "danish", "half-useful", rates) == 8e-3  # one step and no more


def test_a_method_that_was_not_tuned_is_refused(benchmark, corpus, tmp_path, monkeypatch):
    asked = ["--corpus", corpus, "--out", tmp_path / "runs.jsonl", "--target", "danish", "--size", "tiny"]
    with pytest.raises(SystemExit, match="uniform has not been tuned yet; run with --tune first"):
        run(benchmark("mixing"), monkeypatch, *asked, "--methods", "uniform")
    with pytest.raises(SystemExit, match="unknown method 'unform'; known: uniform, "):
        run(benchmark("mixing"), monkeypatch, *asked, "--methods", "unform")


def test_the_target_is_trained_on_in_one_step_of_eight_of_the_last_quarter(benchmark, tiny, monkeypatch):
    size, data = tiny
    size = size._replace(steps=64)
    mixing = benchmark("mixing")
    expected = {"uniform": [55, 63], "ours": [55, 63], "target-only": list(range(64))}
    for method, own in expected.items():
        loop, drawn = mixing.Loop(data, size, method, 1e-3, 0), []
        for _ in range(size.steps):
            before = loop.drawn.sum()
            loop.step()
            drawn.append(int(loop.drawn.sum() - before))
        assert [turn for turn, count in enumerate(drawn) if count == 0] == own
        assert set(drawn) <= {0, size.batch}


def test_rewards_of_measured_steps_are_told_and_other_draws_forgotten(benchmark, tiny):
    size, data = tiny
    told = {}
    for method in ("ours", "ours-defaults", "exp3-loss"):
        loop = benchmark("mixing").Loop(data, size, method, 1e-3, 0)
        for _ in range(9):
            loop.step()
        assert loop.chooser.open() == ()
        history = loop.chooser.history()
        told[method] = sorted(set(history["id"][history["told"] >= 0].tolist()))
    assert told == {"ours": [0, 4, 8], "ours-defaults": [0, 8], "exp3-loss": list(range(9))}


def test_exp3_is_told_the_losses_of_the_rows(benchmark, tiny, monkeypatch):
    size, data = tiny
    loop, model = benchmark("mixing").Loop(data, size, "exp3-loss", 1e-3, 0), benchmark("mixing_model")
    asked, told = loop.chooser.ask, {}
    monkeypatch.setattr(loop.chooser, "ask", lambda: told.setdefault("draw", asked()))
    monkeypatch.setattr(loop.teller, "tell", lambda draw, reward: told.update(reward=reward))
    with torch.no_grad():
        before = model.GPT(size)
        before.load_state_dict(loop.model.state_dict())
    loop.step()
    draw = told["draw"]
    expected = model.row_losses(before, data.rows[torch.from_numpy(loop.starts[draw.tasks] + draw.rows)])
    torch.testing.assert_close(told["reward"], expected.detach())


def test_fixed_mixtures_have_the_shares_that_their_names_say(benchmark, tiny):
    _, data = tiny
    data = data._replace(sizes={"near": 100, "far": 100, "random": 100})
    mixing = benchmark("mixing")
    assert mixing.mixture(data, None, 0.5, None)[1] == {"near": 0.5, "far": 0.25, "random": 0.25}
    assert mixing.mixture(data, "useful", None, None) == (("near",), None)
    assert mixing.mixture(data, "not noise", None, None) == (("near", "far"), None)


def test_batches_hold_the_rows_that_were_drawn(benchmark, tiny, monkeypatch):
    size, data = tiny
    mixing, seen = benchmark("mixing"), []
    losses = mixing.mixing_model.row_losses
    monkeypatch.setattr(mixing.mixing_model, "row_losses", lambda model, rows: seen.append(rows) or losses(model, rows))
    mixing.Loop(data, size, "useful", 1e-3, 0).step()
    assert set(bytes(seen[0].flatten().tolist()).decode()) == set("abd")  # those of the useful source
    assert len({tuple(row) for row in seen[0].tolist()}) == size.batch


def test_a_method_that_takes_longer_is_taken_earlier_at_equal_time(benchmark):
    mixing, table = benchmark("mixing"), benchmark("mixing_table")
    tuning = [lines_of(method, 1e-3, mixing.TUNING_SEED, (100, 1.0)) for method in ("uniform", "ours")]
    ends = {"uniform": [(50, 4.0), (100, 3.0)], "ours": [(50, 3.5), (75, 2.5), (100, 2.0)]}
    runs = [lines_of(method, 1e-3, seed, *points) for method, points in ends.items() for seed in (0, 1)]
    times = [{"kind": "time", "method": "uniform", "seconds": 0.010}, {"kind": "time", "method": "ours"}]
    times[1]["seconds"] = 0.0125
    results = table.Results.of([*tuning, *runs, *times])
    assert results.slower("ours") == pytest.approx(1.25)
    # 100 steps of uniform take as long as 80 of ours: a fifth of the way from 2.5 to 2.0.
    assert results.timed("danish", "ours")[0] == pytest.approx(2.4)
    assert results.less("danish", "ours", "uniform") == pytest.approx([-0.6, -0.6])
    assert results.less("danish", "ours", "uniform", 1.0) == pytest.approx([-1.0, -1.0])
    # 3.0 lies half way from 3.5 to 2.5, at 62.5 steps, which take as long as 78.125 of uniform.
    assert results.saved("danish", "ours") == pytest.approx([0.375, 0.375])
    assert results.saved("danish", "ours", in_time=True) == pytest.approx([0.21875, 0.21875])
    assert table.share(results.saved("danish", "ours")) == "38% [38, 38]"
    late = [line | {"points": [[50, 4.5], [100, 3.1]]} if line["method"] == "ours" else line for line in runs]
    never = table.Results.of([*tuning, *late, *times]).saved("danish", "ours")
    assert table.share(never) == "not reached in 2 of 2 runs"


def test_a_run_that_is_planned_for_the_same_time_makes_fewer_steps(benchmark, tiny):
    size, data = tiny
    mixing, table = benchmark("mixing"), benchmark("mixing_table")
    found = mixing.trained(data, size, mixing.Job("danish", "ours+slower=1.25", 1e-3, 0), (0.5, 1.0))
    assert [step for step, _ in found["points"]] == [13, 26]  # of 32
    assert sum(found["rows"].values()) == 25 * size.batch  # one is the target's
    assert table.shown("ours+width=1+slower=1.25") == "ours, width=1, shortened"
    assert table.as_timed("ours+width=1+layers=last+slower=1.25") == "ours+layers=last"


def test_the_page_has_the_tables_that_its_results_make(benchmark):
    table = benchmark("mixing_table")
    results = table.Results.of(table.read(BENCHMARKS / "results" / "mixing.jsonl"))
    text = (BENCHMARKS.parent / "docs" / "mixing.md").read_text(encoding="utf-8")
    written = [name for name in table.PARTS if f"<!-- mixing-{name}: begin -->" in text]
    assert {"first", "methods"} <= set(written)
    for name in written:
        assert table.between(text, f"mixing-{name}", table.PARTS[name](results)) == text


def test_table_of_images_is_made_of_the_results_beside_it(benchmark):
    images = benchmark("images")
    path = BENCHMARKS / "results" / "images.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    reported = {line["method"]: line["rate"] for line in lines if line["kind"] == "run"}
    assert images.tuned(lines) == reported


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
    assert list(corpus.messages("da")()) == [b"Fil ikke fundet\nen fil\nflere filer\n"]
