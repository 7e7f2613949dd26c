"""``metasched data``: list, fetch, verify, find and show data sets."""

import textwrap

import tyro

from metasched.cli.commands import Commands
from metasched.cli.common import RowFlags, Rows, SetName, app, print_json, put, stderr
from metasched.errors import ConfigError, StoreError, unknown

data_app = Commands("List, download, check and make data sets.")
app.command(data_app, name="data")


@data_app.command(name="list")
def list_data(json: bool = False) -> None:
    """List the data sets, and which of their files are on this machine.

    Example: metasched data list

    Args:
        json: Print as JSON.
    """
    from metasched import datasets
    from metasched.datasets import store

    found = {file.path: store.find(file.path) for files in datasets.files().values() for file in files}
    if json:
        paths = {file: path and str(path) for file, path in found.items()}
        print_json({"sets": {name: datasets.describe(name) for name in datasets.names()}, "files": paths})
        return
    width = max(map(len, datasets.names()))
    put("Data sets, for 'metasched train' and ms.datasets.load:")
    for name in datasets.names():
        put(textwrap.fill(f"  {name:{width}}  {datasets.describe(name)}", 80, subsequent_indent=" " * (width + 4)))
    put("\nTheir files:")
    for name, files in datasets.files().items():
        present = sum(found[file.path] is not None for file in files)
        size = sum(file.size for file in files)
        put(f"  {name:{width}}  {present} of {len(files)} files here, {size / 1e6:,.1f} MB in total")
    put("\nLooked for in " + ", then ".join(map(str, store.folders())))


@data_app.command
def fetch(names: tyro.conf.Positional[tuple[str, ...]], quiet: bool = False) -> None:
    """Download files into the cache and check them.

    Files that are already here are only checked.

    Example: metasched data fetch mnist semeion optdigits

    Args:
        names: Collections of files (see 'metasched data list').
        quiet: No progress bar.
    """
    from metasched import datasets
    from metasched.cli import progress
    from metasched.datasets import store

    known = datasets.files()
    for name in names:
        if name not in known:
            raise unknown("collection of files", name, known)
    if not names:
        raise ConfigError(f"nothing to fetch; give one or more of: {', '.join(known)}")
    for name in names:
        missing = [file for file in known[name] if not file.urls and store.find(file.path) is None]
        for file in known[name]:
            if file not in missing:
                with progress.counting(stderr(), file.path, quiet, in_bytes=True) as on_bytes:
                    put(str(store.locate(file, on_bytes)))
        if missing and len(missing) == len(known[name]):
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise StoreError(
                f"{name} has no public download{store.origin(missing[0])}; put {missing[0].path}{more} in "
                + " or ".join(map(str, store.folders()))
                + ", or set METASCHED_DATA to the folder that has it"
            )


@data_app.command
def verify(json: bool = False) -> None:
    """Check size and SHA-256 of every file here; exit code 2 if one is damaged.

    Example: metasched data verify

    Args:
        json: Print as JSON.
    """
    from metasched import datasets
    from metasched.datasets import store

    states: dict[str, str] = {}
    faults = []
    for files in datasets.files().values():
        for file in files:
            path = store.find(file.path)
            try:
                if path is not None:
                    store.check(file, path)
                states[file.path] = "absent" if path is None else "good"
            except StoreError as error:
                states[file.path] = "damaged"
                faults.append(str(error))
            if not json:
                put(f"{states[file.path]:8} {file.path}")
    counts = {state: list(states.values()).count(state) for state in ("good", "absent", "damaged")}
    if json:
        print_json({"files": states, **counts})
    else:
        put(", ".join(f"{count} {state}" for state, count in counts.items()))
    if faults:
        raise StoreError(faults[0] + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""))


@data_app.command
def path(name: tyro.conf.Positional[str] = "") -> None:
    """Print where a file is or, without a name, where files are looked for.

    Example: metasched data path mnist/train-images-idx3-ubyte.gz

    Args:
        name: A file as 'metasched data verify' lists it.
    """
    from metasched import datasets
    from metasched.datasets import store

    if not name:
        put("\n".join(map(str, store.folders())))
        return
    known = [file.path for files in datasets.files().values() for file in files]
    if name not in known:
        raise unknown("data file", name, known)
    found = store.find(name)
    if found is None:
        raise StoreError(f"{name} is in none of {', '.join(map(str, store.folders()))}; try 'metasched data fetch'")
    put(str(found))


@data_app.command
def show(set: SetName, rows: RowFlags = Rows(), json: bool = False) -> None:  # noqa: B008
    """Show what a data set contains: tasks, rows, labels, sources.

    Example: metasched data show digits --data target_labels=30

    Args:
        set: A data set, a CSV, Parquet or .npz file, a folder of tables or of images.
        rows: Which rows, and what to predict.
        json: Print as JSON.
    """
    tasks = rows.load(set)
    if not json:
        put(tasks.summary())
        return
    print_json(
        {
            "set": tasks.name,
            "simulated": tasks.simulated,
            "tasks": [{"name": task.name, "rows": len(task), "classes": list(task.classes)} for task in tasks.tasks],
            "classes": list(tasks.classes),
            "input_shape": list(tasks.shape),
            "validation_rows": len(tasks.validation.labels),
            "test_rows": len(tasks.test.labels),
            "unlabelled_rows": 0 if tasks.unlabelled is None else len(tasks.unlabelled),
            "useful": tasks.useful,
            "warnings": list(tasks.warnings),
            "fingerprint": tasks.fingerprint,
        }
    )
