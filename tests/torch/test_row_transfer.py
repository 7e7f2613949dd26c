"""Rewards of rows: equal to gradients of single rows, and nothing of the training is disturbed."""

import copy
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from helpers import as_float64, make_tasks
from metasched.errors import ConfigError
from metasched.learners import joint, rewards
from metasched.learners.losses import Rows, objective_of
from metasched.learners.networks import mlp

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from metasched.torch import RowTransfer  # noqa: E402
from metasched.torch import step_sizes as adam  # noqa: E402

WIDTH, CLASSES, LENGTH, WORDS = 8, 3, 6, 11


class Attention(nn.Module):
    """One head, as a language model has it."""

    def __init__(self):
        super().__init__()
        self.parts, self.back = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, inputs):
        query, key, value = self.parts(inputs).chunk(3, dim=-1)
        seen = (query @ key.transpose(-1, -2)).tril().softmax(-1)
        return self.back(seen @ value)


class Transformer(nn.Module):
    """Words (n, length) to logits of the next word; the last layer shares its weights with the first."""

    def __init__(self, tied=False, checkpointed=None):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.first, self.attention, self.then = nn.LayerNorm(WIDTH), Attention(), nn.RMSNorm(WIDTH)
        self.perceptron = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.checkpointed = checkpointed
        if tied:
            self.head.weight = self.words.weight

    def block(self, known):
        known = known + self.attention(self.first(known))
        return known + self.perceptron(self.then(known))

    def forward(self, words):
        known = self.words(words)
        if self.checkpointed is None:
            known = self.block(known)
        else:
            known = checkpoint(self.block, known, use_reentrant=self.checkpointed)
        return self.head(known)


def classifier():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, CLASSES))


def images(norm):
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"),
        norm(4),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 4, 3, stride=2, padding="valid", groups=2),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(4 * 4, CLASSES),
    )


def lines():
    return nn.Sequential(nn.Conv1d(2, 4, 3, dilation=2), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(16, CLASSES))


def rows(count, seed=0, shape=(4,), dtype=torch.float64):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, *shape, generator=random, dtype=dtype), torch.randint(CLASSES, (count,), generator=random)


def texts(count, seed=0, length=LENGTH):
    words = torch.randint(1, WORDS, (count, length + 1), generator=torch.Generator().manual_seed(seed))
    return words[:, :-1], words[:, 1:]


def seeded(make, *arguments, **options):
    torch.manual_seed(0)
    model = make(*arguments, **options).double()
    with torch.no_grad():  # normalisations start with weights of 1 and biases of 0, which hide errors
        for one in model.parameters():
            one.add_(0.1 * torch.randn_like(one))
    return model


def row_losses(model, batch):
    """(n,), or (n, length)."""
    outputs, labels = model(batch[0]), batch[1]
    return cross_entropy(outputs.movedim(-1, 1) if labels.dim() > 1 else outputs, labels, reduction="none")


def goodness_of_rows(model, batch, kind):
    losses = row_losses(model, batch)
    if losses.dim() > 1:
        counted = batch[1] != -100
        losses = losses.sum(1) / counted.sum(1)
    return torch.exp(-losses) if kind == "probability" else -losses


def target_goodness(model, target, kind):
    losses = row_losses(model, target)[target[1] != -100]
    return (torch.exp(-losses) if kind == "probability" else -losses).mean()


def by_functional_gradients(model, batch, target, kind, sizes=None):
    """The same from torch.func: the gradient of each row alone."""
    weights = {name: one.detach() for name, one in model.named_parameters()}

    def called(weights, words):
        return torch.func.functional_call(model, weights, (words,))

    def of_row(weights, inputs, label):
        return goodness_of_rows(lambda one: called(weights, one), (inputs[None], label[None]), kind)[0]

    each = torch.func.vmap(torch.func.grad(of_row), in_dims=(None, 0, 0))(weights, *batch)
    slope = torch.func.grad(lambda weights: target_goodness(lambda one: called(weights, one), target, kind))(weights)
    if sizes is not None:
        slope = {name: slope[name] * sizes[name] for name in slope}
    length = sum(one.square().sum() for one in slope.values()).sqrt()
    return sum((each[name] * slope[name]).flatten(1).sum(1) for name in slope) / length


def measured(model, batch, target, kind="probability", total=torch.mean, **options):
    """Rewards from one backward pass."""
    reward = RowTransfer(model, target, kind=kind, every=1, **options)
    with reward.watch():
        losses = reward.rows(row_losses(model, batch), labels=batch[1])
        total(losses).backward()
    return reward.rewards()


def close(found, expected, tolerance=1e-9):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))


MODELS = {
    "mlp": (lambda: seeded(classifier), (4,)),
    "cnn, group norm": (lambda: seeded(images, lambda channels: nn.GroupNorm(2, channels)), (2, 6, 6)),
    "cnn, batch norm": (lambda: seeded(images, nn.BatchNorm2d).eval(), (2, 6, 6)),
    "lines": (lambda: seeded(lines), (2, 8)),
}


class TestExact:
    @pytest.mark.parametrize("kind", ["probability", "loss"])
    @pytest.mark.parametrize("name", MODELS)
    def test_rows_of_classification(self, name, kind):
        make, shape = MODELS[name]
        model, batch, target = make(), rows(7, 1, shape), rows(5, 2, shape)
        close(measured(model, batch, target, kind), by_functional_gradients(model, batch, target, kind))

    @pytest.mark.parametrize("tied", [False, True], ids=["", "tied"])
    @pytest.mark.parametrize("kind", ["probability", "loss"])
    def test_rows_of_a_transformer(self, kind, tied):
        model, batch, target = seeded(Transformer, tied=tied), texts(7, 1), texts(3, 2)
        if tied:  # functional_call would take the shared weights for two
            kept, expected = list(model.parameters()), []
            slope = torch.autograd.grad(target_goodness(model, target, kind), kept)
            length = sum(one.square().sum() for one in slope).sqrt()
            for number in range(7):
                own = torch.autograd.grad(
                    goodness_of_rows(model, [part[number : number + 1] for part in batch], kind).sum(), kept
                )
                expected.append(sum((one * other).sum() for one, other in zip(own, slope, strict=True)) / length)
            expected = torch.stack(expected)
        else:
            expected = by_functional_gradients(model, batch, target, kind)
        close(measured(model, batch, target, kind), expected)
