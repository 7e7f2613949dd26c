"""Small damage to bytes and to JSON, from a source of chance; whoever has the edits can undo one at a time."""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Edit = Callable[[bytes], bytes]

NUMBERS = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    2**63 - 1,
    2**64 - 1,
)
WORDS = (
    *(
        b"nan",
        b"inf",
        b"-inf",
        b"1e999",
        b"-1",
        b"0",
        b"9" * 400,
        b"1_0",
        b"0x1",
        b"\xef\xbb\xbf",
        b"\x00",
        b"\r",
        b"\n",
    ),
    *(
        b'"',
        b",",
        b"\t",
        b";",
        b"\x1b[2J",
        b"\xff\xfe",
        "²".encode(),
        "\u202e".encode(),
        b"{}",
        b"[]",
        b"null",
        b"true",
    ),
    *(b"../", b"/", b"%s", b"\\u0000", b"[" * 200, b'{"a":' * 200),
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**32,
        2**63,
        2**64,
        -(2**70),
        10**300,
        0.5,
        -0.0,
        1e308,
        "",
        "a",
        "\x00",
        "\x1b[2J",
    ),
    *([], {}, [[]], [None], {"": None}, ["a"] * 50, "9" * 5000, "../x", "nan", "Infinity"),
)


def edits(chance: Random, others: Sequence[bytes]) -> list[Edit]:
    """One to six edits; ``others`` are files to take pieces from."""
    return [_edit(chance, others) for _ in range(min(6, 1 + int(chance.expovariate(0.7))))]


def _edit(chance: Random, others: Sequence[bytes]) -> Edit:
    where, kind = chance.random(), chance.randrange(9)
    length = 1 << chance.randrange(8)
    bit = chance.randrange(8)
    junk = chance.randbytes(length)
    number = chance.choice(NUMBERS).to_bytes(8, chance.choice(("little", "big")))[: chance.choice((1, 2, 4, 8))]
    word, other, from_where = chance.choice(WORDS), chance.choice(others), chance.random()
    piece = other[int(from_where * len(other)) :][:length]

    def apply(content: bytes) -> bytes:
        at = int(where * (len(content) + 1))
        head, tail = content[:at], content[at:]
        if kind == 0:
            return head[:-1] + bytes([head[-1] ^ (1 << bit)]) + tail if head else tail
        if kind == 1:
            return head
        if kind == 2:
            return head + tail[length:]
        if kind == 3:
            return head + tail[:length] + tail
        replacement = (junk, number, word, piece, bytes(length))[kind - 4]
        return head + replacement + tail[0 if bit < 2 else len(replacement) :]

    return apply


def json_edits(chance: Random) -> list[Edit]:
    """One to three changes of values, keys and lengths in a JSON text."""
    return [_json_edit(chance.randrange(2**32)) for _ in range(1 + chance.randrange(3))]


def _json_edit(seed: int) -> Edit:
    def apply(content: bytes) -> bytes:
        chance = Random(seed)
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            return content
        return json.dumps(_changed(value, chance)).encode("utf-8", "surrogatepass")

    return apply


def _changed(value: Any, chance: Random) -> Any:
    """The value with one thing in it changed, at any depth."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(sorted(value))
        what = chance.randrange(8)
        rest = {own: item for own, item in value.items() if own != key}
        if what == 0:
            return rest
        if what == 1:
            return {**rest, chance.choice(("", "é", key + "x", "format")): value[key]}
        return {**value, key: _changed(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        at, what = chance.randrange(len(value)), chance.randrange(8)
        if what == 0:
            return value[:at] + value[at + 1 :]
        if what == 1:
            return value[:at] + [value[at]] * chance.choice((2, 3, 50)) + value[at + 1 :]
        return [*value[:at], _changed(value[at], chance), *value[at + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and chance.random() < 0.5:
        return chance.choice((value + 1, -value, value * 2**40, value / 3, float(value), str(value)))
    return chance.choice(VALUES)
