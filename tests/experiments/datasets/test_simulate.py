import errno
import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.errors import ConfigError, StoreError
from metasched.experiments.datasets import simulate
from metasched.experiments.datasets.extreme_weather import CHANNELS, read_boxes, read_windows
from metasched.experiments.datasets.simulate import (
    TRANSITIONS,
    draw_boxes,
    event_chain,
    event_window,
    round_mantissa,
    simulate_weather,
    stationary,
)

h5py = pytest.importorskip("h5py")

HEIGHT, WIDTH = 96, 144


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    path = tmp_path_factory.mktemp("simulated") / "year.h5"
    simulate_weather(path, images=250, height=HEIGHT, width=WIDTH, seed=3)
    return path


def deviations(sequences):
    """How many standard errors each observed transition frequency lies from the paper's matrix."""
    counts = np.zeros((4, 4))
    for labels in sequences:
        np.add.at(counts, (labels[:-1], labels[1:]), 1)
    visits = counts.sum(axis=1, keepdims=True)
    assert not counts[TRANSITIONS == 0].any()
    error = np.sqrt(visits * TRANSITIONS * (1 - TRANSITIONS))
    return (counts - visits * TRANSITIONS)[TRANSITIONS > 0] / error[TRANSITIONS > 0]


def test_the_matrix_is_that_of_the_appendix_and_its_rows_sum_to_one():
    np.testing.assert_allclose(TRANSITIONS.sum(axis=1), 1, atol=1e-12)
    assert TRANSITIONS[3].tolist() == [0, 0.017, 0.454, 0.529]


def test_the_chain_is_stationary_from_its_first_step():
    expected = np.linalg.matrix_power(TRANSITIONS, 10_000)[0]
    np.testing.assert_allclose(stationary(TRANSITIONS), expected, atol=1e-9)
    firsts = [int(event_chain(1, np.random.default_rng(seed))[0]) for seed in range(2000)]
    np.testing.assert_allclose(np.bincount(firsts, minlength=4) / 2000, expected, atol=0.045)


def test_a_long_chain_has_the_transition_frequencies_of_the_matrix():
    assert np.abs(deviations([event_chain(60_000, np.random.default_rng(0))])).max() < 4


def test_the_chain_of_a_slot_moves_only_at_images_that_fill_the_slot():
    labels = draw_boxes(700, 96, 144, seed=1, max_boxes=15)[:, :, 4]
    chains = [labels[labels[:, slot] >= 0, slot] for slot in range(15)]
    assert len(chains[0]) == 700
    assert len(chains[14]) < 150
    assert np.abs(deviations(chains)).max() < 4


def test_images_have_five_to_max_boxes_in_their_first_slots():
    used = draw_boxes(300, 96, 144, seed=0, max_boxes=9)[:, :, 4] >= 0
    counts = used.sum(axis=1)
    assert set(counts) == {5, 6, 7, 8, 9}
    assert all(row[:count].all() for row, count in zip(used, counts, strict=True))


def test_some_boxes_cross_the_date_line_and_some_the_poles():
    boxes = draw_boxes(300, 96, 144, seed=0, max_boxes=15)
    boxes = boxes[boxes[:, :, 4] >= 0]
    assert np.mean(boxes[:, 3] > 144) > 0.01
    assert np.any(boxes[:, 0] < 0)
    assert np.any(boxes[:, 2] > 96)


def test_boxes_of_an_image_seldom_overlap():
    shared = total = 0
    for boxes in draw_boxes(60, 192, 288, seed=0, max_boxes=15):
        cover = np.zeros((192, 288), int)
        for top, left, bottom, right, _ in boxes[boxes[:, 4] >= 0]:
            cover[np.ix_(range(max(top, 0), min(bottom, 192)), np.arange(left, right) % 288)] += 1
        shared += np.count_nonzero(cover > 1)
        total += np.count_nonzero(cover)
    assert shared < 0.02 * total


def test_the_file_says_that_it_is_simulated_and_how(simulated):
    with h5py.File(simulated) as file:
        assert file.attrs["simulated"]
        assert "not observations" in file.attrs["description"]
        assert file.attrs["seed"] == 3
        assert "version" in file.attrs["generator"]
        assert file["images"].shape == (250, 16, HEIGHT, WIDTH)
        assert file["boxes"].shape == (250, 15, 5)


def test_every_window_is_written_to_its_edges_in_plausible_units(simulated):
    boxes = read_boxes(simulated)
    boxes = boxes.take(np.arange(0, len(boxes), 4))
    plausible = {
        "PRECT": (1e-12, 1e-4), "PS": (80_000, 108_000), "PSL": (80_000, 108_000), "QREFHT": (5e-5, 0.04),
        "T200": (190, 250), "T500": (220, 300), "TMQ": (0.4, 120), "TREFHT": (240, 330), "TS": (240, 330),
        "U850": (-120, 120), "UBOT": (-120, 120), "V850": (-120, 120), "VBOT": (-120, 120),
        "Z100": (15_000, 18_000), "Z200": (10_000, 14_000), "ZBOT": (50, 80),
    }  # fmt: skip
    windows = read_windows(simulated, boxes, range(16), size=8)
    for channel, name in enumerate(CHANNELS):
        low, high = plausible[name]
        values = windows[..., channel]
        assert low <= values.min(), name
        assert values.max() <= high, name


