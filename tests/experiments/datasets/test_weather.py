import tracemalloc

import numpy as np
import pytest

from metasched.errors import ConfigError, DataError, StoreError
from metasched.experiments.datasets import weather
from metasched.experiments.datasets.extreme_weather import CHANNELS, EVENTS, read_boxes, read_windows
from metasched.experiments.datasets.simulate import simulate_weather

h5py = pytest.importorskip("h5py")

IMAGES, HEIGHT, WIDTH = 60, 64, 96


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("weather") / "small.h5"
    simulate_weather(path, images=IMAGES, height=HEIGHT, width=WIDTH, seed=1)
    return path


@pytest.fixture(scope="module")
def boxes(path):
    with h5py.File(path) as file:
        return file["boxes"][()]


@pytest.fixture(scope="module")
def tasks(path):
    return weather.load(path=path, size=8)


def write_empty(path, counts, *, height=64, width=64, edge=3):
    """A file whose image n has counts[n] boxes over fields that were never written."""
    boxes = np.full((len(counts), 15, 5), -1)
    for image, count in enumerate(counts):
        for slot in range(count):
            boxes[image, slot] = (4 * slot, 0, 4 * slot + edge, edge, slot % 4)
    with h5py.File(path, "w") as file:
        file["boxes"] = boxes
        file.create_dataset("images", (len(counts), 16, height, width), np.float32, chunks=(1, 16, 64, 64))


def channels_in(inputs):
    return {CHANNELS[channel] for channel in np.flatnonzero(np.any(inputs != 0, axis=(0, 1, 2)))}


def test_each_task_is_one_slot_of_the_training_images_in_time_order(tasks, boxes):
    assert [task.name for task in tasks.tasks] == ["slot-1", "slot-2", "slot-3", "slot-4", "slot-5"]
    for slot, task in enumerate(tasks.tasks):
        np.testing.assert_array_equal(task.labels, boxes[2:23, slot, 4])
        assert tasks.provenance[task.name].rows.tolist() == [image * 15 + slot for image in range(2, 23)]
    assert tasks.classes == EVENTS
    assert tasks.shape == (8, 8, 16)


def test_validation_and_test_have_all_boxes_of_their_images(tasks, boxes):
    for split, images in ((tasks.validation, boxes[:2]), (tasks.test, boxes[23:])):
        np.testing.assert_array_equal(split.labels, images[:, :, 4][images[:, :, 4] >= 0])


def test_validation_and_test_have_the_first_five_boxes_when_asked(path, boxes):
    tasks = weather.load(path=path, size=4, target_boxes="first-five")
    np.testing.assert_array_equal(tasks.validation.labels, boxes[:2, :5, 4].ravel())
    np.testing.assert_array_equal(tasks.test.labels, boxes[23:, :5, 4].ravel())


def test_a_short_file_is_split_in_the_papers_proportion_and_says_so(tasks):
    assert any("only 60 images" in note and "split 2/21/37" in note and "50:500:910" in note for note in tasks.notes)
    assert "split 2/21/37" in tasks.summary()


def test_the_summary_says_simulated(tasks):
    assert tasks.simulated
    assert "SIMULATED" in tasks.summary()
    assert tasks.provenance["test"].source == "simulated ExtremeWeather small.h5"


def test_a_file_that_does_not_say_so_is_not_called_simulated(tmp_path):
    write_empty(tmp_path / "climo_2005.h5", [5] * 3)
    tasks = weather.load(path=tmp_path / "climo_2005.h5", size=4)
    assert not tasks.simulated
    assert tasks.provenance["test"].source == "ExtremeWeather climo_2005.h5"


