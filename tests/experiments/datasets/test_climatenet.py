import csv
import gzip
import time
from collections import Counter, defaultdict

import numpy as np
import pytest

from metasched.datasets import store
from metasched.errors import DataError
from metasched.experiments.datasets import climatenet
from metasched.experiments.datasets.climatenet import FILES, VARIABLES, read

needs_data = pytest.mark.skipif(
    any(store.find(file.path) is None for file in FILES.values()),
    reason="needs the ClimateNet files: set METASCHED_DATA",
)

HEADER = ",".join(["SNo", "lat", "lon", *VARIABLES, "time", "Label"])


def line(label, *, lat=1.0, lon=2.0, time=20000101, value=5.0, number=1):
    return ",".join(map(str, [number, lat, lon, *[value] * 16, time, label]))


def write(path, *lines, header=HEADER):
    path.write_bytes(gzip.compress("\n".join([header, *lines, ""]).encode()))
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "points.csv.gz"


@pytest.mark.parametrize(
    ("labels", "expected", "tied"),
    [
        ([2], 2, False),
        ([0, 2, 2], 2, False),
        ([0, 2], 0, True),
        ([2, 1], 1, True),
        ([0, 0, 1, 1, 2, 2, 2], 2, False),
        ([2, 1, 0], 0, True),
        ([1, 1, 2, 2, 0], 1, True),
    ],
)
def test_the_majority_decides_and_a_tie_goes_to_the_lower_label(path, labels, expected, tied):
    points = read(write(path, *map(line, labels)))
    assert len(points) == 1
    assert points.labels.tolist() == [expected]
    assert points.tied.tolist() == [tied]
    assert points.votes.tolist() == [[labels.count(label) for label in range(3)]]


def test_points_come_in_order_of_time_then_latitude_then_longitude(path):
    keys = [(20000102, 1.0, 2.0), (20000101, 3.0, 1.0), (20000101, -3.0, 9.0), (20000101, 3.0, 0.5)]
    lines = [line(0, time=t, lat=lat, lon=lon, value=n) for n, (t, lat, lon) in enumerate(keys)]
    points = read(write(path, *lines))
    assert list(zip(points.time, points.lat, points.lon, strict=True)) == sorted(keys)
    assert points.values[:, 0].tolist() == [2, 3, 1, 0]


def test_columns_keep_their_names_and_order(path):
    values = ",".join(map(str, range(16)))
    points = read(
        write(path, f"0,1,2,{values},20110601,1", header=HEADER.replace("SNo", "").replace("Label", "LABELS"))
    )
    assert points.values.tolist() == [list(range(16))]
    assert (points.time[0], points.lat[0], points.lon[0], points.labels[0]) == (20110601, 1, 2, 1)


def damaged(content):
    return content[:20] + bytes(byte ^ 0xFF for byte in content[20:40]) + content[40:]


@pytest.mark.parametrize(
    "spoil",
    [lambda content: content[:-20], damaged, lambda _: b"", lambda _: b"lat,lon", lambda _: gzip.compress(b"\xff")],
)
def test_a_damaged_file_is_named(path, spoil):
    write(path, *[line(0, number=n, lat=n) for n in range(50)])
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(DataError, match=r"points\.csv\.gz: ") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_unpacks_without_end_is_refused(path, monkeypatch):
    monkeypatch.setattr(climatenet, "MAX_BYTES", 10_000)
    write(path, *[line(0)] * 200)
    with pytest.raises(DataError, match=r"points\.csv\.gz: unpacks to more than 10,000 bytes"):
        read(path)


@pytest.mark.parametrize("header", ["", "a,b,c", HEADER.replace("TMQ,U850", "U850,TMQ"), HEADER.replace(",Label", "")])
def test_other_columns_are_refused(path, header):
    write(path, line(0), header=header)
    with pytest.raises(DataError, match=r"points\.csv\.gz: line 1 does not name the columns"):
        read(path)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (line(3), r"line 3 has a label outside 0 … 2 \(1 such row\)"),
        (line(0.5), "line 3 has a label outside 0 … 2"),
        (line(0, value="nan"), "line 3 holds NaN or infinity"),
        (line(0, value="inf"), "line 3 holds NaN or infinity"),
        (line(0, value="wet"), "a row after the header is not numbers"),
        (line(0, value=6.0), "line 3 has other values than an earlier row of its date and site"),
        ("1,2,3", "a row after the header is not numbers"),
    ],
)
def test_a_bad_row_is_named(path, row, fault):
    write(path, line(0), row)
    with pytest.raises(DataError, match=fault) as caught:
        read(path)
    assert "points.csv.gz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_of_another_width_than_the_header_are_refused(path):
    write(path, line(0) + ",1", line(0) + ",1")
    with pytest.raises(DataError, match="line 2 has 22 columns, the header 21"):
        read(path)


def test_a_file_without_rows_is_refused(path):
    with pytest.raises(DataError, match="has no rows after its header"):
        read(write(path))


@needs_data
@pytest.mark.parametrize(("key", "count", "dates"), [("train", 21_120, 176), ("target", 1_240, 31)])
def test_the_real_points_are_merged_as_a_plain_count_does(key, count, dates):
    path = store.locate(FILES[key])
    points = read(path)
    votes = defaultdict(Counter)
    with gzip.open(path, "rt") as stream:
        for row in list(csv.reader(stream))[1:]:
            votes[int(row[19]), float(row[1]), float(row[2])][int(row[20])] += 1
    expected = {key: min(count, key=lambda label: (-count[label], label)) for key, count in votes.items()}
    assert len(points) == count
    assert list(zip(points.time, points.lat, points.lon, strict=True)) == sorted(expected)
    assert points.labels.tolist() == [expected[key] for key in sorted(expected)]
    assert len(np.unique(points.time)) == dates


@needs_data
def test_annotators_disagree_where_they_are_known_to():
    points = read(store.locate(FILES["train"]))
    assert np.count_nonzero((points.votes > 0).sum(axis=1) > 1) == 2815
    assert points.votes.sum() == 44_760


@needs_data
def test_the_large_file_reads_in_a_moment():
    path = store.locate(FILES["train"])
    start = time.process_time()
    read(path)
    assert time.process_time() - start < 3  # about 0.4 s; the bound leaves room for a slow machine
