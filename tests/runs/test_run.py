"""How a finished run is shown; what it holds is tested with ``train``."""

import sys
from xml.etree import ElementTree

import pytest

import metasched as ms
from helpers import make_tasks


@pytest.fixture(scope="module")
def run():
    learner = ms.Joint(batch_size=4, batches_per_update=2, updates=3, eval_every=1)
    return ms.train(make_tasks(), learner=learner, network=ms.networks.mlp(3, (4,)), seeds=2)


def test_a_notebook_shows_every_seed_with_its_loss_as_a_curve(run):
    page = ElementTree.fromstring(run._repr_html_())
    rows = [[cell.text for cell in row] for row in page.iter("tr")][1:]
    assert [row[:3] for row in rows] == [["seed 0", "3", "24"], ["seed 1", "3", "24"]]
    assert [row[3] for row in rows] == [f"{final['test_accuracy']:.3f}" for final in run.final.values()]
    assert [len(line.get("points").split()) for line in page.iter("polyline")] == [3, 3]
    assert [line.text for line in page.iter("p")] == repr(run).splitlines()


def test_a_frame_has_a_row_for_each_update(run):
    pytest.importorskip("pandas")
    frame = run.to_frame()
    assert frame["update"].tolist() == [1, 2, 3, 1, 2, 3]
    assert frame["loss"].tolist() == [record["loss"] for record in run.records]
    drawn = frame[[f"drawn {task.name}" for task in run.tasks.tasks]]
    assert drawn.sum(axis=1).tolist() == frame["samples"].tolist()
    assert set(frame) >= {"seed", "samples", "test_accuracy"}


def test_without_pandas_the_error_says_how_to_install_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # as Python notes a module that is not there
    with pytest.raises(ms.MetaschedError, match=r"^this needs pandas; install it with: pip install pandas$"):
        run.to_frame()


def test_a_model_says_what_it_reads_and_predicts(run):
    page = ElementTree.fromstring(run.model(seed=0)._repr_html_())
    assert [cell.text for cell in page.iter("td")] == [
        *("reads", f"inputs of shape {run.tasks.shape}"),
        *("predicts", ", ".join(run.tasks.classes)),
        *("judged by", "accuracy"),
    ]