def test_the_papers_split_is_50_500_and_the_rest(tmp_path):
    counts = [5] * 560
    counts[10] = counts[100] = 4
    write_empty(tmp_path / "year.h5", counts)
    tasks = weather.load(path=tmp_path / "year.h5", size=1)
    images = {name: np.unique(origin.rows // 15) for name, origin in tasks.provenance.items()}
    assert len(images["validation"]) == 50
    assert tasks.sizes == (500,) * 5
    assert len(images["test"]) == 8
    assert images["validation"][-1] == 50
    assert images["slot-1"][0] == 51
    assert images["slot-1"][-1] == 551
    assert 10 not in images["validation"]
    assert 100 not in images["slot-3"]
    assert tasks.notes == ()


def test_an_unused_slot_in_between_is_passed_over(tmp_path):
    write_empty(tmp_path / "year.h5", [6] * 3)
    with h5py.File(tmp_path / "year.h5", "r+") as file:
        file["boxes"][1, 1] = -1
    tasks = weather.load(path=tmp_path / "year.h5", size=1)
    assert [int(tasks.provenance[f"slot-{task}"].rows[0]) - 15 for task in (1, 2, 3, 4, 5)] == [0, 2, 3, 4, 5]


def test_tasks_have_five_variables_each_and_all_sixteen_together(tasks):
    seen = [channels_in(task.inputs) for task in tasks.tasks]
    assert seen[0] == {"PRECT", "PS", "PSL", "QREFHT", "T200"}
    assert seen[4] == {"VBOT", "Z100", "Z200", "ZBOT", "PRECT"}
    assert all(len(one) == 5 for one in seen)
    assert set().union(*seen) == set(CHANNELS)


@pytest.mark.parametrize("feature", ["U850", "Z100", "TMQ", "PS"])
def test_test_rows_have_one_variable_and_validation_rows_five_with_it(path, feature):
    tasks = weather.load(path=path, test_feature=feature, size=4)
    assert channels_in(tasks.test.inputs) == {feature}
    seen = channels_in(tasks.validation.inputs)
    others = [name for name in ("UBOT", "TMQ", "U850", "V850", "VBOT", "Z100") if name != feature][:4]
    assert seen == {feature, *others}


def test_features_can_be_chosen(path):
    chosen = [("TMQ",), ("U850", "TMQ"), ("PS",), ("PSL",), ("TS",)]
    tasks = weather.load(path=path, features=chosen, validation_features=["TMQ", "Z100"], test_feature="Z100", size=4)
    assert [channels_in(task.inputs) for task in tasks.tasks] == [set(names) for names in chosen]
    assert channels_in(tasks.validation.inputs) == {"TMQ", "Z100"}
    np.testing.assert_allclose(tasks.validation.inputs[..., 13].std(), 1, atol=1e-5)


def test_every_variable_is_standardised_over_the_training_rows_that_have_it(path, tasks):
    for channel in range(16):
        values = [task.inputs[..., channel] for task in tasks.tasks if task.inputs[..., channel].any()]
        assert abs(np.mean(values)) < 1e-4
        assert abs(np.std(values) - 1) < 1e-4
    boxes = read_boxes(path)
    raw = read_windows(path, boxes, [9], size=8)[..., 0].astype(np.float64)
    order = np.concatenate([np.arange(n) for n in np.bincount(boxes.image)])
    training = raw[np.isin(boxes.image, range(2, 23)) & np.isin(order, [2, 3])]
    expected = (raw[boxes.image >= 23] - training.mean()) / training.std()
    np.testing.assert_allclose(tasks.test.inputs[..., 9], expected, rtol=1e-4, atol=1e-5)


def test_the_checksum_covers_what_was_read_and_nothing_else(tmp_path):
    path = tmp_path / "year.h5"
    write_empty(path, [5] * 4)

    def checksum():
        return weather.load(path=path, size=2).provenance["slot-1"].files["year.h5"]

    first = checksum()
    with h5py.File(path, "r+") as file:
        file["images"][3, 9, 40, 40] = 7.0
    assert checksum() == first
    with h5py.File(path, "r+") as file:
        file["images"][3, 9, 0, 0] = 7.0
    assert checksum() != first


def test_the_year_is_found_in_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("METASCHED_DATA", str(tmp_path))
    (tmp_path / "extreme-weather").mkdir()
    write_empty(tmp_path / "extreme-weather" / "climo_2005.h5", [5] * 3)
    assert weather.load(size=1).sizes == (1,) * 5


def test_without_a_file_the_message_says_where_it_goes_and_how_to_simulate_one(tmp_path, monkeypatch):
    monkeypatch.setenv("METASCHED_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(StoreError, match="82 GB") as caught:
        weather.load()
    message = str(caught.value)
    assert str(tmp_path / "data" / "extreme-weather" / "climo_2005.h5") in message
    assert str(tmp_path / "cache" / "metasched" / "extreme-weather" / "climo_2005.h5") in message
    assert "https://extremeweatherdataset.github.io" in message
    assert "metasched data simulate-weather OUT.h5" in message
    assert "\n" not in message


def test_fewer_than_three_usable_images_are_refused(tmp_path):
    write_empty(tmp_path / "year.h5", [5, 4, 5, 4, 0])
    with pytest.raises(DataError, match=r"year\.h5: 2 images have 5 boxes or more; at least 3"):
        weather.load(path=tmp_path / "year.h5")


def test_split_sizes_can_be_chosen(path):
    tasks = weather.load(path=path, validation_images=10, training_images=20, size=2)
    assert tasks.sizes == (20,) * 5
    assert np.unique(tasks.provenance["validation"].rows // 15).tolist() == list(range(10))
    assert np.unique(tasks.provenance["test"].rows // 15).tolist() == list(range(30, 60))
    assert tasks.notes == ()


@pytest.mark.parametrize(("validation", "training"), [(30, 30), (10, None), (None, 11), (0, 20), (20, 0), (-1, 20)])
def test_split_sizes_that_do_not_fit_are_refused(path, validation, training):
    with pytest.raises(ConfigError, match=r"small\.h5 has 60 images with 5 boxes or more; give validation_images"):
        weather.load(path=path, validation_images=validation, training_images=training)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"test_feature": "U580"}, "unknown feature 'U580'; did you mean 'U850'"),
        ({"validation_features": ["TQM"]}, "unknown feature 'TQM'; did you mean 'TMQ'"),
        ({"features": [["TMQ"]] * 4 + [["Z1000"]]}, "unknown feature 'Z1000'; did you mean 'Z100'"),
        ({"features": [["TMQ"]] * 6}, "features has 6 entries"),
        ({"target_boxes": "first-four"}, "unknown target_boxes 'first-four'; did you mean 'first-five'"),
        ({"size": 0}, "size is 0"),
        ({"features": [["TMQ"]] * 5, "validation_features": ["TMQ"]}, "feature 'U850' is only in the test rows"),
    ],
)
def test_bad_options_are_named(path, options, fault):
    with pytest.raises(ConfigError, match=fault):
        weather.load(path=path, **options)


def test_memory_grows_with_the_boxes_and_not_with_the_grid(tmp_path):
    path = tmp_path / "year.h5"
    write_empty(path, [5] * 60, height=768, width=1152, edge=90)
    tracemalloc.start()
    try:
        tasks = weather.load(path=path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    inputs = sum(part.inputs.nbytes for part in (*tasks.tasks, tasks.validation, tasks.test))
    assert inputs == 60 * 5 * 32 * 32 * 16 * 4
    assert peak < 2 * inputs + 2**23  # the images are 3.4 GB
