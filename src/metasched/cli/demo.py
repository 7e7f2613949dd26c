"""``metasched demo``: does choosing pay, on data that come with the installation? A comparison with fixed settings."""

from pathlib import Path

from metasched.cli.common import app, now, put
from metasched.cli.compare import compared
from metasched.learners.settings import Joint
from metasched.runs.outcome import OURS
from metasched.runs.sweep import Method

METHODS = (
    Method("ours", "auto", role=OURS),
    Method("uniform", "uniform"),
    Method("target-only", "target-only"),
    Method("useful alone", "useful"),
)
LEARNER = Joint(updates=10, batches_per_update=30, target_batch="all")
LEGEND = (
    "ours: the default of 'metasched train'. useful alone: uniform over {useful}, which are known to be useful "
    "here; with your own data nobody knows that beforehand."
)


@app.command
def demo(seeds: int = 7, out: Path | None = None, quiet: bool = False, json: bool = False) -> None:
    """Compare methods on digits turned by several angles; needs no files of yours.

    Example: metasched demo

    Args:
        seeds: Repeat with this many seeds.
        out: Folder of the runs and the page; by default a new one under runs/. An interrupted demo continues there.
        quiet: No progress.
        json: Print the table as JSON.
    """
    from metasched import datasets
    from metasched.optional import require

    for module in ("altair", "jinja2", "vl_convert"):
        require(module, "demo")
    tasks = datasets.load_stored("demo", {})
    legend = LEGEND.format(useful=" and ".join(tasks.useful or ()))
    if not (json or quiet):
        put(tasks.summary(), end="\n\n")
    folder = out or Path("runs") / f"demo-{now()}"
    asked = {"learner": LEARNER, "network": "mlp", "tune": False, "seeds": seeds}
    compared(tasks, METHODS, folder, quiet=quiet, json=json, legend=legend, **asked)
