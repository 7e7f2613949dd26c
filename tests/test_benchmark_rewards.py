"""The benchmarks of rewards of rows: every kind and variant runs, and learns."""

import math
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:rewards of rows leave out")]
BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """A function that imports a script of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("common", "mixing_model", "row_kinds", "torch_rewards"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__


def test_every_kind_of_reward_trains_a_language_model(benchmark):
    kinds, model = benchmark("row_kinds"), benchmark("mixing_model")
    size = model.SIZES["tiny"]

    def text(letters, count):
        return torch.randint(
            letters, (count, size.context + 1), generator=torch.Generator().manual_seed(letters)
        ).byte()

    rows = torch.cat([text(3, 40), text(200, 40)])
    data = model.Data(rows, {"near": 40, "noise": 40}, *(text(3, 12) for _ in range(3)), ("near",), ("noise",))
    for kind in kinds.KINDS:
        found = kinds.trained(data, size, kind, 0)
        assert found["bits"] < math.log2(model.BYTES)
        assert found["useful"] + found["noise"] == pytest.approx(1)


def test_every_variant_makes_steps_and_tells_what_it_measures(benchmark):
    script = benchmark("torch_rewards")
    rows = torch.randn(60, 4), torch.randint(3, (60,))
    for name, variant in script.VARIANTS.items():
        batching = "per_source" if variant.get("by") is script.Transfer else "mixed"
        chooser = script.ms.Chooser("thompson", [30, 30], 6, batching=batching)
        model = script.mlp(4, 3)
        before = [one.detach().clone() for one in model.parameters()]
        loop = script.Loop(model, chooser, (rows[0][:5], rows[1][:5]), variant)
        for _ in range(9):
            loop.step(lambda draw: tuple(part[torch.from_numpy(30 * draw.tasks + draw.rows)] for part in rows))
        history = chooser.history()
        told = len(set(history["id"][history["told"] >= 0].tolist()))
        every = variant.get("every", 8 if variant.get("by") is script.RowTransfer else 1)
        assert told == (len(range(0, 9, every)) if variant else 0), name
        assert all(not torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
