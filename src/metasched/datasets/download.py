"""One response of a web server, read so that a bad server cannot make us hang and no byte it sent is lost."""

import http.client
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class BrokenOffError(Exception):
    """A server that is gone, slow, or breaks the protocol. The message has its address."""


class Response:
    """What a server sends: bytes of a file from ``begin`` on, and their ``length`` if the server says so."""

    def __init__(self, url: str, answer: Any, asked: int) -> None:
        self._url, self._answer = url, answer
        ranged = re.match(r"bytes (\d{1,18})-", answer.headers.get("Content-Range") or "", re.ASCII)
        self.begin = 0 if answer.status != 206 else int(ranged[1]) if ranged else asked
        stated = (answer.headers.get("Content-Length") or "").strip()
        self.length = int(stated) if re.fullmatch(r"\d{1,18}", stated, re.ASCII) else None

    def read(self, most: int) -> bytes:
        """Read what has arrived, up to ``most`` bytes. Wait for at least one byte; at the end there is none."""
        with _one_error(self._url):
            content: bytes = self._answer.read1(most)
            return content


@contextmanager
def opened(url: str, begin: int, silence: float, deadline: float) -> Iterator[Response]:
    """Ask for the bytes from ``begin`` on. Give up after some seconds of silence, and at ``deadline`` in any case.

    A server that sends a byte now and then never times out, so its sockets are shut at the deadline.
    """
    handler = _Handler(deadline)
    watch = threading.Timer(max(0.0, deadline - time.monotonic()), handler.shut)
    watch.daemon = True
    watch.start()
    try:
        request = urllib.request.Request(url, headers={"Range": f"bytes={begin}-"} if begin else {})
        with _one_error(url):
            answer = urllib.request.build_opener(handler).open(request, timeout=silence)
        with answer:
            yield Response(url, answer, begin)
    finally:
        watch.cancel()


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens http and https as urllib does, and lists every socket, including those of redirections, to shut them in
    time.
    """

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._deadline = deadline
        self._sockets: list[socket.socket] = []

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(self._noted(http.client.HTTPConnection), request)

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(self._noted(http.client.HTTPSConnection), request)

    def _noted(self, connection: type[http.client.HTTPConnection]) -> type[http.client.HTTPConnection]:
        """A connection class that lists its socket here. It fails if the deadline has passed."""
        handler = self

        class Noted(connection):  # type: ignore[misc, valid-type]
            def connect(self) -> None:
                super().connect()
                handler._sockets.append(self.sock)
                if time.monotonic() >= handler._deadline:
                    raise TimeoutError("too slow")

        return Noted

    def shut(self) -> None:
        """Wake up whoever waits for a byte, because none will come."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def _one_error(url: str) -> Iterator[None]:
    """Turn all errors between us and a server into one kind of error."""
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a malformed address or header
        raise BrokenOffError(f"{url}: {str(error) or type(error).__name__}") from None
