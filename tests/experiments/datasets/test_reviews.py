import numpy as np
import pytest

import metasched as ms
from helpers import nearest_mean
from metasched.errors import ConfigError, DataError
from metasched.experiments.datasets import reviews


def write(path, *lines):
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


class TestParsing:
    def test_labels_and_texts_keep_their_order(self, tmp_path):
        texts, labels = reviews.parse(write(tmp_path / "a", b"1\tgood one .", b"0\tbad one"))
        assert texts == [b"good one .", b"bad one"]
        assert labels.tolist() == [1, 0]

    def test_bytes_of_any_encoding_do_not_end_a_line(self, tmp_path):
        texts, _ = reviews.parse(write(tmp_path / "a", b"1\tcaf\xe9 \x85 nice", b"0\t"))
        assert texts == [b"caf\xe9 \x85 nice", b""]

    @pytest.mark.parametrize("line", [b"2\tx", b"1 x", b"", b"x"])
    def test_a_line_without_a_label_is_named(self, tmp_path, line):
        with pytest.raises(DataError, match="line 2 does not begin with 0 or 1 and a tab"):
            reviews.parse(write(tmp_path / "a", b"1\tx", line, b"0\ty"))

    def test_an_empty_file_is_named(self, tmp_path):
        with pytest.raises(DataError, match="holds no reviews"):
            reviews.parse(write(tmp_path / "a"))


class TestBags:
    def test_the_commonest_words_come_first_but_for_the_very_commonest(self):
        common = b" ".join(b"the%d" % number for number in range(40))
        texts = [common] * 5 + [b"b b b b a a a c c c", b"d"]
        assert reviews.vocabulary(texts, 3) == {b"b": 0, b"a": 1, b"c": 2}
        with pytest.raises(ConfigError, match="the reviews have 4 beyond the 40 commonest"):
            reviews.vocabulary(texts, 5)

    def test_a_word_counts_once(self):
        bags = reviews.bags([b"x y x", b"", b"z y"], {b"x": 0, b"y": 1})
        assert bags.tolist() == [[1, 1], [0, 0], [0, 1]]
        assert bags.dtype == np.float32


class TestReal:
    @pytest.fixture
    def needed(self, needs):
        needs(*(file.path for file in reviews.FILES))

    def test_fifteen_domains_teach_books(self, needed):
        tasks = ms.datasets.load("reviews", words=300)
        assert len(tasks.tasks) == 15
        assert tasks.shape == (300,)
        assert min(tasks.sizes) == 1500
        assert max(tasks.sizes) == 1600
        assert np.bincount(tasks.validation.labels).tolist() == [15, 15]
        assert len(tasks.test.labels) == 1952
        assert set(np.unique(tasks.test.inputs)) == {0.0, 1.0}
        assert tasks.useful is None
        _, labels = reviews.parse(reviews.locate(reviews._files("music", "train")[0]))
        music = next(task for task in tasks.tasks if task.name == "music")
        np.testing.assert_array_equal(music.labels, labels)

    def test_no_review_is_in_validation_and_test_or_in_a_source_and_the_target(self, needed):
        tasks = ms.datasets.load("reviews", target="video", sources=["dvd", "magazines"], words=100, target_labels=200)
        texts = {name: reviews._read(name, "train", "test")[0] for name in ("video", "dvd", "magazines")}

        def of(key, name):
            return {texts[name][row] for row in tasks.provenance[key].rows}

        validation, test = of("validation", "video"), of("test", "video")
        assert len(validation) == 200
        assert len(test) == len(tasks.test.labels)
        for name in ("dvd", "magazines"):
            assert not of(name, name) & (validation | test)
        assert not validation & test

    def test_other_domains_teach_some_of_it(self, needed):
        tasks = ms.datasets.load("reviews", sources=["dvd", "software"])
        dvd, software = (nearest_mean(task, tasks.test) for task in tasks.tasks)
        assert 0.8 > dvd > 0.65 > software > 0.55

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"target": "book"}, "did you mean 'books'"),
            ({"sources": ["books"]}, "is both the target and a source"),
            ({"words": 0}, "words is 0"),
        ],
    )
    def test_an_unknown_choice_is_refused(self, options, message):
        with pytest.raises(ConfigError, match=message):
            ms.datasets.load("reviews", **options)