@pytest.mark.parametrize("name", ["UBOT", "TMQ", "U850", "V850", "VBOT", "Z100"])
def test_one_channel_alone_beats_chance_and_is_not_perfect(simulated, name):
    boxes = read_boxes(simulated)
    windows = read_windows(simulated, boxes, [CHANNELS.index(name)], size=8).reshape(len(boxes), -1)
    past = boxes.image < 170
    balanced = nearest_neighbours(windows[past], boxes.labels[past], windows[~past], boxes.labels[~past])
    assert 0.36 < balanced < 0.95


def nearest_neighbours(inputs, labels, queries, truth, near=9):
    """Balanced accuracy of a vote among the nearest rows, each class weighted by its rarity."""
    squares = (inputs.astype(np.float64) ** 2).sum(axis=1)
    closest = np.argsort(squares - 2 * queries.astype(np.float64) @ inputs.T, axis=1)[:, :near]
    votes = np.stack([(labels[closest] == label).sum(axis=1) / np.sum(labels == label) for label in range(4)], axis=1)
    chosen = votes.argmax(axis=1)
    return np.mean([np.mean(chosen[truth == label] == label) for label in range(4)])


def test_a_cyclone_turns_anticlockwise_in_the_north_and_clockwise_in_the_south():
    y, x = np.mgrid[-1:1:32j, -1:1:32j]
    east, north = CHANNELS.index("U850"), CHANNELS.index("V850")
    for hemisphere in (1, -1):
        turns = []
        for seed in range(40):
            window = event_window(1, 32, 32, hemisphere, np.random.default_rng(seed))
            turns.append(np.mean(x * window[north] - y * window[east]))
        assert np.mean(np.sign(turns) == hemisphere) > 0.9


def test_the_same_seed_writes_the_same_numbers_and_another_seed_others(tmp_path):
    contents = []
    for name, seed in (("a.h5", 5), ("b.h5", 5), ("c.h5", 6)):
        simulate_weather(tmp_path / name, images=3, height=64, width=64, seed=seed)
        with h5py.File(tmp_path / name) as file:
            contents.append((file["boxes"][()], file["images"][()]))
    np.testing.assert_array_equal(contents[0][0], contents[1][0])
    np.testing.assert_array_equal(contents[0][1], contents[1][1])
    assert not np.array_equal(contents[0][1], contents[2][1])


def test_only_the_windows_take_space(tmp_path):
    simulate_weather(tmp_path / "large.h5", images=3, height=768, width=1152, max_boxes=5)
    assert (tmp_path / "large.h5").stat().st_size < 3 * 16 * 768 * 1152 * 4 / 20


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32).filter(lambda x: x == 0 or abs(x) > 1e-30), min_size=1))
def test_rounding_keeps_twelve_bits(values):
    exact = np.array(values, np.float32)
    rounded = round_mantissa(exact)
    assert not (rounded.view(np.uint32) & 0x7FF).any()
    assert np.all(np.abs(rounded.astype(np.float64) - exact) <= np.abs(exact.astype(np.float64)) * 2.0**-13)


def test_progress_counts_the_images(tmp_path):
    seen = []
    simulate_weather(tmp_path / "a.h5", images=4, height=64, width=64, progress=lambda *step: seen.append(step))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_an_existing_file_is_not_overwritten(tmp_path):
    path = tmp_path / "year.h5"
    path.write_bytes(b"precious")
    with pytest.raises(ConfigError, match=r"year\.h5 exists and is not overwritten"):
        simulate_weather(path, images=3)
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"images": 2}, "images is 2; give 3"),
        ({"images": 10**9}, "images is 1000000000"),
        ({"height": 63}, "the grid is 63 × 288"),
        ({"width": 10}, "the grid is 192 × 10"),
        ({"height": 10**5, "width": 10**5}, "the grid is 100000 × 100000"),
        ({"max_boxes": 4}, "max_boxes is 4"),
        ({"max_boxes": 16}, "max_boxes is 16"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_options_are_named(tmp_path, options, fault):
    with pytest.raises(ConfigError, match=fault):
        simulate_weather(tmp_path / "year.h5", **options)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(simulate, "_write_image", fail)
    with pytest.raises(StoreError, match=r"year\.h5: cannot write \(No space left on device\); no file was made"):
        simulate_weather(tmp_path / "year.h5", images=3)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("room", [0, 100, 3_000, 20_000, 100_000, 400_000, 1_000_000])
def test_a_write_that_fails_anywhere_does_not_crash_the_process_later(tmp_path, room):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(StoreError, match=r"year\.h5: cannot write \(File too large\); no file was made"):
            simulate_weather(tmp_path / "year.h5", images=30, height=96, width=96)
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate, "_write_image", interrupt)
    with pytest.raises(KeyboardInterrupt):
        simulate_weather(tmp_path / "year.h5", images=3)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"nowhere/year\.h5: cannot write"):
        simulate_weather(tmp_path / "nowhere" / "year.h5", images=3)
