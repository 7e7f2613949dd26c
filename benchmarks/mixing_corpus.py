"""A corpus of real text from what is installed on a machine, one file of bytes for each source, for ``mixing.py``.

The target is low on text: 20 kB of Danish manual pages. Near it are messages of programs in Danish, and manual pages
and messages in Norwegian, which is close kin; further off are other languages, code, changelogs, base64 and chance.
Held-out pages are other files than those trained on, and no line of 30 bytes or more occurs twice in the whole corpus:
the held-out files keep theirs, so that nothing measured can be read in a source.

Run with: python benchmarks/mixing_corpus.py FOLDER      # what is there; apt-get install manpages-da manpages-nb adds
"""

import argparse
import base64
import gzip
import hashlib
import json
import random
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

MAN, MESSAGES = Path("/usr/share/man"), Path("/usr/share/locale")
TARGET = "man-da"
USEFUL = ("messages-da", "man-nb", "messages-nb")
"""Named before any run: the target's language, and the language nearest to it."""
LABELLED, TUNE, TEST = 20_000, 40_000, 60_000
"""Bytes of the target: to train on and to measure rewards with; to tune on; to report."""
LEAST = 30
"""Bytes of a line from which on it may occur only once."""
MOST_FILE = 60_000
"""Bytes of one file that are taken, so that no source is one book."""


class Source(NamedTuple):
    """Where the text of a source comes from, in order, and how many bytes of it at most."""

    texts: Callable[[], Iterator[bytes]]
    most: int


def shuffled(paths: Iterator[Path]) -> list[Path]:
    """Files in an order that depends on their names alone."""
    files = (path for path in paths if path.is_file() and not path.is_symlink())
    return sorted(files, key=lambda path: hashlib.sha256(str(path).encode()).digest())


def manual(language: str) -> Iterator[bytes]:
    """Manual pages of a language, without roff's comments."""
    folders = [MAN / language] if language else [MAN / f"man{section}" for section in (1, 5, 7, 8)]
    for path in shuffled(page for folder in folders for page in folder.rglob("*.gz")):
        lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        yield b"".join(line for line in lines if not line.startswith((b'.\\"', b"'\\\"")))


def messages(language: str) -> Iterator[bytes]:
    """Translated messages of programs, from gettext's compiled catalogues."""
    for path in shuffled((MESSAGES / language / "LC_MESSAGES").glob("*.mo")):
        data = path.read_bytes()
        if data[:4] != b"\xde\x12\x04\x95":
            continue
        count, _, table = struct.unpack_from("<III", data, 8)
        places = (struct.unpack_from("<II", data, table + 8 * number) for number in range(count))
        texts = [data[start : start + length].replace(b"\0", b"\n") for length, start in places]
        yield b"\n".join(texts[1:]) + b"\n"


def files(folders: list[str], *patterns: str) -> Callable[[], Iterator[bytes]]:
    """The files under ``folders`` whose names fit, unpacked where they are packed."""

    def texts() -> Iterator[bytes]:
        for path in shuffled(found for folder in folders for name in patterns for found in Path(folder).rglob(name)):
            yield gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()

    return texts


def chance(packed: bool) -> Iterator[bytes]:
    """Random bytes, or the same as lines of base64."""
    for seed in range(20):
        drawn = random.Random(seed).randbytes(50_000)
        yield base64.encodebytes(drawn) if packed else drawn


def sources() -> dict[str, Source]:
    """All sources but the target, those near it and small first."""
    library = str(Path(random.__file__).parent)
    site = [path for path in sys.path if path.endswith("site-packages")]
    return {
        "messages-da": Source(lambda: messages("da"), 400_000),
        "man-nb": Source(lambda: manual("nb"), 300_000),
        "messages-nb": Source(lambda: messages("nb"), 400_000),
        "man-sv": Source(lambda: manual("sv"), 600_000),
        "man-de": Source(lambda: manual("de"), 2_000_000),
        "man-fr": Source(lambda: manual("fr"), 2_000_000),
        "man-pl": Source(lambda: manual("pl"), 1_000_000),
        "man-en": Source(lambda: manual(""), 2_000_000),
        "messages-ru": Source(lambda: messages("ru"), 1_000_000),
        "documentation": Source(files(["/usr/share", "/usr/lib/node_modules", *site], "*.md", "*.rst"), 2_000_000),
        "python": Source(files([library], "*.py"), 2_000_000),
        "c-headers": Source(files(["/usr/include"], "*.h"), 1_500_000),
        "changelogs": Source(files(["/usr/share/doc"], "changelog*.gz"), 1_000_000),
        "base64": Source(lambda: chance(True), 1_000_000),
        "random": Source(lambda: chance(False), 1_000_000),
    }


class Lines:
    """Which lines the corpus has already."""

    def __init__(self) -> None:
        self._had: set[bytes] = set()

    def new(self, text: bytes) -> bytes:
        """``text`` without long lines that occurred before."""
        fresh = []
        for line in text[:MOST_FILE].splitlines(keepends=True):
            bare = line.strip()
            if len(bare) >= LEAST:
                if bare in self._had:
                    continue
                self._had.add(bare)
            fresh.append(line)
        return b"".join(fresh)


def gathered(texts: Iterator[bytes], most: int, lines: Lines) -> bytes:
    """New text from whole files until there are ``most`` bytes, cut there."""
    pieces: list[bytes] = []
    while sum(map(len, pieces)) < most and (text := next(texts, None)) is not None:
        pieces.append(lines.new(text))
    return b"".join(pieces)[:most]


def build() -> dict[str, bytes]:
    """The bytes of every file of the corpus, by name; a source of which nothing is installed is left out."""
    lines, pages = Lines(), manual("da")
    parts = {"test": TEST, "tune": TUNE, TARGET: LABELLED}
    corpus = {name: gathered(pages, most, lines) for name, most in parts.items()}
    if len(corpus[TARGET]) < LABELLED:
        raise SystemExit(f"too few Danish manual pages under {MAN}; install manpages-da")
    made = {name: gathered(source.texts(), source.most, lines) for name, source in sources().items()}
    return corpus | {name: text for name, text in made.items() if len(text) >= LABELLED}


def main() -> None:
    """Write the corpus and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    corpus = build()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in corpus.items():
        (folder / f"{name}.bin").write_bytes(text)
    known = {name: {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()} for name, text in corpus.items()}
    (folder / "corpus.json").write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    for name, text in corpus.items():
        print(f"{name:14} {len(text):9,} bytes  gzip {len(gzip.compress(text, 9)) / max(1, len(text)):.2f}")


if __name__ == "__main__":
    main()
