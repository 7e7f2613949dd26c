"""A corpus of real text for ``mixing.py``, from what is installed on a machine: four targets and their sources.

Each target is short of text: it has 20 kB to train on. Beside it are 40 kB to tune on and 60 kB to report, from other
files. Each has about fifteen sources of 0.2 to 2 MB. A few are close to it, such as its language in other texts, or a
language nearby. The others are further away, and two are noise. No line of 30 bytes or more occurs twice in the
whole corpus, and the held-out texts keep theirs. So nothing that is measured can be read in a source.

The corpus is a folder: ``corpus.json`` says which sources each target has, ``sources/NAME.bin`` has the bytes of a
source, and ``TARGET/target.bin``, ``tune.bin`` and ``test.bin`` those of a target.

Run with: apt-get install manpages manpages-{da,nb,sv,de,fr,pl} libssl-dev cmake-data nodejs
          python benchmarks/mixing_corpus.py FOLDER           # --man DIR: pages that were unpacked elsewhere
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

MESSAGES = Path("/usr/share/locale")
HELD = {"test": 60_000, "tune": 40_000, "target": 20_000}
"""Bytes of a target: to report; to tune on; to train on and to measure rewards with."""
LEAST_LINE = 30
"""Bytes of a line from which on it may occur only once."""
MOST_FILE, MOST_HELD = 60_000, 5_000
"""Bytes of one file that are taken, for a source and for a target, so that none is one book."""
NOISE = ("base64", "random")

Texts = Callable[[], Iterator[bytes]]


class Source(NamedTuple):
    """Where the text of a source comes from, in order, and how many bytes of it at most."""

    texts: Texts
    most: int


class Target(NamedTuple):
    """A target is cut from the first files of ``held``; ``useful`` was named before any run."""

    held: str
    sources: tuple[str, ...]
    useful: tuple[str, ...]


FAR = ("man-de", "man-fr", "man-pl", "man-en", "messages-ru", "python", "changelogs", *NOISE)
NORDIC = ("messages-da", "man-nb", "messages-nb")
TARGETS = {
    "danish": Target("man-da", (*NORDIC, "man-sv", "documentation", "c-headers", *FAR), NORDIC),
    "swedish": Target(
        "man-sv", ("messages-sv", "man-da", *NORDIC, "documentation", "c-headers", *FAR), ("messages-sv", "man-da")
    ),
    "headers": Target(
        "c-headers", ("cpp-headers", "javascript", *NORDIC, "documentation", *FAR), ("cpp-headers", "javascript")
    ),
    "docs": Target("documentation", ("readmes", *NORDIC, "javascript", "c-headers", *FAR), ("readmes", "man-en")),
}


def shuffled(paths: Iterator[Path]) -> list[Path]:
    """Files in an order that depends on their names alone."""
    files = (path for path in paths if path.is_file() and not path.is_symlink())
    return sorted(files, key=lambda path: hashlib.sha256(str(path).encode()).digest())


def manual(roots: list[Path], language: str) -> Texts:
    """Manual pages of a language, without roff's comments."""
    inside = [language] if language else [f"man{section}" for section in (1, 5, 7, 8)]

    def texts() -> Iterator[bytes]:
        for path in shuffled(page for root in roots for name in inside for page in (root / name).rglob("*.gz")):
            lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
            yield b"".join(line for line in lines if not line.startswith((b'.\\"', b"'\\\"")))

    return texts


def messages(language: str) -> Texts:
    """Translated messages of programs, from gettext's compiled catalogues."""

    def texts() -> Iterator[bytes]:
        for path in shuffled((MESSAGES / language / "LC_MESSAGES").glob("*.mo")):
            data = path.read_bytes()
            if data[:4] != b"\xde\x12\x04\x95":
                continue
            count, _, table = struct.unpack_from("<III", data, 8)
            places = (struct.unpack_from("<II", data, table + 8 * number) for number in range(count))
            found = [data[start : start + length].replace(b"\0", b"\n") for length, start in places]
            yield b"\n".join(found[1:]) + b"\n"

    return texts


def files(folders: list[str], *patterns: str) -> Texts:
    """The files under ``folders`` whose names fit, unpacked where they are packed."""

    def texts() -> Iterator[bytes]:
        for path in shuffled(found for folder in folders for name in patterns for found in Path(folder).rglob(name)):
            yield gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()

    return texts


