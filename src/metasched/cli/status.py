"""``metasched status``: which runs of a folder are waiting, running, stale, failed or done."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from metasched.cli.common import app, print_json, say, stdout

MOST_NAMED = 10
"""At most this many runs that need attention are named; --json lists all of them."""


@app.command
def status(place: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")], json: bool = False) -> None:
    """Show which runs of a folder are waiting, running, stale, failed or done.

    It only reads the folder. You can use it during the runs or afterwards.

    Example: metasched status runs/mine

    Args:
        place: The folder of a run, a comparison or the paper's results.
        json: Print as JSON.
    """
    from metasched.report import tables
    from metasched.runs.status import STATES, survey

    groups = survey(place)
    if json:
        print_json({"groups": [{"name": group.name, **group.counts} for group in groups], **_attention(groups)})
        return
    total = {state: sum(group.counts[state] for group in groups) for state in STATES}
    rows = [[group.name, *(f"{group.counts[state]:,}" for state in STATES)] for group in groups]
    if len(rows) > 1:
        rows.append(["all", *(f"{total[state]:,}" for state in STATES)])
    stdout().print(tables.terminal(["runs", *STATES], rows))
    attention = _attention(groups)
    lines = [
        f"failed: {each}: {why['error']} (tried {why['tries']} times); run the command again to retry"
        for each, why in attention["failed"].items()
    ]
    lines += [
        f"stale: {each}: no sign of process {holder['process']} on {holder['host']} for "
        f"{holder['silent_seconds'] or 0:,.0f} seconds; run the command again to continue"
        for each, holder in attention["stale"].items()
    ]
    more = len(lines) - MOST_NAMED
    for line in (*lines[:MOST_NAMED], *([f"… and {more:,} more: --json lists all"] if more > 0 else [])):
        say(line)


def _attention(groups: Any) -> dict[str, Any]:
    """Runs that are stale, with their silent holders, and runs that have failed, with the reason."""
    from metasched.runs.lease import holder, seconds_since
    from metasched.runs.status import failure

    stale = {
        str(each): {"host": own and own.host, "process": own and own.process, "silent_seconds": seconds_since(each)}
        for group in groups
        for each in group.stale
        for own in [holder(each)]
    }
    failed = {
        str(each): {"error": why.error if why else "its record is damaged", "tries": why.tries if why else None}
        for group in groups
        for each in group.failed
        for why in [failure(each)]
    }
    return {"stale": stale, "failed": failed}
