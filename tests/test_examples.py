"""The examples run, are short, and give most batches to the source that helps."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
HELPFUL = {
    "pytorch_loop": 1,
    "sklearn_partial_fit": 2,
    "jax_loop": 1,
    "streams": 1,
    "trainer": 1,
    "lightning_loop": 1,
    "grpo_levels": 2,
}
"""The number of the source that helps."""
MOST = {"grpo_levels": 0.4}
"""The share that it has at least, where that is not 0.6: a level is within reach for a part of the run."""
NEEDS = {
    "pytorch_loop": "torch",
    "sklearn_partial_fit": "sklearn",
    "trainer": "transformers",
    "grpo_levels": "trl",
    "lightning_loop": "lightning",
}


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(HELPFUL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.isinstance.treespec:FutureWarning")  # Lightning's, of PyTorch
@pytest.mark.parametrize("name", HELPFUL)
def test_runs_and_finds_the_source_that_helps(name, capsys):
    pytest.importorskip(NEEDS.get(name, "metasched"))
    path = EXAMPLES / f"{name}.py"
    assert len(path.read_text().splitlines()) <= 60
    runpy.run_path(str(path), run_name="__main__")
    drawn = [int(number) for number in re.findall(r"\d+", capsys.readouterr().out.split("each")[1])]
    assert drawn[HELPFUL[name]] > MOST.get(name, 0.6) * sum(drawn)
