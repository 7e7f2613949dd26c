"""MLflow's database, read back with MLflow's own client."""

import os

import pytest

import metasched as ms
from helpers import make_tasks
from metasched.learners.networks import mlp

pytestmark = pytest.mark.filterwarnings("default")  # what MLflow's own packages warn of is not ours to mend

CONFIG = ms.AlgorithmOne(batch_size=4, updates=5)


@pytest.fixture(autouse=True)
def client(monkeypatch, tmp_path):
    """A function that gives a client for a run's folder."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    tracking = pytest.importorskip("mlflow.tracking")
    pytest.importorskip("alembic")
    return lambda out: tracking.MlflowClient(f"sqlite:///{out}/mlruns/mlflow.db")


def train(tasks, out, **options):
    options = {"trackers": ["mlflow"], **options}
    return ms.train(tasks, "uniform", network=mlp(3, hidden=(8,)), learner=CONFIG, seeds=(0, 7), out=out, **options)


def runs_by_seed(client):
    found = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    return {int(run.data.tags["seed"]): run for run in found}


def test_metrics_and_parameters_come_back(tasks, tmp_path, client):
    result = train(tasks, tmp_path / "a")
    reader = client(tmp_path / "a")
    runs = runs_by_seed(reader)
    assert set(runs) == {0, 7}
    for seed, run in runs.items():
        records = [record for record in result.records if record["seed"] == seed]
        assert run.info.status == "FINISHED"
        assert run.data.params["settings.batch_size"] == "4"
        assert run.data.params["data.fingerprint"] == tasks.fingerprint
        for name in ("loss", "test_accuracy", "samples"):
            history = sorted(reader.get_metric_history(run.info.run_id, name), key=lambda metric: metric.step)
            assert [(metric.step, metric.value) for metric in history] == [
                (record["update"], pytest.approx(record[name])) for record in records
            ]
        assert run.data.metrics["drawn/task-1"] == records[-1]["drawn"][1]
        assert run.data.metrics["final/test_accuracy"] == records[-1]["final"]["test_accuracy"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"], "nothing is written outside the run's folder"


def test_a_run_cut_off_and_continued_is_one_run_with_every_step_once(tasks, tmp_path, client):
    def stop(record):
        if record["update"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tasks, tmp_path / "a", on_record=stop)
    assert {run.info.status for run in runs_by_seed(client(tmp_path / "a")).values()} == {"KILLED"}
    train(tasks, tmp_path / "a")
    reader = client(tmp_path / "a")
    runs = runs_by_seed(reader)
    history = reader.get_metric_history(runs[0].info.run_id, "loss")
    assert sorted(metric.step for metric in history) == [1, 2, 3, 4, 5]
    assert {run.info.status for run in runs.values()} == {"FINISHED"}


def test_tasks_may_have_names_that_mlflow_refuses(tmp_path, client, caplog):
    view = make_tasks(sizes=(40, 40)).by_class()
    odd = ms.TaskSet.from_arrays(
        {f"{task.name} … <{number}>": (task.inputs, task.labels) for number, task in enumerate(view.tasks)},
        validation=view.validation,
        test=view.test,
    )
    result = train(odd, tmp_path / "a")
    assert "failed" not in caplog.text
    metrics = runs_by_seed(client(tmp_path / "a"))[0].data.metrics
    assert metrics["drawn/task-0/c0 _ _0_"] == [r for r in result.records if r["seed"] == 0][-1]["drawn"][0]


def test_a_server_that_is_gone_does_not_stop_the_run(tasks, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    result = train(tasks, tmp_path / "a")
    assert len(result.records) == 10
    assert [message.split(":")[1] for message in caplog.messages] == [
        " tracker mlflow failed, the run goes on without it"
    ]
    assert os.environ["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:9"
