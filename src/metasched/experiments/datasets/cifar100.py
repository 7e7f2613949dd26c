"""CIFAR-100 (Krizhevsky 2009): 60,000 colour images of 32 × 32 in 100 classes and 20 superclasses.

Three forms are read: the official ``cifar-100-python.tar.gz``, one ``.npz`` file for each of ten superclasses, and for
the ten others a sample, half as large and in a random order. The official archive contains pickles. :func:`read_pickle`
only accepts what these three files legitimately contain, and builds the array itself, so a crafted pickle cannot run
any code.
"""

import gzip
import io
import math
import pickle
import pickletools
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.npz import open_npz
from metasched.datasets.store import DataFile, checksums, find, listed, locate
from metasched.errors import DataError, unknown
from metasched.tasks import RowNumbers
from metasched.untrusted import file_size

ARCHIVE = DataFile(
    "cifar100/cifar-100-python.tar.gz",
    169001437,
    "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
    ("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",),
)
LABELS = DataFile(
    "cifar100/cifar100_labels.npz", 89531, "c99a770cbc44f220a49711a3fe272e62c83139e8191ea80c6d6a88706acbcfc1"
)
SUPERCLASS_FILES = {
    name: DataFile(f"cifar100/{number:02d}_{name}.npz", size, sha256)
    for number, name, size, sha256 in (
        (0, "aquatic_mammals", 8497181, "5debb113eef7d442a140afae291b0a451ff656b9596f5c3808c520166f5ebf33"),
        (1, "fish", 8406300, "2c3b98dd69ba483651b69cb0bb10654c38555e5113c04bbc21f623eb415a0a7e"),
        (7, "insects", 8337412, "f60b8bb678e5d6b3052ceb07802f3d473c3daee31b26ecfd0e4439f877d102db"),
        (8, "large_carnivores", 8735935, "68110588aa26f4ef2e5328256a8cd3146c09be82fde5940d205bd47842b8bec1"),
        (
            11,
            "large_omnivores_and_herbivores",
            8676676,
            "bacf19f5ab142055b5439e697652f3f09636ef29bbf6708658fa7475d62ba798",
        ),
        (12, "medium_mammals", 8628587, "146cf4d9511ac8599da3acb07f2f108e9128b02adab1b7ae9e5c76aae64944ff"),
        (13, "non-insect_invertebrates", 8198120, "36b2a72d0536ff65c4b9a0b8ba960af7712a1409ef01a4dd3dd891458aa74ffb"),
        (14, "people", 8422011, "e02394d963131658117a8d140810a65a009eb673fd68b3386899bf8a6781e875"),
        (15, "reptiles", 8308392, "8457b78c5818d86212c129378a27445af13f9ea027a9121bee4222f0e283fcf8"),
        (16, "small_mammals", 8606337, "5392cc6b286e47218550c4fa1b617b1595b27e4d63576d66c9fc894cc670ca1f"),
    )
}
SAMPLE_FILES = {
    file.path.removeprefix("cifar100-more/").removesuffix(".npz"): file
    for file in listed(
        "cifar100-more",
        "GitHub cyizhuo/CIFAR-100-dataset",
        """
        b702c57d861ac7246c68953a82b87cb6d9cda3cc55251aeb0c8f1ba5c9b3bc77 3687468 flowers.npz
        426ecf7d207c7aebae886a601db377b9cd689112a87f199db9c8ab8a4fc787e1 3324294 food_containers.npz
        d56c876ead03828e2d8580ede93163bb8e628b98a3dd1a85370f71b10692dd44 3533223 fruit_and_vegetables.npz
        18db01ad7a383f1fefe8894140e4b5c85cdba18f88147107607b613848df5de5 3181621 household_electrical_devices.npz
        58a173c9a71328f531f1482de0ee995dc02d29b088043fa4d39029a20e52e212 3440943 household_furniture.npz
        9c8f053d5119594e0a10bc1f3b7867fc63915b586df4da66c72510b3eedc3b3e 3515771 large_man-made_outdoor_things.npz
        122fc87a2b250dbf9a09058a9252ded8860aec692262a92940258cfc1ca11ae9 3520674 large_natural_outdoor_scenes.npz
        da0863be100f26387e7b65f69f3f66b8763619c8954629906123d73f123d0747 3620976 trees.npz
        2af3279fa367a1c4a955f568925e5754838e99d4758d90603eb828ffcc04280b 3553056 vehicles_1.npz
        7dd082f4d90870fc0864001e27d9e6aae8c558ff54f16aedfdd38d2f5de04257 3369875 vehicles_2.npz
        """,
    )
}
FILES = {"archive": ARCHIVE, "labels": LABELS, **SUPERCLASS_FILES}
SUPERCLASSES = tuple(sorted([*SUPERCLASS_FILES, *SAMPLE_FILES]))

