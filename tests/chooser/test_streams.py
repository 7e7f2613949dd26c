"""One source of a mixture, and what Hugging Face's streaming data sets and PyTorch's loaders make of a position."""

import pytest

from metasched.chooser.streams import Stream
from metasched.errors import DataError


def test_a_position_is_where_the_next_row_comes_from():
    stream = Stream("a", [0, 1, 2])
    assert stream.take(2) == [0, 1]
    place = stream.position()
    assert stream.take(5) == [2]
    stream.again()
    assert stream.take(1) == [0]
    stream.go_to(place)
    assert stream.position() == place == {"pass": 0, "read": 2}
    assert stream.take(5) == [2]


class TestLines:
    def test_seeks_to_where_it_was_and_keeps_what_a_line_ends_with_out(self, tmp_path):
        path = tmp_path / "rows.txt"
        path.write_bytes("eins\nzwei\r\n\ndreißig".encode())
        stream = Stream("a", path)
        assert stream.take(2) == ["eins", "zwei"]
        place = stream.position()
        assert place["state"] == {"offset": 11}
        other = Stream("a", path)
        other.go_to(place)
        assert other.take(5) == ["", "dreißig"]
        other.again()
        assert other.take(1) == ["eins"]

    def test_says_which_file_cannot_be_read_and_which_line_is_not_text(self, tmp_path):
        with pytest.raises(DataError, match=r"missing.txt: cannot read \(No such file"):
            Stream("a", tmp_path / "missing.txt").take(1)
        (tmp_path / "odd.txt").write_bytes(b"ok\n\xff\n")
        stream = Stream("a", tmp_path / "odd.txt")
        with pytest.raises(DataError, match=r"odd.txt: the line that ends at byte 5 is not UTF-8"):
            stream.take(2)


def test_a_source_that_has_become_shorter_is_noticed():
    stream = Stream("a", lambda: iter([0, 1]))
    stream.go_to({"pass": 0, "read": 3})
    with pytest.raises(DataError, match="source 'a' has fewer rows than the 3 that were read before"):
        stream.take(1)


class TestHuggingFace:
    @pytest.fixture
    def rows(self):
        arrow = pytest.importorskip("datasets.arrow_dataset")
        return lambda: arrow.Dataset.from_dict({"x": list(range(10))})

    @pytest.mark.parametrize(
        "kind",
        [
            lambda rows: rows,
            lambda rows: rows.to_iterable_dataset(num_shards=3),
            lambda rows: rows.to_iterable_dataset().filter(lambda row: row["x"] % 3).map(dict),
            lambda rows: rows.to_iterable_dataset(num_shards=3).batch(2),
        ],
    )
    @pytest.mark.parametrize("read", [0, 1, 4, 7, 13, 21])
    def test_goes_on_in_any_pass(self, rows, kind, read):
        def build():
            return Stream("a", kind(rows()))

        def take(stream, number):
            taken = stream.take(number)
            while len(taken) < number:
                stream.again()
                taken += stream.take(number - len(taken))
            return taken

        stream, other = build(), build()
        take(stream, read)
        assert stream.obstacle() is None
        other.go_to(stream.position())
        assert take(other, 15) == take(stream, 15)

    def test_a_shuffle_buffer_is_an_obstacle_wherever_it_is(self, rows):
        combine = pytest.importorskip("datasets.combine")
        shuffled = rows().to_iterable_dataset().shuffle(seed=1, buffer_size=4)
        for source in (shuffled, shuffled.map(dict).take(3), combine.interleave_datasets([shuffled, shuffled])):
            assert "rows in its shuffle buffer would be lost" in Stream("a", source).obstacle()


def test_a_loader_that_shuffles_is_an_obstacle():
    data = pytest.importorskip("torch.utils.data")
    assert "is shuffled differently" in Stream("a", data.DataLoader([1, 2], shuffle=True)).obstacle()
    assert Stream("a", data.DataLoader([1, 2])).obstacle() is None


def test_grain_goes_on_by_the_state_of_its_iterator():
    grain = pytest.importorskip("grain")

    def build():
        return Stream("a", grain.MapDataset.range(9).shuffle(seed=1).to_iter_dataset().batch(2))

    stream, other = build(), build()
    stream.take(3)
    assert "next_index" in str(stream.position()["state"])
    other.go_to(stream.position())
    assert [batch.tolist() for batch in other.take(5)] == [batch.tolist() for batch in stream.take(5)]
