"""Product and film reviews of 16 kinds, good or bad: FDU-MTL (Liu, Qiu, Huang, ACL 2017), as bags of words.

All sources are useful here, some more than others, so choosing must not lose variety.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from metasched.datasets.store import DataFile, checksums, listed, locate
from metasched.errors import ConfigError, DataError, unknown, whole_number
from metasched.experiments.datasets.build import Rows, task_set
from metasched.tasks import Inputs, Labels, Provenance, RowNumbers, TaskSet

FILES = listed(
    "reviews",
    "GitHub m1ci/of-demo",
    """
    a6f222085a50061dd560c3beafc968679abae74683e3d18a66b619c5e2d178dc  191447 MR.task.train
    82ec2a6d570978d173240dfd655c25e151761d7d0ace365725745a361e6fabea   47573 MR.task.test
    589702d71eded8ca23907acf6e434f203c8c6feb09737106f77f03707641ffc3  519173 apparel.task.train
    8e591ec14fa0e3d26837b9a40c99d3a93b49f47e7a3fbe4d0afe1b4e1dd45439  127187 apparel.task.test
    0d884186f3aef0e12dafac0a875887fe631de0df992b15158ab177763882bf57  849433 baby.task.train
    8763bb4b8bbf83b93b6aab03706719fc742fb7d89830a6bd95ea1c2490ea58f7  220031 baby.task.test
    40c4c5971165b9e0a509a60472c3bf06c8e1430d4944833141eb3c34d986b65e 1517583 books.task.train
    b451ac03e48b599bf35dd1a450158389e1ac9018950e95c631053ac14a5b10ad  351857 books.task.test
    425bf93c303b2f38d2f53649508ea9e55d0114679ecb00fda5c2c15ebbe9e708 1077961 camera_photo.task.train
    3fdea0837d6c41f04720dce8d2e690bbdeb5019ecac749f8f38472ac1dcfa439  258814 camera_photo.task.test
    47334240d9cef76ac5f15a10f9082c3d2c6e7f9a9bb0478a3800ede2a0300771 1581172 dvd.task.train
    762e6e030892375eda4f211be58624a3bb6a07c966901c79b803837d21fca4b5  402497 dvd.task.test
    bb2f28c4a20e3d075dd71ff049970bd445f4d47bcc8404a68eb03850413a8da7  918340 electronics.task.train
    a4d2e7d2a5b8b501a6611e45e1b241aa0d601388b79265cfc94c203cb52f8b8c  222978 electronics.task.test
    384f1ec3d76a2f755844cac4bd7725b86bc79910dae60fc33f133e380f827b4a  736321 health_personal_care.task.train
    07f289177da7ebe71f1ac2ee3d5a25f190913e2a11116f0fb55862e01b60a331  173498 health_personal_care.task.test
    16dd91ee7aebde130cfeb4d1c58bfe221ad87f1862fdb8ae694693eec3432caa 2254776 imdb.task.train
    dc708b7338157a6be56a1ded26abd97f82284d0e736876a6b833ad59e8a2cd53  486414 imdb.task.test
    df5c9e8473b084a6b252dfbb5e074adcaacb9638a882fee3f20d62d747f45d6f  762961 kitchen_housewares.task.train
    86bcc015f7cfa773880951830ac6161dc2b8717e8a69773ca11a5bd6529b2020  193578 kitchen_housewares.task.test
    d4805a9f094c1c7befa64bc42ea846261b1290a2fd120c46f45c9e89faf782ae 1027102 magazines.task.train
    620ecd0ccd7b7f73483b8cdcef5ca07dff92e2d57c9cf4b6e9f7d669a681f6c3  263233 magazines.task.test
    f0b41243475c16391a02e91d87710ed87d68927d4d77f526a3d2369a98ac572e 1170332 music.task.train
    54a157c56930b9e587b6b955fe4b2e3258d2f70d0d58ccbbf40a4bfd846ee204  275218 music.task.test
    a050cb3ea22b94b21ce70acff3a23eabd1f39307bd862d6c0cc23170eb4830f4 1137236 software.task.train
    3b92617a5b3ad618b7aaab98546d49c2a69f46dedbceb4ec14dee1cbb4ff02d3  270384 software.task.test
    062ac0e2fb04a81c1f06f15b219634810a323a2ee187750e2f479030ebad0326  827286 sports_outdoors.task.train
    77394d7c91fbc69cc16bfaf79f1f945999fe2d8e0fc536f1f79d17089e611f49  216957 sports_outdoors.task.test
    bb8404d3b48ab02bca2a75bb1e245297aac36b8143a81549f6485b4c2d24dd10  785692 toys_games.task.train
    6ee304a53f25697ee96bcb60fe07cc36d282ef343c3e0f8ae09df669ec39b116  194694 toys_games.task.test
    2867b3e5fffc44132aa61ff49dd608eeacc503b2c9c2133680f0cb4a7a258f3e 1304633 video.task.train
    8de7a49ee3001409c9049b1f52949d78c7875cb92e031b43f5cef681dfd341e4  341154 video.task.test
    """,
)
_BY_PATH = {file.path: file for file in FILES}
DOMAINS = tuple(dict.fromkeys(path.removeprefix("reviews/").partition(".")[0] for path in _BY_PATH))
CLASSES = ("bad", "good")
COMMONEST = 40
"""This many of the most common words (the, and, a full stop) say nothing about the opinion of a review."""


def load(
    *,
    target: str = "books",
    sources: Sequence[str] | None = None,
    words: int = 2000,
    target_labels: int = 30,
    seed: int = 0,
) -> TaskSet:
    """The training file of every other domain as a task, in file order; inputs (``words``,): 1 for a word it has.

    The words are the most common ones except for the first 40, counted in the reviews of the sources only. Equally
    common words are sorted alphabetically. The target's rows are its training file, then its test file, each review
    once: ``target_labels`` of them, stratified and drawn from ``seed``, are for validation and all others for test. A
        review of a source that is also in the target, word for word, is left out.

    Args:
        target: one of the 16 domains.
        sources: the domains of the sources; by default all others.
        words: the number of words.
        target_labels: rows of the target with labels.
        seed: draws those rows.
    """
    sources = [name for name in DOMAINS if name != target] if sources is None else list(sources)
    for name in (target, *sources):
        if name not in DOMAINS:
            raise unknown("domain", name, DOMAINS, of="'reviews'")
    if target in sources:
        raise ConfigError(f"'{target}' is both the target and a source; remove it from one of them")
    whole_number("words", words, 1)
    texts, answers = _read(target, "train", "test")
    once = np.sort(np.unique(np.array(texts, object), return_index=True)[1])
    own, parts, repeated = set(texts), {}, 0
    for name in sources:
        reviews, labels = _read(name, "train")
        rows = np.array([row for row, text in enumerate(reviews) if text not in own])
        parts[name] = [reviews[row] for row in rows], labels[rows], _origin(name, rows, "train")
        repeated += len(reviews) - len(rows)
    known = vocabulary((text for reviews, _, _ in parts.values() for text in reviews), words)
    goal = Rows(
        bags([texts[row] for row in once], known), answers[once], _origin(target, once, "train", "test"), CLASSES
    )
    return task_set(
        "reviews",
        {
            name: Rows(bags(reviews, known), labels, origin, CLASSES)
            for name, (reviews, labels, origin) in parts.items()
        },
        *goal.divided(target_labels, seed),
        notes=(
            f"{len(texts) - len(once)} repeated reviews of the target and {repeated} of the sources' that are also the "
            "target's are left out",
        ),
        split="drawn",
    )


def parse(path: Path) -> tuple[list[bytes], Labels]:
    """Texts and labels of a file with ``label<TAB>tokens`` in every line; bytes, as the files differ in encoding."""
    lines = path.read_bytes().split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        if line[:2] not in (b"0\t", b"1\t"):
            raise DataError(f"{path}: line {number} does not begin with 0 or 1 and a tab; replace it with a good copy")
    if not lines:
        raise DataError(f"{path}: holds no reviews; replace it with a good copy")
    return [line[2:] for line in lines], np.array([line[:1] == b"1" for line in lines], np.int32)


def vocabulary(texts: Iterable[bytes], words: int) -> dict[bytes, int]:
    """The column of each of the ``words`` most common words after the first 40, in the order of frequency."""
    counts: Counter[bytes] = Counter()
    for text in texts:
        counts.update(text.split())
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[COMMONEST : COMMONEST + words]
    if len(ranked) < words:
        raise ConfigError(f"words is {words}; the reviews have {len(ranked)} beyond the {COMMONEST} commonest")
    return {word: column for column, word in enumerate(ranked)}


def bags(texts: Sequence[bytes], known: dict[bytes, int]) -> Inputs:
    """Which of the known words each text contains: (n, words) of 0 and 1."""
    inputs = np.zeros((len(texts), len(known)), np.float32)
    for row, text in zip(inputs, texts, strict=True):
        row[[known[word] for word in set(text.split()) if word in known]] = 1
    return inputs


def _read(name: str, *parts: str) -> tuple[list[bytes], Labels]:
    """Texts and labels of a domain, one file after the other."""
    texts, labels = zip(*(parse(locate(file)) for file in _files(name, *parts)), strict=True)
    return [text for own in texts for text in own], np.concatenate(labels)


def _origin(name: str, rows: RowNumbers, *parts: str) -> Provenance:
    return Provenance(f"FDU-MTL {name} {' + '.join(parts)}", rows, checksums(*_files(name, *parts)))


def _files(name: str, *parts: str) -> list[DataFile]:
    return [_BY_PATH[f"reviews/{name}.task.{part}"] for part in parts]
