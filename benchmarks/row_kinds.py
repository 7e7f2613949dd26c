"""Which reward of a row should a language model be told? Measured with the small model of ``mixing.py``.

All kinds are inner products of a row's gradient with the target's, and differ in what is differentiated:

- ``loss``: the mean loss of the row's tokens, and that of the target's; ``plain`` is the same without Adam's scaling;
- ``row``: the loss times the row's probability, exp(−mean loss), so that rows which stay wrong count little;
- ``tokens``: the mean probability of the right byte, on both sides, so that each token is weighted by its probability;
- ``cosine``: that of ``loss``, divided by the length of the row's own gradient.

``uniform`` has no reward. Thompson sampling chooses the rows. Held-out bits per byte at equal steps, of the running
average of the weights. ``tokens`` and ``cosine`` take passes of their own here, so times say nothing.

Run with: python benchmarks/mixing_corpus.py corpus
          python benchmarks/row_kinds.py corpus --seeds 0 1
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import common  # noqa: F401 it holds libraries to one thread

import numpy as np  # isort: skip
import mixing_model
import torch
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import get_ema_multi_avg_fn

import metasched as ms
from metasched.torch import RowTransfer, Teller

KINDS = ("uniform", "plain", "loss", "row", "tokens", "cosine")
EVERY, REFRESH = 4, 8


def token_losses(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """Of the next bytes (n, context)."""
    whole = rows.long()
    return cross_entropy(model(whole[:, :-1]).transpose(1, 2), whole[:, 1:], reduction="none")


def lengths(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """Of the gradients of single rows, (n,)."""
    weights = {name: one.detach() for name, one in model.named_parameters()}

    def loss(weights: Any, row: torch.Tensor) -> torch.Tensor:
        return token_losses(lambda words: torch.func.functional_call(model, weights, (words,)), row[None]).mean()

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, rows)
    return sum(one.flatten(1).square().sum(1) for one in each.values()).sqrt()


def trained(data: mixing_model.Data, size: mixing_model.Size, kind: str, seed: int) -> dict[str, Any]:
    """Held-out bits per byte at the end, and the shares of useful sources and of noise."""
    torch.manual_seed(seed)
    model, average = mixing_model.GPT(size), mixing_model.GPT(size).requires_grad_(False)
    average.load_state_dict(model.state_dict())
    into_average = get_ema_multi_avg_fn(0.98)
    optimiser = torch.optim.AdamW(model.parameters(), size.learning_rate, (0.9, 0.95))
    warm = torch.optim.lr_scheduler.LinearLR(optimiser, 0.05, total_iters=max(1, size.steps // 20))
    chance = torch.Generator().manual_seed(seed)
    own = [torch.randperm(len(data.target), generator=chance)[: size.batch // 2] for _ in range(size.steps)]

    def goodness(model: Any, rows: torch.Tensor) -> Any:
        losses = token_losses(model, rows)
        return -torch.exp(-losses).mean() if kind == "tokens" else losses.mean()

    reward = RowTransfer(
        model,
        (data.target[chosen] for chosen in own),
        goodness,
        optimiser=None if kind == "plain" else optimiser,
        kind="probability" if kind == "row" else "loss",
        every=EVERY,
        refresh=REFRESH,
    )
    scheduler = "uniform" if kind == "uniform" else "thompson"
    chooser = ms.Chooser(scheduler, dict(data.sizes), size.batch, seed=seed)
    teller, starts = Teller(chooser), np.cumsum([0, *data.sizes.values()])[:-1]
    for step in range(1, size.steps + 1):
        draw = chooser.ask()
        batch = data.rows[torch.from_numpy(starts[draw.tasks] + draw.rows)]
        if kind == "tokens" and step % EVERY == 1:
            with reward.watch(True):
                losses = token_losses(model, batch)
                (reward.rows(losses) * torch.exp(-losses.detach())).mean().backward()
            told = reward.rewards()
            # The weights of the tokens are part of this reward, which rewards() has divided out.
            told = told * torch.exp(-losses.detach()).mean(1)
            optimiser.zero_grad()
        with reward.watch(False if kind in ("uniform", "tokens") else None):
            losses = reward.rows(token_losses(model, batch))
            losses.mean().backward()
        if kind != "tokens" or step % EVERY != 1:
            told = reward.rewards()
        if kind == "cosine" and told is not None:
            told = told / lengths(model, batch)
        teller.tell(draw, told)
        optimiser.step()
        warm.step()
        optimiser.zero_grad()
        if step >= size.steps * 3 // 4 and step % 8 == 0:  # as in mixing.py the target is trained on, too
            rows = data.target[torch.randperm(len(data.target), generator=chance)[: size.batch]]
            token_losses(model, rows).mean().backward()
            optimiser.step()
            optimiser.zero_grad()
        into_average(list(average.parameters()), list(model.parameters()), step)
    shares = chooser.shares()
    return {
        "bits": mixing_model.bits(average, data.test),
        "useful": sum(shares[name] for name in data.useful),
        "noise": sum(shares[name] for name in data.noise),
    }


def main() -> None:
    """Print a line for each run, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--targets", nargs="+", default=["danish", "swedish", "headers", "docs"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--size", choices=mixing_model.SIZES, default="small")
    parser.add_argument("--steps", type=int)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="rewards of rows leave out|a batch of")
    size = mixing_model.SIZES[asked.size]
    size = size._replace(steps=asked.steps or size.steps)
    for target in asked.targets:
        data = mixing_model.load(asked.corpus, target, size, "cpu")
        for seed in asked.seeds:
            for kind in asked.kinds:
                found = trained(data, size, kind, seed)
                print(json.dumps({"target": target, "seed": seed, "kind": kind, **found}), flush=True)


if __name__ == "__main__":
    main()