_LARGEST_MEMBER = 256 * 1024 * 1024
_LARGEST_ARCHIVE = 512 * 1024 * 1024


class Images(NamedTuple):
    """Rows of one superclass, in the order of the file they were read from.

    ``images`` (n, 32, 32, 3) uint8, ``labels`` (n,) indexing the superclass's classes, ``rows`` (n,) in that file.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.integer]
    rows: RowNumbers


@dataclass(frozen=True)
class Superclass:
    """One superclass: its five class names, its training and test rows, and the files they were read from.

    ``sample``, when there is one, is the file whose rows they are, as their places in the original are not known.
    """

    classes: tuple[str, ...]
    train: Images
    test: Images
    files: Mapping[str, str]
    sample: str = ""


def read(*names: str) -> list[Superclass]:
    """Read the named superclasses from their ``.npz`` files if all are there, otherwise from the official archive.

    Superclasses that only a sample has are read from it, unless the archive is there.
    """
    for name in names:
        if name not in SUPERCLASSES:
            raise unknown("CIFAR-100 superclass", name, SUPERCLASSES)
    files = [SUPERCLASS_FILES.get(name) or SAMPLE_FILES[name] for name in names]
    sampled = any(name in SAMPLE_FILES for name in names)
    if all(find(file.path) for file in (LABELS, *files)) and not (sampled and find(ARCHIVE.path)):
        return [
            _from_sample(file) if name in SAMPLE_FILES else _from_npz(file)
            for name, file in zip(names, files, strict=True)
        ]
    return from_archive(locate(ARCHIVE), names, {ARCHIVE.path: ARCHIVE.sha256})


def _from_npz(file: DataFile) -> Superclass:
    with open_npz(locate(file)) as content:
        train, test = (
            Images(content[f"{part}_images"], content[f"{part}_fine"], content[f"{part}_index"].astype("i8"))
            for part in ("train", "test")
        )
    return _superclass(_fine_names(), train, test, checksums(LABELS, file))


def _from_sample(file: DataFile) -> Superclass:
    with open_npz(locate(file)) as content:
        images, fine, for_test = content["x"], content["y"], content["test"]
    if images.shape[1:] != (32, 32, 3) or not len(images) == len(fine) == len(for_test):
        raise DataError(f"{file.path}: images {images.shape} and labels {fine.shape} do not fit together; replace it")
    train, test = (
        Images(images[rows], fine[rows], rows) for rows in (np.flatnonzero(~for_test), np.flatnonzero(for_test))
    )
    return _superclass(_fine_names(), train, test, checksums(LABELS, file), file.path)


def _fine_names() -> Sequence[str]:
    with open_npz(locate(LABELS)) as labels:
        return [str(name) for name in labels["fine_names"]]


def _superclass(
    fine_names: Sequence[str], train: Images, test: Images, files: Mapping[str, str], sample: str = ""
) -> Superclass:
    """A superclass whose images have fine labels. They become 0 … 4, their ranks among the labels that occur."""
    present = np.unique(train.labels)
    train, test = (
        part._replace(labels=np.searchsorted(present, part.labels).astype(np.int32)) for part in (train, test)
    )
    return Superclass(tuple(fine_names[label] for label in present), train, test, files, sample)


def from_archive(path: Path, names: tuple[str, ...], files: Mapping[str, str]) -> list[Superclass]:
    """Read the named superclasses from an official ``cifar-100-python.tar.gz``. Nothing is unpacked to disk."""
    members = read_members(path, ("meta", "train", "test"))
    try:
        meta, train, test = (read_pickle(members[name], f"{path}: {name}") for name in ("meta", "train", "test"))
        fine_names = [name.decode("ascii") for name in meta[b"fine_label_names"]]
        coarse_names = [name.decode("ascii") for name in meta[b"coarse_label_names"]]
        tables = [
            (
                _pixels(part[b"data"], f"{path}: {where}"),
                _numbers(part[b"fine_labels"], len(fine_names), f"{path}: {where}"),
                _numbers(part[b"coarse_labels"], len(coarse_names), f"{path}: {where}"),
            )
            for where, part in (("train", train), ("test", test))
        ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: is not a CIFAR-100 archive ({type(error).__name__}: {error})") from None
    if any(not len(images) == len(fine) == len(coarse) for images, fine, coarse in tables):
        raise DataError(f"{path}: the numbers of images and labels differ; fetch the official archive")
    result = []
    for name in names:
        if name not in coarse_names:
            raise unknown("CIFAR-100 superclass", name, coarse_names)
        chosen = [np.flatnonzero(coarse == coarse_names.index(name)) for _, _, coarse in tables]
        own, other = (
            Images(images[rows], fine[rows], rows) for rows, (images, fine, _) in zip(chosen, tables, strict=True)
        )
        result.append(_superclass(fine_names, own, other, files))
    return result


def _pixels(data: Any, where: str) -> NDArray[np.uint8]:
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != 3072:
        raise DataError(f"{where}: the images are not rows of 3072 bytes")
    return np.ascontiguousarray(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _numbers(labels: Any, classes: int, where: str) -> NDArray[np.int64]:
    if not isinstance(labels, list) or any(type(one) is not int or not 0 <= one < classes for one in labels):
        raise DataError(f"{where}: the labels are not a list of numbers from 0 to {classes - 1}")
    return np.array(labels, np.int64)


def read_members(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """The contents of ``cifar-100-python/<name>`` in a gzipped tar, in memory.

    An archive with a link, or with a member whose path is absolute or climbs out, is refused completely.
    """
    file_size(path)
    found: dict[str, bytes] = {}
    try:
        with gzip.open(path) as stream, tarfile.open(fileobj=_Bounded(stream), mode="r|") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                if member.name.startswith("/") or ".." in parts or not (member.isfile() or member.isdir()):
                    raise DataError(f"{path}: member '{member.name}' is a link or points outside; do not use this file")
                if len(parts) == 2 and parts[0] == "cifar-100-python" and parts[1] in names:
                    if member.size > _LARGEST_MEMBER:
                        raise DataError(f"{path}: member '{member.name}' claims {member.size:,} bytes; refused")
                    content = archive.extractfile(member)
                    found[parts[1]] = content.read() if content else b""
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, IndexError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: truncated or damaged archive ({error}); fetch it again") from None
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(f"{path}: has no member 'cifar-100-python/{missing[0]}'; fetch the official archive")
    return found


class _Bounded(io.RawIOBase):
    """An unpacked stream that raises an error when it exceeds the size of an official archive."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream, self._left = stream, _LARGEST_ARCHIVE

    def read(self, size: int = -1, /) -> bytes:
        """Read the next bytes."""
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise DataError(f"unpacks to more than {_LARGEST_ARCHIVE:,} bytes; fetch the official archive")
        return content


