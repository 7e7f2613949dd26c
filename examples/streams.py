"""Streams: a list, a file and a generator, mixed as Thompson sampling decides, and gone on with after a crash.

A letter-pair model is to get good at English; German, English and digits come in three streams. The
reward is how much less surprised it is by a held-out English sentence.
"""

import tempfile
from collections import Counter
from math import log
from pathlib import Path

import metasched as ms

GERMAN = ["der hund und die katze schlafen", "wir gehen heute nicht ins kino", "das wetter wird schön"]
ENGLISH = ["the dog and the cat are asleep", "we are not going there today", "the weather is fine"]
held_out = "the other cat is not there and the dog is going home"
counts: Counter[str] = Counter()


def surprise(text):
    """Mean −log probability of a pair of letters, every pair having been seen once beforehand."""
    total = sum(counts.values()) + 30 * 30
    return sum(log(total / (counts[text[i : i + 2]] + 1)) for i in range(len(text) - 1)) / (len(text) - 1)


def digits():
    """A function that makes a generator: unlike the generator itself, it can be begun again."""
    yield from (str(7**power) for power in range(20, 30))


def mixed(folder):
    (folder / "english.txt").write_text("\n".join(ENGLISH))
    sources = {"german": GERMAN, "english": folder / "english.txt", "digits": digits}
    return ms.mix(sources, "thompson", batch_size=2, at_end="repeat")


def train(stream, steps):
    for _ in range(steps):
        draw, texts = next(stream)
        rewards = []  # one for each text: a batch mixes texts of several streams
        for text in texts:
            before = surprise(held_out)
            counts.update(text[i : i + 2] for i in range(len(text) - 1))
            rewards.append(before - surprise(held_out))
        stream.tell(draw, rewards)


with tempfile.TemporaryDirectory() as folder:
    stream = mixed(Path(folder))
    train(stream, 30)
    stored = stream.state_dict()
    stream = mixed(Path(folder))  # as a new process would
    stream.load_state_dict(stored)
    train(stream, 30)

drawn = [int(stream.chooser.log()[f"draws/{name}"]) for name in stream.names]
print(f"surprise {surprise(held_out):.2f}; texts of each stream {drawn}")
