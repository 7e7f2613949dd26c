"""CIFAR-100's official archive is a pickle: what it may hold is read, anything else runs nothing."""

import io
import pickle
import pickletools
import tarfile
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from metasched.datasets import store
from metasched.errors import ConfigError, DataError
from metasched.experiments.datasets import cifar100

COARSE = ["fish", "insects", "people"]
FINE = [f"kind{number:02d}" for number in range(15)]


def batch(count, seed):
    random = np.random.default_rng(seed)
    fine = random.integers(0, 15, count)
    return {
        b"filenames": [b"x.png"] * count,
        b"batch_label": b"training batch 1 of 1",
        b"fine_labels": fine.tolist(),
        b"coarse_labels": (fine // 5).tolist(),
        b"data": random.integers(0, 256, (count, 3072)).astype(np.uint8),
    }


def python2_pickle(value):
    """As Python 2 wrote the official files: protocol 2, text as bytes, arrays by their old module's name."""
    old = pickle.dumps(value, protocol=2, fix_imports=True)
    return old.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def official_array(values):
    """The opcodes of a uint8 array in the official file, where the body is a plain byte string."""
    shape = b"".join(b"K" + bytes([n]) if n < 256 else b"J" + n.to_bytes(4, "little") for n in values.shape)
    body = values.tobytes()
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01" + shape + b"\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + len(body).to_bytes(4, "little")
        + body
        + b"tb"
    )


def official_pickle(values):
    return b"\x80\x02}U\x04data" + official_array(values) + b"s."


