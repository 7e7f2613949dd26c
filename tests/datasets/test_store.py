"""The store against a real server on the loopback address, and against files that are wrong in every way."""

import errno
import hashlib
import os
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from metasched.datasets import store
from metasched.datasets.store import DataFile
from metasched.errors import StoreError

CONTENT = bytes(range(256)) * 5000


class Server:
    """Serves CONTENT; ``cut`` closes the connection after that many bytes, ``claim`` lies about the length."""

    def __init__(self):
        self.cut = None
        self.claim = None
        self.content = CONTENT
        self.ignore_range = False
        self.ranges = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                wanted = self.headers.get("Range")
                outer.ranges.append(wanted)
                begin = 0 if wanted is None or outer.ignore_range else int(wanted.split("=")[1].rstrip("-"))
                body = outer.content[begin:]
                self.send_response(206 if begin else 200)
                self.send_header("Content-Length", str(outer.claim or len(body)))
                self.end_headers()
                self.wfile.write(body if outer.cut is None else body[: outer.cut])

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/file"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch):
    monkeypatch.delenv("METASCHED_DATA", raising=False)


def known(*urls, content=CONTENT):
    return DataFile("set/file.bin", len(content), hashlib.sha256(content).hexdigest(), urls)


def part_of(file):
    path = store.cache_folder() / (file.path + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


class TestFinding:
    def test_the_data_folder_comes_before_the_cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("METASCHED_DATA", str(tmp_path))
        for folder in (tmp_path, store.cache_folder()):
            (folder / "set").mkdir(parents=True)
            (folder / "set/file.bin").write_bytes(CONTENT)
        assert store.locate(known()) == tmp_path / "set/file.bin"
        (tmp_path / "set/file.bin").unlink()
        assert store.locate(known()) == store.cache_folder() / "set/file.bin"

    def test_the_cache_follows_xdg(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert store.cache_folder() == tmp_path / "metasched"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert store.cache_folder() == Path.home() / ".cache/metasched"

    def test_a_wrong_checksum_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setenv("METASCHED_DATA", str(tmp_path))
        (tmp_path / "set").mkdir()
        (tmp_path / "set/file.bin").write_bytes(CONTENT[:-1] + b"!")
        with pytest.raises(StoreError, match=r"file\.bin: SHA-256 is .*expected .*replace it with a good copy"):
            store.locate(known())

    def test_a_wrong_size_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setenv("METASCHED_DATA", str(tmp_path))
        (tmp_path / "set").mkdir()
        (tmp_path / "set/file.bin").write_bytes(CONTENT[:-1])
        with pytest.raises(StoreError, match="has 1,279,999 bytes, expected 1,280,000"):
            store.locate(known("http://x"))

    def test_files_are_listed_as_sha256sum_lists_them(self):
        first, second = store.listed("a", "a friend", f"\n  {'0' * 64}  12 x.dat\n  {'1' * 64} 3 y.dat\n  ")
        assert first == DataFile("a/x.dat", 12, "0" * 64, origin="a friend")
        assert store.checksums(first, second) == {"a/x.dat": "0" * 64, "a/y.dat": "1" * 64}

    def test_without_a_public_home_it_says_which_file_to_put_where(self, tmp_path, monkeypatch):
        monkeypatch.setenv("METASCHED_DATA", str(tmp_path))
        with pytest.raises(StoreError) as caught:
            store.locate(known())
        assert str(tmp_path / "set/file.bin") in str(caught.value)
        assert str(store.cache_folder() / "set/file.bin") in str(caught.value)


class TestDownloading:
    def test_brings_the_file_into_the_cache(self, server):
        seen = []
        path = store.locate(known(server.url), lambda done, total: seen.append((done, total)))
        assert path == store.cache_folder() / "set/file.bin"
        assert path.read_bytes() == CONTENT
        assert seen[-1] == (len(CONTENT), len(CONTENT))
        assert not part_of(known()).exists()

    def test_a_download_cut_off_half_way_is_continued(self, server, monkeypatch):
        monkeypatch.setattr(store, "ATTEMPTS", 1)
        server.cut = 700_000
        with pytest.raises(StoreError, match="700,000 of 1,280,000 bytes are kept"):
            store.locate(known(server.url))
        server.cut = None
        assert store.locate(known(server.url)).read_bytes() == CONTENT
        assert server.ranges == [None, "bytes=700000-"]

    def test_a_download_cut_off_once_goes_on_by_itself(self, server):
        server.cut = 500_000
        assert store.locate(known(server.url)).read_bytes() == CONTENT
        assert server.ranges == [None, "bytes=500000-", "bytes=1000000-"]

    def test_a_server_that_cannot_resume_starts_over(self, server):
        part_of(known()).write_bytes(b"x" * 1000)
        server.ignore_range = True
        assert store.locate(known(server.url)).read_bytes() == CONTENT

    def test_a_damaged_download_is_removed(self, server):
        server.content = CONTENT[:-1] + b"!"
        with pytest.raises(StoreError, match="damaged and removed"):
            store.locate(known(server.url))
        assert list(store.cache_folder().rglob("*.*")) == []

    def test_a_file_that_grew_at_its_home_is_not_downloaded(self, server):
        server.content = CONTENT + b"more"
        with pytest.raises(StoreError, match="has 1,280,004 bytes, expected 1,280,000"):
            store.locate(known(server.url))
        assert not part_of(known()).exists()

    def test_never_writes_more_than_declared(self, server):
        server.claim = len(CONTENT)
        server.content = CONTENT + b"more" * 1000
        path = store.locate(known(server.url))
        assert path.stat().st_size == len(CONTENT)

    def test_the_second_home_serves_when_the_first_is_gone(self, server):
        assert store.locate(known("http://127.0.0.1:9/none", server.url)).read_bytes() == CONTENT

    def test_offline_it_says_which_file_to_put_where(self):
        with pytest.raises(StoreError, match=r"download failed .*; put the file at .*set/file\.bin"):
            store.locate(known("http://127.0.0.1:9/none"))

    def test_a_full_disk_is_one_sentence_and_keeps_what_came_in(self, server, monkeypatch):
        real = store._continue_download

        def full(url, file, stream, progress, deadline):
            stream.write(CONTENT[:1000])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(store, "_continue_download", full)
        with pytest.raises(StoreError, match=r"no space left; set/file\.bin needs 1,280,000 bytes"):
            store.locate(known(server.url))
        monkeypatch.setattr(store, "_continue_download", real)
        assert store.locate(known(server.url)).read_bytes() == CONTENT
        assert server.ranges == ["bytes=1000-"]

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
    def test_a_read_only_cache_is_one_sentence(self, server, monkeypatch, tmp_path):
        tmp_path.chmod(0o500)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        with pytest.raises(StoreError, match="cannot write"):
            store.locate(known(server.url))

    def test_a_cache_that_is_a_file_is_one_sentence(self, server, monkeypatch, tmp_path):
        (tmp_path / "metasched").write_text("in the way")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        with pytest.raises(StoreError, match="cannot write"):
            store.locate(known(server.url))

    def test_two_downloads_at_once_end_with_one_good_file(self, server):
        results = []
        threads = [threading.Thread(target=lambda: results.append(store.download(known(server.url)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 4
        assert results[0].read_bytes() == CONTENT


class Odd:
    """A server that answers every request with the next of ``answers``: functions that write to a socket."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}/file"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                self.asked.append(connection.recv(65536).decode())
                self.answers.pop(0)(connection) if self.answers else None


def sends(head, body=b""):
    return lambda connection: connection.sendall(f"HTTP/1.1 {head}\r\n\r\n".encode() + body)


WHOLE = sends(f"200 OK\r\nContent-Length: {len(CONTENT)}", CONTENT)


@pytest.fixture
def serve():
    servers = []

    def start(*answers):
        servers.append(Odd(*answers))
        return servers[-1]

    yield start
    for each in servers:
        each.listening.close()


class TestBadServers:
    @pytest.mark.parametrize(
        "answer",
        [
            sends(f"200 OK\r\nContent-Length: {len(CONTENT) + 4}", CONTENT + b"more"),
            sends("200 OK\r\nContent-Length: 3", b"abc"),
            sends(f"200 OK\r\nContent-Length: {len(CONTENT)}", CONTENT[:-1] + b"!"),
            sends("200 OK\r\nContent-Length: banana", b"x" * len(CONTENT)),
            sends(f"200 OK\r\nContent-Length: {'9' * 5000}"),
            sends("200 OK\r\nContent-Length: -7"),
            sends("206 Partial\r\nContent-Range: bytes 99-100/5\r\nContent-Length: 2", b"ab"),
            sends("302 Found\r\nLocation: http://[::1"),
            sends("302 Found\r\nLocation: gopher://x"),
            sends("nonsense"),
            sends("500 No"),
            lambda connection: connection.sendall(b"\x00" * 100_000),
            lambda connection: None,
        ],
    )
    def test_the_next_home_is_tried_whatever_is_wrong_with_the_first(self, serve, answer):
        bad, good = serve(answer), serve(WHOLE)
        assert store.locate(known(bad.url, good.url)).read_bytes() == CONTENT
        assert len(bad.asked) == 1

    def test_a_length_that_is_no_number_is_no_length(self, serve):
        path = store.locate(known(serve(sends("200 OK\r\nContent-Length: banana", CONTENT)).url))
        assert path.read_bytes() == CONTENT

    def test_no_byte_is_lost_to_a_silence(self, serve, monkeypatch):
        monkeypatch.setattr(store, "TIMEOUT_SECONDS", 3.0)  # the good server, busy as it may be, is not silent so long
        silent = threading.Event()

        def stall(connection):
            connection.sendall(
                f"HTTP/1.1 200 OK\r\nContent-Length: {len(CONTENT)}\r\n\r\n".encode() + CONTENT[:700_001]
            )
            silent.wait(600)

        first, second = serve(stall), serve(sends("206 Partial\r\nContent-Range: bytes 700001-", CONTENT[700_001:]))
        assert store.locate(known(first.url, second.url)).read_bytes() == CONTENT
        silent.set()
        assert "Range: bytes=700001-" in second.asked[0]

    @pytest.mark.parametrize("where", ["head", "body"])
    def test_a_server_that_drips_is_given_up_at_the_deadline(self, serve, monkeypatch, where):
        monkeypatch.setattr(store, "DEADLINE_SECONDS", 0.5)
        monkeypatch.setattr(store, "SLOWEST", 10**9)

        def drip(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + (b"" if where == "head" else b"\r\n"))
            while True:  # until the other end is shut
                connection.sendall(b"x")
                time.sleep(0.05)

        with pytest.raises(StoreError, match="download failed"):
            store.locate(known(serve(drip).url))

    def test_a_home_that_drips_leaves_time_for_the_next(self, serve, monkeypatch):
        monkeypatch.setattr(store, "DEADLINE_SECONDS", 8.0)  # half of it for the first home, enough for the second
        monkeypatch.setattr(store, "SLOWEST", 10**9)

        def drip(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                connection.sendall(b"x")
                time.sleep(0.05)

        assert store.locate(known(serve(drip).url, serve(WHOLE).url)).read_bytes() == CONTENT

    def test_what_a_damaged_home_left_is_not_mixed_with_the_next_ones(self, serve):
        part_of(known()).write_bytes(b"?" * 1000)
        resumed = sends("206 Partial\r\nContent-Range: bytes 1000-", CONTENT[1000:])
        first, second = serve(resumed), serve(WHOLE)
        assert store.locate(known(first.url, second.url)).read_bytes() == CONTENT
        assert "Range" not in second.asked[0]
