"""The store of data files against servers that lie, stall, cut off and talk nonsense, on the loopback address.

Held is: the right bytes, or one line; the right bytes wherever a home serves them; and nothing else, ever, under the
name of the file.
"""

import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

from campaign.table import Effort, Result, Verdict, told

Answer = Callable[[socket.socket, int, bytes], None]

SILENCE = 0.1
"""Seconds after which the store gives up a home here."""
DEADLINE = 1.5
SECONDS = 20.0
"""A download that takes longer hangs."""


def downloads(effort: Effort) -> Iterator[Result]:
    """One attempt after another: a file with two homes, one or both of them bad, then a good one."""
    from metasched.datasets import store

    store.TIMEOUT_SECONDS, store.DEADLINE_SECONDS, store.SLOWEST = SILENCE, DEADLINE, 10**9
    os.environ.pop("METASCHED_DATA", None)
    os.environ["XDG_CACHE_HOME"] = str(effort.place)
    for number in range(effort.attempts):
        case = f"seed {effort.seed} attempt {number}"
        began = time.monotonic()
        try:
            said = _attempt(Random(f"{effort.seed}/{number}"), number)
        except Exception as error:
            yield Result(case, Verdict.TRACEBACK, told(error))
            continue
        slow = time.monotonic() - began > SECONDS
        yield Result(case, Verdict.HANG if slow else Verdict.LOST if said else Verdict.HELD, said)


def _attempt(chance: Random, number: int) -> str:
    """What did not hold, or nothing."""
    from metasched.datasets import store
    from metasched.errors import StoreError

    content = chance.randbytes(chance.choice((0, 1, 1000, 70_000, 300_000)))
    bad = _Home(content, [chance.choice(ANSWERS) for _ in range(4)])
    good = _Home(content, [whole] if chance.random() < 0.5 else [chance.choice(ANSWERS)])
    homes = [bad.url, good.url] if chance.random() < 0.5 else [good.url, bad.url]
    file = store.DataFile(f"{number}/file", len(content), hashlib.sha256(content).hexdigest(), tuple(homes))
    target = store.cache_folder() / file.path
    served = good.answers == [whole]
    try:
        with suppress(StoreError):
            path = store.locate(file)
            if path.read_bytes() != content:
                return "other bytes under the file's name"
            served = False
        if served:
            return "a good home was not reached"
        if target.exists() and target.read_bytes() != content:
            return "other bytes under the file's name"
        good.answers[:], bad.answers[:] = [whole], [whole]
        if store.locate(file).read_bytes() != content:
            return "other bytes after a second try"
        left = [path.name for path in target.parent.iterdir() if path != target]
        return f"{left[0]} is left over" if left else ""
    except StoreError as error:
        return f"good homes, and yet: {error}"
    finally:
        bad.close()
        good.close()


class _Home:
    """A server that answers the n-th request with the n-th of ``answers``, and from then on with the last."""

    def __init__(self, content: bytes, answers: list[Answer]) -> None:
        self.content, self.answers, self._served = content, answers, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/file"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            asked = connection.recv(65536)
            begin = int(asked.split(b"bytes=")[1].split(b"-")[0]) if b"bytes=" in asked else 0
            answer = self.answers[min(self._served, len(self.answers) - 1)]
            self._served += 1
            answer(connection, begin, self.content)


def whole(connection: socket.socket, begin: int, content: bytes) -> None:
    """What a good server does: the range that was asked for."""
    status = f"206 Partial\r\nContent-Range: bytes {begin}-{len(content) - 1}/{len(content)}" if begin else "200 OK"
    _send(connection, f"{status}\r\nContent-Length: {len(content) - begin}", content[begin:])


def _send(connection: socket.socket, head: str, body: bytes = b"") -> None:
    connection.sendall(f"HTTP/1.1 {head}\r\n\r\n".encode("latin-1") + body)


def _said(head: str, cut: float = 1.0, spoil: bool = False) -> Answer:
    """A head of our choosing, and so much of the content, one byte of it wrong if asked."""

    def answer(connection: socket.socket, _: int, content: bytes) -> None:
        body = content[: int(cut * len(content))]
        if spoil and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        _send(connection, head.replace("SIZE", str(len(content))), body)

    return answer


def _stall(connection: socket.socket, _: int, content: bytes) -> None:
    _send(connection, f"200 OK\r\nContent-Length: {len(content)}", content[: len(content) // 2])
    time.sleep(3 * SILENCE)


def _drip(connection: socket.socket, *_: object) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(200):
        connection.sendall(b"x")
        time.sleep(SILENCE / 2)


def _noise(connection: socket.socket, _: int, content: bytes) -> None:
    connection.sendall(content[:5000] or b"\x00")


ANSWERS: tuple[Answer, ...] = (
    whole,
    _stall,
    _drip,
    _noise,
    lambda *_: None,
    _said("200 OK"),
    _said("200 OK\r\nContent-Length: SIZE", spoil=True),
    _said("200 OK\r\nContent-Length: SIZE", cut=0.3),
    _said("200 OK\r\nContent-Length: banana"),
    _said("200 OK\r\nContent-Length: 99999999999999999999999"),
    _said("200 OK\r\nContent-Length: -1"),
    _said("200 OK\r\nContent-Length: 12"),
    _said("200 OK\r\nTransfer-Encoding: chunked"),
    _said("200 OK\r\nContent-Encoding: gzip\r\nContent-Length: SIZE"),
    _said("206 Partial\r\nContent-Range: bytes 5-9/SIZE\r\nContent-Length: 5"),
    _said("206 Partial\r\nContent-Range: bananas 5"),
    _said("206 Partial\r\nContent-Length: SIZE"),
    _said("302 Found\r\nLocation: http://[::1"),
    _said("302 Found\r\nLocation: /file"),
    _said("302 Found\r\nLocation: file:///etc/hostname"),
    _said("301 Moved\r\nLocation: \x80\xff"),
    _said("416 Range"),
    _said("404 Not Found"),
    _said("500 No\r\nContent-Length: SIZE"),
    _said("100 Continue"),
    _said("999 ?"),
    _said("OK 200"),
    _said("200 OK\r\n" + "X: y\r\n" * 150),
    _said("200 OK\r\nX: " + "y" * 70_000),
)
