import numpy as np
import pytest

import metasched as ms
from metasched.errors import ConfigError, DataError
from metasched.experiments.datasets import activity

HEADER = ["@relation activity", "", '@attribute "user"', "", "@data"]


def line(user=33, label="Walking", value=1.0, features=43, number=1):
    return ",".join([str(number), str(user), *[str(value)] * features, label])


def write(path, *lines, header=HEADER):
    path.write_text("\n".join([*header, *lines]) + "\n")
    return path


def test_rows_keep_their_order_and_what_is_missing_is_nan(tmp_path):
    missing = line(7, "Sitting", 3).replace(",3,", ",?,", 1)
    windows = activity.parse(write(tmp_path / "a", line(33, "Jogging", 2), missing))
    assert windows.users.tolist() == [33, 7]
    assert windows.labels.tolist() == [1, 4]
    assert np.isnan(windows.values).sum(axis=1).tolist() == [0, 1]
    assert np.isnan(windows.values[1, 0])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (line(label="Flying"), "line 7 is not a number, a user, 43 features"),
        (line(features=42), "line 7 is not"),
        (line(user="x"), "line 7 is not"),
        ("", "line 7 is not"),
        (line(value="x"), "something other than numbers"),
        (line(value="inf"), "line 7 holds infinity"),
    ],
)
def test_a_line_that_is_no_window_is_named(tmp_path, wrong, message):
    with pytest.raises(DataError, match=message):
        activity.parse(write(tmp_path / "a", line(), wrong))


def test_a_file_without_data_is_named(tmp_path):
    with pytest.raises(DataError, match="has no line '@data'"):
        activity.parse(write(tmp_path / "a", line(), header=[]))
    with pytest.raises(DataError, match="has no rows after '@data'"):
        activity.parse(write(tmp_path / "a"))


class TestReal:
    @pytest.fixture
    def needed(self, needs):
        needs(activity.FILE.path)

    def test_24_users_teach_one_in_recorded_order(self, needed):
        tasks = ms.datasets.load("activity")
        windows = activity.parse(activity.locate(activity.FILE))
        assert np.bincount(windows.labels).tolist() == [2081, 1625, 632, 528, 306, 246]
        assert len(tasks.tasks) == 24
        assert min(tasks.sizes) == 129
        assert tasks.shape == (43,)
        for task in tasks.tasks:
            rows = tasks.provenance[task.name].rows
            np.testing.assert_array_equal(rows, np.flatnonzero(windows.users == int(task.name.removeprefix("user-"))))
            np.testing.assert_array_equal(task.labels, windows.labels[rows])
            assert np.mean(task.labels[1:] == task.labels[:-1]) > 0.8  # who walks goes on walking
        assert len(tasks.validation.labels) == 30
        assert len(tasks.test.labels) == 121
        assert set(windows.users[tasks.provenance["test"].rows]) == {33}

    def test_features_are_standardised_and_missing_ones_are_zero(self, needed):
        tasks = ms.datasets.load("activity", target=20)
        windows = activity.parse(activity.locate(activity.FILE))
        sources = np.concatenate([task.inputs for task in tasks.tasks]).astype(np.float64)
        np.testing.assert_allclose(sources.mean(axis=0), 0, atol=1e-5)
        spread = sources.std(axis=0)
        assert np.flatnonzero(spread < 0.5).tolist() == [30]  # the mean of x is zero throughout
        for name, part, _ in tasks.parts():
            gaps = np.isnan(windows.values[tasks.provenance[name].rows])
            np.testing.assert_allclose(part.inputs[gaps], 0, atol=1e-6)
        assert "474 of 5,418 windows lack a peak" in tasks.summary()

    @pytest.mark.parametrize("target", [33, 20, 29, 13])
    def test_any_user_can_be_the_target(self, needed, target):
        tasks = ms.datasets.load("activity", target=target, users=35)
        assert f"user-{target}" not in [task.name for task in tasks.tasks]
        assert len(tasks.tasks) == 35
        assert len(set(tasks.validation.labels)) == 6

    def test_an_unknown_user_or_too_many_are_refused(self, needed):
        with pytest.raises(ConfigError, match="unknown user '37' of 'activity'"):
            ms.datasets.load("activity", target=37)
        with pytest.raises(ConfigError, match="users is 36, but there are 35 apart from the target"):
            ms.datasets.load("activity", users=36)
