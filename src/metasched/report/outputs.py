"""The registry of the report: figures and tables by name, and what plugins say about their experiments.

A function under ``@makes(name, title, section)`` makes one figure or table. Those that speak of any runs are in this
folder. A package with experiments of its own registers more from the function ``outputs`` of its plugin
(:mod:`metasched.plugins`), and says there in which order its experiments stand on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from metasched import plugins

if TYPE_CHECKING:
    from metasched.report.cells import CellRuns, Source
    from metasched.report.results import Results

FIRST = "Curves and schedules"
"""The section that the page opens with. Everything else is folded, by section."""
COMPARISONS = "Every comparison in numbers"
OF_ANY_RUNS = (FIRST, COMPARISONS)
"""Sections that are made for runs outside experiments, too."""

Maker = Callable[["Output", "Results"], Sequence[Any]]
M = TypeVar("M", bound=Maker)


class UnavailableError(Exception):
    """Why a figure or table cannot be made from the results at hand."""


class Output(NamedTuple):
    """A figure or table: its name, title and section, and the function that makes it.

    Of the outputs with ``curves`` (accuracy against rows), the first that can be made stands beside the verdict.
    """

    name: str
    title: str
    section: str
    make: Maker
    after: str
    curves: bool


@dataclass
class Experiments:
    """What plugins say about their experiments. Unknown experiments and regimes stand last on a page."""

    names: list[str] = field(default_factory=list)
    """In the order of the page."""
    regimes: list[str] = field(default_factory=list)
    """In the order of the page. Cells of other regimes are the user's own runs."""
    typical: set[str] = field(default_factory=set)
    """Variants that stand for all others of their experiment and regime, where a figure has room for one."""
    every_schedule: set[str] = field(default_factory=set)
    """Regimes of which the schedules of every cell are drawn, not those of a typical one alone."""


EXPERIMENTS = Experiments()
READERS: dict[str, Callable[[Path], Source]] = {}
"""By file name: how to read files that plugins put beside outcomes."""
NOTES: dict[str, Callable[[Sequence[CellRuns]], str]] = {}
"""By name of an output: what a plugin has to add to its note, given the cells that it shows."""
_OUTPUTS: dict[str, Output] = {}


def makes(name: str, title: str, section: str, *, after: str = "", curves: bool = False) -> Callable[[M], M]:
    """Register a function as the maker of a figure or table.

    Args:
        name: what ``--only`` and the files are called.
        title: for people.
        section: where it stands on the page.
        after: the output of that section that it directly follows; by default it comes last.
        curves: whether it may stand beside the verdict (:class:`Output`).

    Returns:
        A decorator. The function takes the output and the results, returns figures or tables, and raises
        :class:`UnavailableError` where the results do not allow them.
    """

    def register(make: M) -> M:
        _OUTPUTS[name] = Output(name, title, section, make, after, curves)
        return make

    return register


def outputs() -> Mapping[str, Output]:
    """Every figure and table by name, those of plugins included, in the order of the page."""
    from metasched.report import figures, overview  # noqa: F401 (their functions register)

    plugins.register_all("outputs")
    sections = dict.fromkeys([*OF_ANY_RUNS, *(output.section for output in _OUTPUTS.values())])
    ordered = [output for section in sections for output in _OUTPUTS.values() if output.section == section]
    names = [output.name for output in ordered if not output.after]
    for output in ordered:
        if output.after:
            names.insert(names.index(output.after) + 1, output.name)
    return {name: _OUTPUTS[name] for name in names}
