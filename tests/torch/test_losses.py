"""Losses by source between two lines of a log."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import metasched as ms  # noqa: E402
from metasched.torch.losses import SourceLosses  # noqa: E402

NAMES = ("web", "books", "code")


def test_they_are_the_means_of_rows_since_the_last_time():
    chooser, losses = ms.Chooser("uniform", dict.fromkeys(NAMES), 16), SourceLosses()
    assert losses.take(NAMES) == {}
    for _ in range(2):
        rows = []
        for step in range(3):
            draw = chooser.ask()
            cost = np.where(np.arange(16) % 5 == step, np.nan, np.sin(np.arange(16)) + draw.tasks)
            losses.add(draw, torch.tensor(cost, requires_grad=True))
            rows += [*zip(draw.sources, cost, strict=True)]
        expected = {name: np.nanmean([cost for source, cost in rows if source == name]) for name in NAMES}
        assert losses.take(NAMES) == {f"loss/{name}": pytest.approx(mean, rel=1e-5) for name, mean in expected.items()}
        assert losses.take(NAMES) == {}


def test_a_source_without_rows_has_none_and_an_infinite_loss_is_seen():
    chooser, losses = ms.Chooser("cyclic", {"web": None, "books": None}, 2), SourceLosses()
    losses.add(chooser.ask(), [np.inf, np.nan])
    chooser.add_source("code", None)
    losses.add(chooser.ask().cut([0]), [2.0])
    found = losses.take(chooser.names)
    assert found["loss/web"] == np.inf or found["loss/code"] == 2.0
    assert "loss/books" not in found


def test_processes_are_put_together():
    chooser, losses = ms.Chooser("cyclic", {"web": None, "books": None}, 2), SourceLosses()
    losses.add(chooser.ask(), [1.0, 3.0])
    other = torch.tensor([[[5.0, 3.0], [3.0, 1.0]]])
    assert losses.take(("web", "books"), lambda mine: torch.cat([mine, other])) == {"loss/web": 1.5, "loss/books": 3.0}