def write_archive(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


META = {
    b"fine_label_names": [name.encode() for name in FINE],
    b"coarse_label_names": [name.encode() for name in COARSE],
}


def plain(value):
    """A batch without its array, as bytes-keyed Python 2 text."""
    chunks = [b"\x80\x02}("]
    for key, item in value.items():
        chunks.append(b"U" + bytes([len(key)]) + key)
        if isinstance(item, np.ndarray):
            chunks.append(official_array(item))
        elif isinstance(item, bytes):
            chunks.append(b"U" + bytes([len(item)]) + item)
        else:
            chunks.append(b"](")
            chunks += [b"U" + bytes([len(x)]) + x if isinstance(x, bytes) else b"K" + bytes([x]) for x in item]
            chunks.append(b"e")
    return b"".join([*chunks, b"u."])


@pytest.fixture
def archive(tmp_path):
    members = {"meta": plain(META), "train": plain(batch(200, 0)), "test": plain(batch(60, 1))}
    return write_archive(tmp_path / "c.tar.gz", {f"cifar-100-python/{name}": body for name, body in members.items()})


class TestReading:
    def test_the_made_up_pickle_is_a_real_one(self):
        pickletools.dis(official_pickle(np.zeros((2, 3072), np.uint8)), out=io.StringIO())
        pickletools.dis(plain(META), out=io.StringIO())

    def test_superclasses_keep_rows_labels_and_pixels(self, archive):
        (insects,) = cifar100.from_archive(archive, ("insects",), {})
        source = batch(200, 0)
        rows = np.flatnonzero(np.array(source[b"coarse_labels"]) == 1)
        np.testing.assert_array_equal(insects.train.rows, rows)
        np.testing.assert_array_equal(insects.train.labels, np.array(source[b"fine_labels"])[rows] - 5)
        assert insects.classes == ("kind05", "kind06", "kind07", "kind08", "kind09")
        assert insects.train.images.shape == (len(rows), 32, 32, 3)
        red = source[b"data"][rows[0]][:1024].reshape(32, 32)
        np.testing.assert_array_equal(insects.train.images[0, :, :, 0], red)

    def test_an_unknown_superclass_suggests_the_nearest(self, archive):
        with pytest.raises(ConfigError, match="did you mean 'insects'"):
            cifar100.from_archive(archive, ("insect",), {})

    def test_the_official_layout_of_an_array_is_read(self):
        values = np.random.default_rng(0).integers(0, 256, (7, 3072)).astype(np.uint8)
        np.testing.assert_array_equal(cifar100.read_pickle(official_pickle(values), "x")[b"data"], values)


class Touch:
    """Creates a file when unpickled by a careless reader."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


class TestCraftedPickles:
    def test_a_call_runs_nothing(self, tmp_path):
        target = tmp_path / "ran"
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(DataError, match="which does not belong in this file"):
                cifar100.read_pickle(pickle.dumps({b"data": Touch(target)}, protocol=protocol), "archive: train")
        assert not target.exists()

    @pytest.mark.parametrize("name", ["os\nsystem", "builtins\neval", "numpy\nload", "numpy.core.multiarray\nscalar"])
    def test_no_other_name_is_even_looked_up(self, name):
        crafted = b"c" + name.encode() + b"\n(U\x01xtR."
        with pytest.raises(DataError, match=r"asks for .* refused"):
            cifar100.read_pickle(crafted, "x")

    def test_an_array_of_objects_is_refused(self):
        crafted = official_pickle(np.zeros((1, 4), np.uint8)).replace(b"U\x02u1", b"U\x02O8")
        with pytest.raises(DataError, match="only bytes belong"):
            cifar100.read_pickle(crafted, "x")

    def test_a_shape_that_promises_more_than_it_holds_is_refused(self):
        crafted = official_pickle(np.zeros((1, 4), np.uint8)).replace(b"K\x01K\x04\x86", b"K\xffK\xff\x86")
        with pytest.raises(DataError, match="declares an array"):
            cifar100.read_pickle(crafted, "x")

    def test_reduce_on_the_stand_ins_does_nothing_harmful(self):
        crafted = b"cnumpy\nndarray\n(J\xff\xff\xff\x7ftR."  # ndarray(2147483647): never allocated
        with pytest.raises(DataError):
            cifar100.read_pickle(crafted, "x")

    @pytest.mark.parametrize("keep", [0, 1, 10, 100])
    def test_a_pickle_cut_short_is_refused(self, keep):
        with pytest.raises(DataError, match="x: "):
            cifar100.read_pickle(plain(META)[:keep], "x")

    def test_something_else_than_a_dictionary_is_refused(self):
        with pytest.raises(DataError, match="holds a list"):
            cifar100.read_pickle(pickle.dumps([1]), "x")


class TestCraftedArchives:
    @pytest.mark.parametrize("name", ["../../x", "cifar-100-python/../../x", "/etc/x"])
    def test_a_member_that_climbs_out_is_refused(self, tmp_path, name):
        path = write_archive(tmp_path / "c.tar.gz", {name: b"x", "cifar-100-python/meta": plain(META)})
        with pytest.raises(DataError, match="points outside"):
            cifar100.read_members(path, ("meta",))
        assert list(tmp_path.parent.glob("x")) == []

    def test_a_link_is_refused(self, tmp_path):
        with tarfile.open(tmp_path / "c.tar.gz", "w:gz") as archive:
            link = tarfile.TarInfo("cifar-100-python/meta")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        with pytest.raises(DataError, match="is a link or points outside"):
            cifar100.read_members(tmp_path / "c.tar.gz", ("meta",))

    def test_a_missing_member_is_named(self, tmp_path):
        path = write_archive(tmp_path / "c.tar.gz", {"cifar-100-python/meta": b"x"})
        with pytest.raises(DataError, match="no member 'cifar-100-python/train'"):
            cifar100.read_members(path, ("meta", "train"))

    def test_a_truncated_archive_is_named(self, archive):
        archive.write_bytes(archive.read_bytes()[:5000])
        with pytest.raises(DataError, match=r"c\.tar\.gz: truncated or damaged archive"):
            cifar100.from_archive(archive, ("fish",), {})

    def test_other_contents_are_named(self, tmp_path):
        members = {f"cifar-100-python/{name}": plain({b"a": b"b"}) for name in ("meta", "train", "test")}
        with pytest.raises(DataError, match="not a CIFAR-100 archive"):
            cifar100.from_archive(write_archive(tmp_path / "c.tar.gz", members), ("fish",), {})


def test_the_real_superclass_files_hold_2500_and_500_rows(needs):
    needs(*(file.path for file in (cifar100.LABELS, *cifar100.SUPERCLASS_FILES.values())))
    for superclass in cifar100.read(*cifar100.SUPERCLASS_FILES):
        assert np.bincount(superclass.train.labels).tolist() == [500] * 5
        assert np.bincount(superclass.test.labels).tolist() == [100] * 5
        assert len(superclass.classes) == 5


class TestSamples:
    @pytest.fixture
    def sample(self, tmp_path, monkeypatch):
        """A made-up sample of trees, and names for all labels, that the store takes for the real ones."""
        monkeypatch.setenv("METASCHED_DATA", str(tmp_path))

        def place(file, **arrays):
            path = tmp_path / file.path
            path.parent.mkdir(exist_ok=True)
            np.savez(path, **arrays)
            return replace(file, size=path.stat().st_size, sha256=store.sha256(path))

        def make(**changes):
            arrays = {
                "x": np.arange(6, dtype=np.uint8)[:, None, None, None] + np.zeros((1, 32, 32, 3), np.uint8),
                "y": np.array([59, 47, 52, 59, 47, 96], np.uint8),
                "test": np.array([0, 1, 0, 0, 0, 1], bool),
                **changes,
            }
            monkeypatch.setattr(cifar100, "LABELS", place(cifar100.LABELS, fine_names=np.array(FINE * 7)))
            monkeypatch.setitem(cifar100.SAMPLE_FILES, "trees", place(cifar100.SAMPLE_FILES["trees"], **arrays))

        return make

    def test_rows_keep_the_order_and_the_numbers_of_the_file(self, sample):
        sample()
        (trees,) = cifar100.read("trees")
        assert trees.sample == "cifar100-more/trees.npz"
        assert trees.train.rows.tolist() == trees.train.images[:, 0, 0, 0].tolist() == [0, 2, 3, 4]
        assert trees.train.labels.tolist() == [2, 1, 2, 0]
        assert trees.test.rows.tolist() == [1, 5]
        assert trees.test.labels.tolist() == [0, 3]

    def test_labels_that_do_not_fit_are_refused(self, sample):
        sample(y=np.array([59], np.uint8))
        with pytest.raises(DataError, match="do not fit together"):
            cifar100.read("trees")

    def test_real_samples_hold_1000_and_250_rows(self, needs):
        needs(*(file.path for file in (cifar100.LABELS, *cifar100.SAMPLE_FILES.values())))
        for superclass in cifar100.read(*cifar100.SAMPLE_FILES):
            assert np.bincount(superclass.train.labels).tolist() == [200] * 5
            assert np.bincount(superclass.test.labels).tolist() == [50] * 5
        (trees,) = cifar100.read("trees")
        assert trees.classes == ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree")


class TestMemory:
    """No few bytes make the reader take many."""

    @pytest.mark.parametrize(
        "content",
        [
            b"\x80\x02}r\xff\xff\xff\x0f.",  # remember the dictionary in place 2²⁸ − 1
            b"\x80\x02}p2000000000\n.",
            b"\x80\x03B\xff\xff\xff\x7fab.",  # two bytes that claim to be 2 GB
            b"\x80\x05\x96\xff\xff\xff\xff\x00\x00\x00\x00ab.",
            b"\x80\x04\x95\xff\xff\xff\xff\x00\x00\x00\x00}.",
        ],
    )
    def test_a_pickle_of_a_few_bytes_is_refused_before_it_asks_for_gigabytes(self, content):
        tracemalloc.start()
        with pytest.raises(DataError, match="pickle"):
            cifar100.read_pickle(content, "x")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10_000_000

    @pytest.mark.parametrize("labels", [[[0]], [2**70], [-1], [15], b"\x00", [True], 3])
    def test_labels_that_are_no_list_of_classes_are_refused(self, tmp_path, labels):
        train = batch(1, 0) | {b"fine_labels": labels}
        with pytest.raises(DataError, match="the labels are not a list of numbers from 0 to 14"):
            cifar100.from_archive(archive_of(tmp_path, train), ("fish",), {})

    def test_fewer_labels_than_images_are_refused(self, tmp_path):
        train = batch(2, 0) | {b"fine_labels": [0]}
        with pytest.raises(DataError, match="the numbers of images and labels differ"):
            cifar100.from_archive(archive_of(tmp_path, train), ("fish",), {})

    def test_an_archive_that_unpacks_for_ever_is_stopped(self, tmp_path, monkeypatch):
        monkeypatch.setattr(cifar100, "_LARGEST_ARCHIVE", 100_000)
        write_archive(tmp_path / "x.tar.gz", {"other": bytes(10_000_000)})
        with pytest.raises(DataError, match="more than 100,000 bytes"):
            cifar100.read_members(tmp_path / "x.tar.gz", ("meta",))


def archive_of(tmp_path, train):
    meta = {b"fine_label_names": [n.encode() for n in FINE], b"coarse_label_names": [n.encode() for n in COARSE]}
    members = {"meta": meta, "train": train, "test": batch(2, 1)}
    path = tmp_path / "cifar.tar.gz"
    write_archive(path, {f"cifar-100-python/{name}": pickle.dumps(value, 4) for name, value in members.items()})
    return path