def chance(packed: bool) -> Texts:
    """Random bytes, or the same as lines of base64."""

    def texts() -> Iterator[bytes]:
        for seed in range(20):
            drawn = random.Random(seed).randbytes(50_000)
            yield base64.encodebytes(drawn) if packed else drawn

    return texts


def all_sources(pages: list[Path]) -> dict[str, Source]:
    """Every source, those from which a target is cut among them. ``pages`` are folders of manual pages."""
    library = str(Path(random.__file__).parent)
    site = [path for path in sys.path if path.endswith("site-packages")]
    headers = ["openssl", "gnutls", "libxml2", "X11", "freetype2", "linux", "nspr", "nss", "python3.11", "xcb"]
    return {
        "man-da": Source(manual(pages, "da"), 400_000),
        "messages-da": Source(messages("da"), 400_000),
        "man-nb": Source(manual(pages, "nb"), 300_000),
        "messages-nb": Source(messages("nb"), 400_000),
        "man-sv": Source(manual(pages, "sv"), 600_000),
        "messages-sv": Source(messages("sv"), 400_000),
        "man-de": Source(manual(pages, "de"), 2_000_000),
        "man-fr": Source(manual(pages, "fr"), 2_000_000),
        "man-pl": Source(manual(pages, "pl"), 1_000_000),
        "man-en": Source(manual(pages, ""), 2_000_000),
        "messages-ru": Source(messages("ru"), 1_000_000),
        "documentation": Source(files(["/usr/share", "/usr/lib/node_modules", *site], "*.md", "*.rst"), 2_000_000),
        "readmes": Source(files(["/usr/share/doc"], "README*", "NEWS*"), 500_000),
        "python": Source(files([library], "*.py"), 2_000_000),
        "javascript": Source(files(["/usr/lib/node_modules"], "*.js"), 1_000_000),
        "c-headers": Source(files([f"/usr/include/{name}" for name in headers], "*.h"), 1_500_000),
        "cpp-headers": Source(files(["/usr/include/llvm-14", "/usr/include/c++"], "*.h"), 500_000),
        "changelogs": Source(files(["/usr/share/doc"], "changelog*.gz"), 1_000_000),
        "base64": Source(chance(True), 1_000_000),
        "random": Source(chance(False), 1_000_000),
    }


class Lines:
    """Which lines the corpus has already."""

    def __init__(self) -> None:
        self._had: set[bytes] = set()

    def new(self, text: bytes) -> bytes:
        """``text`` without long lines that occurred before."""
        fresh = []
        for line in text.splitlines(keepends=True):
            bare = line.strip()
            if len(bare) >= LEAST_LINE:
                if bare in self._had:
                    continue
                self._had.add(bare)
            fresh.append(line)
        return b"".join(fresh)


def gathered(texts: Iterator[bytes], most: int, lines: Lines, of_file: int = MOST_FILE) -> bytes:
    """New text, at most ``of_file`` bytes from each file, until there are ``most`` bytes, cut there."""
    pieces: list[bytes] = []
    while sum(map(len, pieces)) < most and (text := next(texts, None)) is not None:
        pieces.append(lines.new(text[:of_file]))
    return b"".join(pieces)[:most]


def build(sources: dict[str, Source], targets: dict[str, Target]) -> dict[str, bytes]:
    """The bytes of every file of the corpus, by its path. What is left of a target's files is a source for others."""
    lines, corpus = Lines(), {}
    texts = {name: source.texts() for name, source in sources.items()}
    for name, target in targets.items():
        for part, most in HELD.items():
            corpus[f"{name}/{part}"] = gathered(texts[target.held], most, lines, MOST_HELD)
            if len(corpus[f"{name}/{part}"]) < most:
                raise SystemExit(f"too few files of {target.held} for the target {name}; install more of them")
    for name, source in sources.items():
        corpus[f"sources/{name}"] = gathered(texts[name], source.most, lines)
    return corpus


def main() -> None:
    """Write the corpus and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--man", type=Path, action="append", default=[Path("/usr/share/man")])
    asked = parser.parse_args()
    corpus = build(all_sources(asked.man), TARGETS)
    for name, text in corpus.items():
        path = asked.folder / f"{name}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        print(f"{name:22} {len(text):9,} bytes  gzip {len(gzip.compress(text, 9)) / max(1, len(text)):.2f}")
    known = {
        "targets": {name: {"sources": one.sources, "useful": one.useful} for name, one in TARGETS.items()},
        "noise": NOISE,
        "files": {
            name: {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()} for name, text in corpus.items()
        },
    }
    (asked.folder / "corpus.json").write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
