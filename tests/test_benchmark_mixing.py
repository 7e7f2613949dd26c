"""The benchmark of data mixing: its smallest size from corpus to table, and what its numbers are made of."""

import json
import random
import struct
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
MODULES = ("mixing", "mixing_corpus", "mixing_model", "mixing_reward", "mixing_table", "images", "torch_rewards")


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


def test_smallest_size_runs_from_corpus_to_table(benchmark, corpus, tmp_path, monkeypatch, capsys):
    mixing, out = benchmark("mixing"), tmp_path / "out" / "mixing.jsonl"
    asked = ["--corpus", corpus, "--out", out, "--target", "danish", "--size", "tiny"]
    methods = ["uniform", "mirror+rate=0.1", "per-source-thompson"]
    for seeds in ([0], [0, 1]):  # of the second, half is there already
        with pytest.raises(SystemExit) as ended:
            run(mixing, monkeypatch, *asked, "--methods", *methods, "--seeds", *seeds, "--processes", 2)
        assert ended.value.code == 0
    run(mixing, monkeypatch, *asked, "--methods", "uniform", "mirror+rate=0.1", "--time")
    lines = mixing.read(out)
    made = sorted((line["method"], line["seed"]) for line in lines if line["kind"] == "run")
    assert made == sorted((method, seed) for method in methods for seed in (0, 1))
    assert "bits per byte  useful" in capsys.readouterr().out
    run(benchmark("mixing_table"), monkeypatch, out)
    table = capsys.readouterr().out
    assert "| mirror+rate=0.1 |" in table
    assert "danish" in table


@pytest.mark.parametrize("kind", ["loss", "probability", "adam", "adam-probability"])
def test_rewards_of_rows_are_inner_products_of_their_own_gradients_with_the_targets(benchmark, tiny, kind):
    size, data = tiny
    model, reward = benchmark("mixing_model"), benchmark("mixing_reward")
    torch.manual_seed(0)
    network = model.GPT(size)
    optimiser = torch.optim.AdamW(network.parameters(), 1e-2)
    for _ in range(3):  # so that Adam has an estimate of the squared gradients
        model.row_losses(network, data.rows[:8]).mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    weights = [part.weight for part in network.modules() if isinstance(part, torch.nn.Linear)]

    def gradient(rows):
        return [slope.double() for slope in torch.autograd.grad(model.row_losses(network, rows).mean(), weights)]

    wanted = gradient(data.target[:4])
    if kind.startswith("adam"):
        squares = [optimiser.state[weight]["exp_avg_sq"].double() for weight in weights]
        wanted = [slope / (square.sqrt() + 1e-8) for slope, square in zip(wanted, squares, strict=True)]
    length = sum((slope**2).sum() for slope in wanted).sqrt()
    batch = data.rows[::30][:8]
    expected = torch.stack(
        [
            sum((mine * theirs).sum() for mine, theirs in zip(gradient(row[None]), wanted, strict=True)) / length
            for row in batch
        ]
    )
    if kind.endswith("probability"):
        expected = expected * torch.exp(-model.row_losses(network, batch).detach().double())

    rewards = reward.RowRewards(network, optimiser, kind)
    rewards.aim(data.target[:4])
    found = rewards.backward(batch)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    trained = [weight.grad for weight in weights]
    torch.testing.assert_close(trained, [slope.float() for slope in gradient(batch)])  # it trains as well


def test_the_target_is_trained_on_in_one_step_of_eight_of_the_last_quarter(benchmark, tiny):
    size, data = tiny
    size = size._replace(steps=64)
    for method in ("uniform", "thompson", "per-source-uniform"):
        loop = benchmark("mixing").Loop(data, size, method, 0)
        for _ in range(size.steps):
            loop.step()
        assert (loop.drawn.sum(1) == 0).nonzero()[0].tolist() == [55, 63]
        assert set(loop.drawn.sum(1)) == {0, size.batch}


def test_rewards_reach_the_chooser_in_blocks_and_rows_without_one_are_forgotten(benchmark, tiny):
    size, data = tiny
    loop = benchmark("mixing").Loop(data, size, "mirror+every=4", 0)
    for _ in range(7):
        loop.step()
    assert len(loop.chooser.open()) == 7
    loop.step()
    assert loop.chooser.open() == ()
    told = loop.chooser.history()
    assert sorted(set(told["id"][told["told"] >= 0].tolist())) == [0, 4]


def test_batches_hold_the_rows_that_were_drawn(benchmark, tiny, monkeypatch):
    size, data = tiny
    loop = benchmark("mixing").Loop(data, size, "useful", 0)
    seen = []
    monkeypatch.setattr(loop, "_train", lambda rows, measured=False: seen.append(rows))
    loop.step()
    letters = set(bytes(seen[0].flatten().tolist()).decode())
    assert letters == set("abd")  # those of the useful source
    assert len({tuple(row) for row in seen[0].tolist()}) == size.batch


def test_table_has_the_mean_of_the_seeds_and_how_soon_uniform_is_reached(benchmark, tmp_path, capsys, monkeypatch):
    ends = {"uniform": [[50, 0, 4.0], [100, 0, 3.0]], "mirror": [[50, 0, 3.5], [100, 0, 2.0]]}
    lines = [
        {"kind": "run", "size": "tiny", "target": "danish", "method": method, "seed": seed, "steps": 100}
        | {"points": points, "useful": 0.5, "noise": 0.1, "seconds": 1.0}
        for method, points in ends.items()
        for seed in (0, 1)
    ]
    lines += [{"kind": "time", "size": "tiny", "method": method, "seconds": 0.01} for method in ends]
    path = tmp_path / "mixing.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run(benchmark("mixing_table"), monkeypatch, path)
    said = capsys.readouterr().out
    assert "| mirror | 2.000 | 67% | 50% | 10% | 10.0 ms |" in said  # 3.0 lies a third of the way from 3.5 to 2.0
    assert "-1.000" in said


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
