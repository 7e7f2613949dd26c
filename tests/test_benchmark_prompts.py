"""The benchmark of choosing prompts: its tasks, its rules, and a table that is that of its runs."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parent.parent


@pytest.fixture
def prompts(monkeypatch):
    """The script."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("common", "prompts"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__("prompts")


def test_answers_are_the_digits_from_behind_and_riddles_have_none(prompts):
    random = np.random.default_rng(0)
    for level, (family, length) in enumerate(prompts.LEVELS):
        asked, answers, lengths = prompts.rows_of(level, 50, random)
        digits = asked[:, -1 - length : -1].flip(1)
        if family != "riddle":
            assert ((digits + (family == "next")) % 10 == answers[:, :length]).all()
        assert (lengths == length).all()
        assert (asked[:, -1] == prompts.TOKENS["ask"]).all()


def test_answers_of_a_model_are_the_same_with_and_without_a_cache(prompts):
    torch.manual_seed(0)
    model, rows = prompts.Model(), prompts.data(0, 2)
    answers = model.answer(rows[0], 1, None)
    logits = model(torch.cat([rows[0], answers[:, :-1]], 1))[:, rows[0].shape[1] - 1 :]
    assert (logits.argmax(-1) == answers).all()
    assert model.answer(rows[0], 3, torch.Generator().manual_seed(0)).shape == (3 * len(rows[0]), prompts.LONGEST)


def test_advantages_are_standardized_within_a_group(prompts):
    right = torch.tensor([True] * 8 + [False] * 8 + [True, *[False] * 7])
    found = prompts.advantages_of(right).view(3, 8)
    assert (found[:2] == 0).all()
    rewards = right[16:].double()
    assert found[2].numpy() == pytest.approx(((rewards - rewards.mean()) / rewards.std()).numpy(), rel=1e-2)


def test_rules_give_more_chance_where_advantages_are_larger(prompts):
    for rule in (prompts.Dump(0), prompts.Sec(0)):
        for _ in range(50):
            indices = np.arange(len(prompts.LEVELS)).repeat(8) * prompts.PROMPTS_OF_LEVEL
            rule.observe(indices, np.where(indices == 3 * prompts.PROMPTS_OF_LEVEL, 1.0, 0.0))
        assert rule.chances().argmax() == 3
        assert rule.chances().sum() == pytest.approx(1)
    steps = prompts.EasyToHard(0)
    assert np.flatnonzero(steps.chances()).tolist() == [prompts.EASY_TO_HARD[0]]
    steps.steps = prompts.STEPS
    assert (steps.chances() > 0).all()


def test_rollouts_are_counted_to_the_first_time_that_it_is_as_good(prompts):
    each = prompts.EVERY * prompts.PROMPTS * prompts.GROUP
    assert prompts.arrival([0.1, 0.3, 0.2, 0.4], 0.3) == each
    assert prompts.arrival([0.1, 0.3], 0.5) == np.inf


def test_the_table_of_the_page_is_that_of_the_runs(prompts):
    path = ROOT / "benchmarks" / "results" / "prompts.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    page, table = (ROOT / "docs" / "prompts.md").read_text(), prompts.table(lines)
    assert table in page
    (ours,) = (row for row in table.splitlines() if "**ours**" in row)
    assert f"ours saves {prompts.saved(lines, 'ours', 'uniform, rate of ours')}" in " ".join(page.split())
    assert f"<!-- saved: begin -->{ours.split(' | ')[-1].removesuffix(' |')}<!-- saved: end -->" in page


@pytest.mark.slow
def test_a_run_is_the_same_when_it_is_made_again(prompts):
    first, second = (prompts.trained("ours", 2e-3, {}, 0, steps=10) for _ in range(2))
    assert first | {"seconds": 0} == second | {"seconds": 0}
    assert sum(first["draws"]) == 10 * prompts.PROMPTS