def read_pickle(content: bytes, where: str) -> dict[bytes, Any]:
    """The dictionary in one of the archive's pickles: bytes, lists, integers and byte arrays, nothing else."""
    try:
        _check_memo(content)
        value = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    except Exception as error:  # A damaged pickle can fail in any way, but none of them runs code.
        raise DataError(f"{where}: cannot be read as a pickle ({type(error).__name__}: {error})") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: holds a {type(value).__name__}, expected a dictionary")
    return {key: item.array if isinstance(item, _Array) else item for key, item in value.items()}


def _check_memo(content: bytes) -> None:
    """Raise for a pickle that asks for more memory than its bytes can fill. Nothing in it is executed."""
    for operation, argument, _ in pickletools.genops(content):
        if operation.name in ("PUT", "BINPUT", "LONG_BINPUT") and (argument or 0) > len(content):
            raise DataError(f"pickle asks for {argument:,} places to remember; refused")


class _Dtype:
    """Replaces ``numpy.dtype``. Only the unsigned byte is accepted."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        if code not in (b"u1", "u1"):
            raise DataError(f"pickle asks for dtype {code!r}; only bytes belong in this file")

    def __setstate__(self, state: Any) -> None:
        """There is nothing to restore, because bytes have no byte order."""


class _Array:
    """Replaces ``numpy.ndarray``. It is built from plain bytes, whatever the pickle says about itself."""

    array: NDArray[np.uint8]

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes) or fortran:
            raise DataError("pickle holds an array of something else than bytes in C order")
        if not isinstance(shape, tuple) or any(type(length) is not int or length < 0 for length in shape):
            raise DataError(f"pickle holds an array of shape {shape!r}")
        if math.prod(shape) != len(content):
            raise DataError(f"pickle declares an array of shape {shape} over {len(content):,} bytes")
        self.array = np.frombuffer(content, np.uint8).reshape(shape)


def _reconstruct(*_: Any) -> _Array:
    return _Array()


class _Unpickler(pickle.Unpickler):
    """Resolves the three names that an array in such a file needs, each to a harmless replacement."""

    _admitted = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        """A replacement for an accepted name. Anything else is refused before it is imported."""
        try:
            return self._admitted[module, name]
        except KeyError:
            raise DataError(f"pickle asks for {module}.{name}, which does not belong in this file; refused") from None
