import gzip
import hashlib

import numpy as np
import pytest

from metasched.datasets import store
from metasched.datasets.store import DataFile
from metasched.errors import ConfigError
from metasched.experiments.datasets import climatenet, weather_points
from metasched.experiments.datasets.climatenet import VARIABLES

needs_data = pytest.mark.skipif(
    any(store.find(file.path) is None for file in climatenet.FILES.values()),
    reason="needs the ClimateNet files: set METASCHED_DATA",
)

SITES = [(-21, 229.5), (-24, 242), (22, 244), (13, 253), (24, 277), (-31, 354)]
NAMES = ["south-pacific-west", "south-pacific-east", "mexican-pacific", "caribbean", "south-atlantic"]


def made_up(random, dates, sites):
    """CSV lines, in random order, of one row for each date and site."""
    rows = [[0, lat, lon, *random.normal(3, 2, 16), date, random.integers(3)] for date in dates for lat, lon in sites]
    random.shuffle(rows)
    return rows


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A data folder with made-up points in place of the real ones."""
    random = np.random.default_rng(0)
    monkeypatch.setenv("METASCHED_DATA", str(tmp_path))
    (tmp_path / "climatenet").mkdir()
    header = ",".join(["SNo", "lat", "lon", *VARIABLES, "time", "Label"])
    parts = {
        "train": made_up(random, [19960101, 20010505, 20091231], SITES),
        "target": made_up(random, [20110601, 20111231, 20120101, 20130927], SITES[1:3]),
    }
    files = {}
    for key, rows in parts.items():
        content = gzip.compress("\n".join([header, *(",".join(map(str, row)) for row in rows)]).encode())
        files[key] = DataFile(f"climatenet/{key}.csv.gz", len(content), hashlib.sha256(content).hexdigest())
        (tmp_path / files[key].path).write_bytes(content)
    monkeypatch.setattr(climatenet, "FILES", files)
    return parts


def test_tasks_are_regions_and_rows_come_in_time_order(small):
    tasks = weather_points.load()
    assert [task.name for task in tasks.tasks] == NAMES
    assert tasks.sizes == (3, 3, 6, 3, 3)
    in_order = sorted(small["train"], key=lambda row: (row[19], row[1], row[2]))
    mexican = [row[20] for row in in_order if 243.5 < row[2] < 254]
    assert tasks.tasks[2].labels.tolist() == mexican
    assert all(np.all(np.diff(origin.rows) > 0) for origin in tasks.provenance.values())


def test_the_year_2011_validates_and_the_later_years_test(small):
    tasks = weather_points.load()
    in_order = sorted(small["target"], key=lambda row: (row[19], row[1], row[2]))
    assert tasks.validation.labels.tolist() == [row[20] for row in in_order[:4]]
    assert tasks.test.labels.tolist() == [row[20] for row in in_order[4:]]


def test_each_region_has_five_variables_and_the_target_all(small):
    tasks = weather_points.load()
    for number, task in enumerate(tasks.tasks):
        seen = set(np.flatnonzero(task.inputs.any(axis=0)).tolist())
        assert seen == {(3 * number + k) % 16 for k in range(5)}
    assert tasks.validation.inputs.any(axis=0).all()
    assert tasks.test.inputs.any(axis=0).all()


def test_variables_are_standardised_over_the_regions_that_have_them(small):
    tasks = weather_points.load()
    in_order = sorted(small["train"], key=lambda row: (row[19], row[1], row[2]))
    shared = np.array([row[3 + 3] for row in in_order if row[2] < 243])  # UBOT: the first two regions
    target = np.array([row[3 + 3] for row in sorted(small["target"], key=lambda row: (row[19], row[1], row[2]))])
    np.testing.assert_allclose(tasks.test.inputs[:, 3], (target[4:] - shared.mean()) / shared.std(), rtol=1e-5)


def test_features_can_be_chosen(small):
    chosen = [("TMQ",), ("U850", "TMQ"), ("PS",), ("PSL",), ("TS",)]
    tasks = weather_points.load(features=chosen, target_features=["TMQ", "PRECT"])
    assert [task.inputs.any(axis=0).sum() for task in tasks.tasks] == [1, 2, 1, 1, 1]
    seen = [VARIABLES[variable] for variable in np.flatnonzero(tasks.test.inputs.any(axis=0))]
    assert seen == ["TMQ", "PRECT"]


def test_a_misspelt_feature_is_named(small):
    with pytest.raises(ConfigError, match="unknown feature 'Z100'; did you mean 'Z1000'"):
        weather_points.load(target_features=["Z100"])


def test_the_files_are_vouched_for(small):
    tasks = weather_points.load()
    assert tasks.provenance["caribbean"].files == {"climatenet/train.csv.gz": climatenet.FILES["train"].sha256}
    assert tasks.provenance["test"].files == {"climatenet/target.csv.gz": climatenet.FILES["target"].sha256}


@needs_data
def test_every_real_point_is_in_one_task_or_split():
    tasks = weather_points.load()
    assert tasks.sizes == (3520, 3520, 5280, 5280, 3520)
    rows = np.concatenate([tasks.provenance[name].rows for name in NAMES])
    np.testing.assert_array_equal(np.sort(rows), np.arange(21_120))
    assert len(tasks.validation.labels) == 480
    assert len(tasks.test.labels) == 760
    assert tasks.classes == ("background", "tropical cyclone", "atmospheric river")
    assert all(set(np.unique(split.labels)) == {0, 1, 2} for split in (tasks.validation, tasks.test))


@needs_data
def test_the_notes_tell_of_disagreement_ties_and_background():
    notes = " ".join(weather_points.load().notes)
    assert "2,815 of 21,120 source points (1,288 ties)" in notes
    assert "71%–95% of each source is background" in notes
