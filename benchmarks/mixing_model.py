"""The byte-level GPT of ``mixing.py``, its sizes, and a target of the corpus as rows of bytes."""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

BYTES = 256


class Size(NamedTuple):
    """How large a model and its batches are, and how long it trains at which rate."""

    layers: int
    width: int
    heads: int
    context: int
    batch: int
    steps: int
    learning_rate: float


SIZES = {
    "tiny": Size(1, 16, 1, 16, 8, 32, 3e-3),
    "small": Size(2, 64, 2, 64, 16, 800, 2e-3),
    "large": Size(4, 384, 6, 256, 32, 1500, 8e-4),
}


class Block(nn.Module):
    """Attention to what came before, then a perceptron, each added to what came in."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.before_attention, self.before_perceptron = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.attention, self.back = nn.Linear(size.width, 3 * size.width), nn.Linear(size.width, size.width)
        self.perceptron = nn.Sequential(
            nn.Linear(size.width, 4 * size.width), nn.GELU(), nn.Linear(4 * size.width, size.width)
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(rows, context, width) to the same."""
        rows, length, width = inputs.shape
        parts = self.attention(self.before_attention(inputs)).view(rows, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        inputs = inputs + self.back(seen.transpose(1, 2).reshape(rows, length, width))
        return inputs + self.perceptron(self.before_perceptron(inputs))


class GPT(nn.Module):
    """Bytes (rows, context) to logits of the next byte (rows, context, 256)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.bytes, self.places = nn.Embedding(BYTES, size.width), nn.Embedding(size.context, size.width)
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.layers)))
        self.head = nn.Sequential(nn.LayerNorm(size.width), nn.Linear(size.width, BYTES))
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Logits; under bfloat16 on an accelerator."""
        with torch.autocast("cuda", torch.bfloat16, enabled=inputs.is_cuda):
            known = self.bytes(inputs) + self.places.weight[: inputs.shape[1]]
            return self.head(self.blocks(known)).float()


def row_losses(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of the next byte in each of the rows (n, context + 1), in nats."""
    whole = rows.long()
    logits = model(whole[:, :-1])
    losses = nn.functional.cross_entropy(logits.flatten(0, 1), whole[:, 1:].flatten(), reduction="none")
    return losses.view(len(rows), -1).mean(1)


def bits(model: nn.Module, rows: torch.Tensor) -> float:
    """Held-out bits per byte."""
    with torch.no_grad():
        total = sum(float(row_losses(model, part).sum()) for part in rows.split(256))
    return total / len(rows) / math.log(2)


class Data(NamedTuple):
    """One target of the corpus, as rows (n, context + 1) of uint8 on the device.

    Attributes:
        rows: those of all sources, end to end.
        sizes: how many rows each source has, by name, in the order of ``rows``.
        target: the target's own rows, which every method trains on and measures rewards with.
        tune: held out, to choose settings.
        test: held out, to report.
        useful: names of the sources that were thought useful before any run.
        noise: names of the sources that are noise.
    """

    rows: torch.Tensor
    sizes: dict[str, int]
    target: torch.Tensor
    tune: torch.Tensor
    test: torch.Tensor
    useful: tuple[str, ...]
    noise: tuple[str, ...]


def listed(folder: Path) -> dict[str, Any]:
    """What ``corpus.json`` says of a corpus."""
    path = folder / "corpus.json"
    if not path.exists():
        raise SystemExit(f"{folder} has no corpus.json; python benchmarks/mixing_corpus.py {folder} writes it")
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return known


def load(folder: Path, target: str, size: Size, device: str) -> Data:
    """A target and its sources, cut into rows, from the corpus that ``mixing_corpus.py`` wrote."""
    known = listed(folder)
    if target not in known["targets"]:
        raise SystemExit(f"unknown target '{target}'; {folder} has: {', '.join(known['targets'])}")

    def cut(path: str) -> torch.Tensor:
        text = (folder / f"{path}.bin").read_bytes()
        count = len(text) // (size.context + 1)
        flat = torch.frombuffer(bytearray(text), dtype=torch.uint8)[: count * (size.context + 1)]
        return flat.view(count, size.context + 1)

    asked = known["targets"][target]
    sources = {name: cut(f"sources/{name}") for name in asked["sources"]}
    return Data(
        torch.cat(list(sources.values())).to(device),
        {name: len(rows) for name, rows in sources.items()},
        *(cut(f"{target}/{part}").to(device) for part in ("target", "tune", "test")),
        useful=tuple(asked["useful"]),
        noise=tuple(name for name in known["noise"] if name in sources),
    )
