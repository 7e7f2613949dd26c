"""Choosing among streams: anything that can be iterated, such as Hugging Face's streaming data sets.

Three streams of text in different languages; a character model is to get good at English. The reward is how much
less surprised it is by a held-out English sentence. No row numbers: a draw only says which stream to read next.
"""

from collections import Counter
from itertools import cycle
from math import log

import numpy as np

import metasched as ms

streams = {
    "german": cycle(["der hund und die katze schlafen", "wir gehen heute nicht ins kino", "das wetter wird schön"]),
    "english": cycle(["the dog and the cat are asleep", "we are not going there today", "the weather is fine"]),
    "digits": cycle(["31415926535897932384", "27182818284590452353", "16180339887498948482"]),
}
held_out = "the other cat is not there and the dog is going home"

counts: Counter[str] = Counter()


def surprise(text):
    """Mean −log probability of a pair of letters, every pair having been seen once beforehand."""
    total = sum(counts.values()) + 30 * 30
    return sum(log(total / (counts[text[i : i + 2]] + 1)) for i in range(len(text) - 1)) / (len(text) - 1)


names = list(streams)
chooser = ms.Chooser("ucb", len(streams))
before = surprise(held_out)
for _ in range(60):
    draw = chooser.ask()
    text = next(streams[names[draw.task]])
    counts.update(text[i : i + 2] for i in range(len(text) - 1))
    after = surprise(held_out)
    chooser.tell(draw, before - after)
    before = after

drawn = dict(zip(names, np.bincount(chooser.history()["task"], minlength=3).tolist(), strict=True))
print(f"surprise {before:.2f}; texts of each stream {drawn}")
