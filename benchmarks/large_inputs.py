"""Reading large tables: processor time beside pyarrow's own reader, and peak memory beside the data.

python benchmarks/large_inputs.py                           # five sources of 100,000 rows, CSV and Parquet
python benchmarks/large_inputs.py --rows 1000000 --columns 50 --formats parquet
python benchmarks/large_inputs.py --sources 1000 --rows 1000 --columns 20
python benchmarks/large_inputs.py --classes 200
python benchmarks/large_inputs.py --rows 2000 --columns 5000
python benchmarks/large_inputs.py --rows 200000 --columns 20 --formats parquet --compare    # a million rows
python benchmarks/large_inputs.py --too-large 20                     # files that do not fit into memory

Each format is read in a process of its own. *Data* are the task set's inputs, float32; the peak is what reading adds to
a process that has read a small set before. With ``--compare`` the command `metasched compare` answers from the files
instead, with its defaults; processor time counts all of its processes, the peak the largest of them. ``--too-large``
makes a CSV file of so many GB without content, and a small Parquet file that declares as many GB of empty cells; the
command must refuse both before the memory is gone.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

import metasched as ms

TARGET_ROWS = 1000
LIMIT = 10**12


def write(folder: Path, sources: int, rows: int, columns: int, classes: int, form: str) -> None:
    """A file for each source, and one for the target."""
    folder.mkdir(parents=True)
    for number in range(sources + 1):
        random = np.random.default_rng(number)
        count = TARGET_ROWS if number == sources else rows
        numbers = {f"x{column}": random.normal(size=count).astype("f4") for column in range(columns)}
        table = pa.table({**numbers, "label": np.arange(count) % classes})
        path = folder / f"{'target' if number == sources else f'source{number:04}'}.{form}"
        csv.write_csv(table, path) if form == "csv" else parquet.write_table(table, path)


def peak() -> int:
    """Most bytes that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read(folder: Path, form: str) -> dict[str, float]:
    """Read the folder with pyarrow, file by file, and as a task set; one thread each."""
    small = folder.parent / f"small-{form}"
    write(small, 1, 50, 2, 2, form)
    ms.datasets.load(small, target="target")  # imports
    pa.set_cpu_count(1)
    before, began = peak(), time.process_time()
    tasks = ms.datasets.load(folder, target="target", regression=False, limit=LIMIT)
    ours, most = time.process_time() - began, peak() - before
    data = sum(part.inputs.nbytes for _, part, _ in tasks.parts())
    del tasks
    began = time.process_time()
    for path in sorted(folder.iterdir()):
        if form == "csv":
            csv.read_csv(path, read_options=csv.ReadOptions(use_threads=False))
        else:
            parquet.read_table(path, use_threads=False)
    theirs = time.process_time() - began
    return {"seconds": ours, "pyarrow": theirs, "ratio": ours / theirs, "data": data, "peak": most / data}


def compare(folder: Path, form: str) -> None:
    """Run the command and print what it took."""
    words = ["compare", str(folder), "--target", "target", "--target-labels", "40", "--data", f"limit={LIMIT}"]
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "metasched", *words, "--out", str(folder.parent / "out"), "--quiet"],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    wall, spent = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{form}: compare took {wall:,.0f} s, {spent.ru_utime + spent.ru_stime:,.0f} s of processor time; "
        f"peak {spent.ru_maxrss / 2**20:.1f} GiB; load {os.getloadavg()[0]:.1f}"
    )


def refused(folder: Path, form: str, gigabytes: int) -> None:
    """Give the command files that do not fit into memory, and print its answer and what that took."""
    write(folder, 0, 0, 50, 2, form)
    large = folder / f"large.{form}"
    if form == "csv":
        large.touch()
        os.truncate(large, gigabytes * 10**9)
    else:
        empty = dict.fromkeys([f"x{column}" for column in range(50)], pa.nulls(10**6, pa.float32()))
        table = pa.table({**empty, "label": np.zeros(10**6, "i8")})
        with parquet.ParquetWriter(large, table.schema) as writer:
            for _ in range(gigabytes * 10**9 // (8 * table.num_rows * table.num_columns) + 1):
                writer.write_table(table)
    words = [
        "compare",
        str(folder),
        "--target",
        "source0000",
        "--data",
        f"limit={LIMIT}",
        "--out",
        str(folder) + "-out",
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "metasched", *words], stderr=subprocess.PIPE, text=True, check=False)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime
    print(f"{form}: exit code {done.returncode}: {done.stderr.strip()}")
    print(f"{form}: {seconds:.1f} s of processor time, peak at most {spent.ru_maxrss / 2**20:.2f} GiB")


def main() -> None:
    """Write the files, read them and print a line for each format."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"sources": 5, "rows": 100_000, "columns": 50, "classes": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--formats", nargs="+", default=["csv", "parquet"], choices=["csv", "parquet"])
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--too-large", type=int, metavar="GB")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        print(json.dumps(read(Path(given.read[0]), given.read[1])))
        return
    if given.too_large:
        for form in given.formats:
            with tempfile.TemporaryDirectory() as place:
                refused(Path(place) / "rows", form, given.too_large)
        return
    print(f"{given.sources:,} sources x {given.rows:,} rows x {given.columns:,} columns, {given.classes} classes")
    for form in given.formats:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "rows"
            write(folder, given.sources, given.rows, given.columns, given.classes, form)
            if given.compare:
                compare(folder, form)
                continue
            size = sum(path.stat().st_size for path in folder.iterdir())
            done = subprocess.run(
                [sys.executable, __file__, "--read", folder, form], stdout=subprocess.PIPE, text=True, check=True
            )
        found = json.loads(done.stdout)
        print(
            f"{form}: {size / 2**20:,.0f} MiB of files, {found['data'] / 2**20:,.0f} MiB of data; "
            f"{found['seconds']:.2f} s of processor time, {found['ratio']:.2f} x pyarrow; "
            f"peak {found['peak']:.1f} x the data; load {os.getloadavg()[0]:.1f}"
        )


if __name__ == "__main__":
    main()
