import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from metasched import untrusted
from metasched.errors import DataError, RunError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.json"


def test_json_becomes_a_value_of_its_type(path):
    path.write_text('{"a": [1, 2]}')
    assert untrusted.read_json(path, dict[str, list[int]], "mend it") == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Input data was truncated"),
        (b'{"a": [1, "2"]}', r"Expected `int`, got `str` - at `\$\[\.\.\.\]\[1\]`"),
        (b'{"a": NaN}', "malformed"),
        (b'{"\xff": []}', "utf-8|UTF-8"),
    ],
)
def test_damage_is_one_line_with_the_place_and_the_fix(path, content, said):
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.json: is damaged \(.*({said}).*\); mend it") as error:
        untrusted.read_json(path, dict[str, list[int]], "mend it", DataError)
    assert "\n" not in str(error.value)


def test_nesting_without_end_is_damage(path):
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(RunError, match=r"a\.json: is damaged \(nested too deeply\); mend it"):
        untrusted.read_json(path, list, "mend it")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(path):
    with path.open("wb") as stream:
        stream.truncate(2**43)  # sparse: eight terabytes that take no space
    with pytest.raises(RunError, match="8,796,093,022,208 bytes, but such a file has at most 100; mend it"):
        untrusted.read_bytes(path, 100, "mend it")


def test_pipes_sockets_devices_and_folders_are_no_data(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    os.mkfifo(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for name in ("a.json", "socket", "/dev/zero", "."):
            with pytest.raises(RunError, match=r"is not a data file|cannot read"):
                untrusted.read_bytes(tmp_path / name, 100, "mend it")


def test_what_is_not_there_is_one_line(path):
    with pytest.raises(RunError, match=r"a\.json: cannot read \(No such file or directory\); mend it"):
        untrusted.read_bytes(path, 100, "mend it")


def test_a_link_may_be_read_through(path, tmp_path):
    (tmp_path / "b").write_text("{}")
    path.symlink_to(tmp_path / "b")
    assert untrusted.read_json(path, dict, "mend it") == {}


def test_a_plain_file_has_a_size(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert untrusted.file_size(tmp_path / "a") == untrusted.file_size(tmp_path / "link", largest=5) == 5


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "x: no such file"),
        (lambda path: path.mkdir(), "x: is a folder; give a regular file"),
        (os.mkfifo, "x: is a named pipe; give a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "x: is a device; give a regular file"),
        (lambda path: path.symlink_to(path), "x: cannot be read"),
        (lambda path: path.write_bytes(b"123456"), "x: has 6 bytes, more than the limit of 5; give a smaller file"),
    ],
)
def test_anything_else_is_refused_unopened(tmp_path, make, said):
    make(tmp_path / "x")
    with pytest.raises(DataError, match=said):
        untrusted.file_size(tmp_path / "x", largest=5)


def test_a_limit_beyond_all_memory_is_no_traceback(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert untrusted.read_bytes(tmp_path / "a", 2**80, "copy it again") == b"abc"


LIMITED = """
import resource, sys
import numpy, pyarrow.csv, pyarrow.parquet
from pathlib import Path
from metasched import datasets, untrusted
from metasched.datasets import tables, npz
from metasched.errors import DataError

now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 300_000_000, now + 300_000_000))
assert 0 < untrusted.free_memory() <= 300_000_000
try:
    datasets.load(Path(sys.argv[1]), **({"limit": 10**11} if sys.argv[1].endswith("csv") else {}))
except DataError as error:
    print(error)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", ["big.csv", "big.npz"])
def test_a_process_that_may_take_little_memory_refuses_what_is_larger(tmp_path, name):
    pytest.importorskip("pyarrow")
    path = tmp_path / name
    if name.endswith("csv"):
        with path.open("wb") as stream:
            stream.truncate(20_000_000_000)
    else:
        np.savez_compressed(path, **{"tasks/a/inputs": np.zeros((100_000, 1000), np.float32)})
    done = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=True)
    assert re.fullmatch(
        r".*big\.\w+: needs at least (20\.0|0\.4) GB of memory, and 0\.\d GB are free; .*\n", done.stdout
    )
