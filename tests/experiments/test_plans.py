import io
import json

import numpy as np
import pytest
from rich.console import Console

import metasched as ms
from helpers import make_tasks
from metasched.experiments import plans
from metasched.report.tables import drawn_by_label


@pytest.fixture(scope="module")
def planned():
    return ms.plan(make_tasks(sizes=(40, 50, 30)), learner=ms.Joint(batch_size=3, batching="per_source"), discount=0.9)


def text_of(*renderables):
    console = Console(width=80, file=io.StringIO(), record=True)
    for item in renderables:
        console.print(item)
    return console.export_text()


def test_tables_name_tasks_and_labels(planned):
    text = text_of(*plans.index_tables(planned))
    assert all(name in text for name in ("task-0", "task-2", "c0", "c2", "Gittins index"))
    assert f"{planned.indices[1, 2]:.4f}" in text


def test_rows_drawn_add_up_to_all(planned):
    rows = planned.rows_drawn("mdp", 100)
    text = text_of(drawn_by_label(rows.tolist(), planned.tasks))
    assert [int(line.split()[-1]) for line in text.splitlines()[-3:]] == rows.sum(1).tolist()


def test_the_answer_names_the_task_that_each_policy_draws_most_on(planned):
    gittins, mdp = np.array([[1, 1], [0, 8], [0, 0]]), np.array([[0, 0], [1, 1], [3, 3]])
    assert plans.answer(planned, {"gittins": gittins, "mdp": mdp}) == (
        "From the initial model, gittins would draw most on task-1 (80% of its rows), "
        "and mdp would draw most on task-2 (75% of its rows)."
    )


def test_the_policy_says_how_it_was_found(planned):
    line = plans.policy_line(planned)
    assert "coupled rewards" in line
    assert "27 joint states" in line
    assert "Residual" in line


def test_everything_survives_json(planned):
    parsed = json.loads(json.dumps(plans.plan_json(planned, 50, {"gittins": planned.rows_drawn("gittins", 50)})))
    np.testing.assert_array_equal(parsed["gittins_indices"], planned.indices)
    assert np.sum(parsed["rows_drawn"]["gittins"]) == 150
    assert parsed["joint"]["method"] == planned.policy.method
