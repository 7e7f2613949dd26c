"""The byte-level GPT of ``mixing.py``, its sizes, and the corpus as rows of bytes."""

from pathlib import Path
from typing import Any, NamedTuple

import mixing_corpus
import torch
from torch import nn

BYTES = 256


class Size(NamedTuple):
    """How large a model and its batches are, how long it trains, and what is tuned: rates, places of the target."""

    layers: int
    width: int
    heads: int
    context: int
    batch: int
    steps: int
    points: int
    rates: tuple[float, ...]
    places: tuple[str, ...]
    test_rows: int


SIZES = {
    "tiny": Size(1, 16, 1, 16, 4, 24, 2, (3e-3,), ("", "+share=2"), 8),
    "small": Size(2, 64, 2, 64, 16, 800, 10, (5e-4, 1e-3, 2e-3, 4e-3), ("", "+share=4", "+late=2"), 384),
    "large": Size(4, 384, 6, 256, 32, 1500, 15, (3e-4, 8e-4), ("", "+share=32", "+late=8"), 4096),
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


def predicted(model: Any, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and the bytes they should have been, of rows (n, context + 1)."""
    whole = rows.long()
    return model(whole[:, :-1]), whole[:, 1:]


def loss(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of the next byte, in nats."""
    logits, labels = predicted(model, rows)
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def bits(model: Any, rows: torch.Tensor) -> float:
    """Held-out bits per byte."""
    with torch.no_grad():
        parts = [float(loss(model, part)) * len(part) for part in rows.split(256)]
    return sum(parts) / len(rows) / torch.log(torch.tensor(2.0)).item()


class Corpus(NamedTuple):
    """Rows (n, context + 1) of uint8 on the device: of every source, the target among them, and held out."""

    sources: dict[str, torch.Tensor]
    tune: torch.Tensor
    test: torch.Tensor

    @property
    def target(self) -> torch.Tensor:
        """The labelled rows: every method may train on them, and rewards are measured on them."""
        return self.sources[mixing_corpus.TARGET]


def load(folder: Path, size: Size, device: str) -> Corpus:
    """The corpus that ``mixing_corpus.py`` wrote, cut into rows."""
    files = {path.stem: path.read_bytes() for path in sorted(folder.glob("*.bin"))}
    missing = [name for name in (mixing_corpus.TARGET, "tune", "test") if name not in files]
    if missing:
        raise SystemExit(f"{folder} has no {missing[0]}.bin; python benchmarks/mixing_corpus.py {folder} writes it")

    def cut(text: bytes) -> torch.Tensor:
        count = len(text) // (size.context + 1)
        flat = torch.frombuffer(bytearray(text), dtype=torch.uint8)[: count * (size.context + 1)]
        return flat.view(count, size.context + 1).to(device)

    held = {name: cut(files.pop(name))[: size.test_rows] for name in ("tune", "test")}
    return Corpus({name: cut(text) for name, text in files.items()}, held["tune"], held["test"])
