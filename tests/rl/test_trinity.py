"""The selector of Trinity-RFT, inside its own file reader; skipped without the package, which is large."""

import asyncio
import json

import numpy as np
import pytest

pytest.importorskip("trinity", reason="needs: pip install trinity-rft")
datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.filterwarnings("default")  # of other packages, whose they are

from trinity.buffer.buffer import get_buffer_reader  # noqa: E402
from trinity.buffer.selector import SELECTORS  # noqa: E402
from trinity.common.config import DataSelectorConfig, FormatConfig, StorageConfig  # noqa: E402

from metasched.errors import ConfigError  # noqa: E402

NAME = "metasched.rl.trinity.PromptSelector"
LEVELS = ["solved"] * 20 + ["reach"] * 20 + ["never"] * 20


@pytest.fixture
def reader(tmp_path):
    """A function that makes Trinity's reader of a task set with our selector."""
    path = tmp_path / "tasks.jsonl"
    rows = [{"question": f"{number}", "answer": "1", "level": level} for number, level in enumerate(LEVELS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(keys=("level",), **options):
        config = StorageConfig(
            name="levels",
            path=str(tmp_path),
            split="train",
            batch_size=8,
            total_epochs=20,
            enable_progress_bar=False,
            schema_type="task",
            default_workflow_type="math_workflow",
            format=FormatConfig(prompt_key="question", response_key="answer"),
            data_selector=DataSelectorConfig(NAME, seed=3, feature_keys=list(keys), kwargs=options),
        )
        return get_buffer_reader(config)

    return make


def read(reader, random):
    """One batch of tasks, and what Trinity's pass-rate calculator would send back for them."""
    indices = [task.index["index"] for task in asyncio.run(reader.read())]
    chances = {"solved": 1.0, "reach": 0.5, "never": 0.0}
    asked = sorted(set(indices))
    return indices, asked, [random.binomial(4, chances[LEVELS[one]]) / 4 for one in asked]


def test_most_tasks_are_of_the_level_within_reach(reader):
    one, random = reader(), np.random.default_rng(0)
    for _ in range(20):
        _, asked, rates = read(one, random)
        one.feedback(indices=asked, values=rates)
    chooser = one.reader.selector.chooser
    assert chooser.metrics()["share/reach"] > 0.6
    assert chooser.metrics()["waiting"] == 0


def test_a_stored_selector_goes_on_with_the_same_tasks(reader):
    one, random = reader(), np.random.default_rng(0)
    one.load_state_dict({"current_index": 0})  # what Trinity gives at the first start
    for _ in range(5):
        _, asked, rates = read(one, random)
        one.feedback(indices=asked[1:], values=rates[1:])
    again = reader()
    again.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert read(again, np.random.default_rng(1)) == read(one, np.random.default_rng(1))


@pytest.mark.parametrize("arrays", [None, "é", "abc", "YWJj"])
def test_a_damaged_state_is_refused_in_one_line(reader, arrays):
    one = reader()
    state = one.state_dict()
    inner = one.reader.selector
    with pytest.raises(ConfigError, match="the selector's state is damaged; take an older one"):
        inner.load_state_dict({**inner.state_dict(), "arrays": arrays})
    assert one.state_dict() == state


def test_values_for_tasks_that_do_not_wait_are_passed_over(reader):
    one = reader()
    indices, asked, _ = read(one, np.random.default_rng(0))
    other = next(number for number in range(len(LEVELS)) if number not in asked)
    one.feedback(indices=[other, asked[0]], values=[1.0, 0.5])
    assert one.reader.selector.chooser.metrics()["waiting"] == 8 - indices.count(asked[0])


def test_settings_are_refused_in_one_line(reader):
    assert SELECTORS.get(NAME).__name__ == "PromptSelector"
    with pytest.raises(ConfigError, match="give the one column that has the levels"):
        reader(keys=())
    with pytest.raises(ConfigError, match="memory is 1"):
        reader(memory=1)
