"""The registry of the report: figures and tables by name, and what plugins say about their experiments.

A function under ``@makes(name, title, section)`` makes one figure or table. Those for any runs are in this folder. A
package with its own experiments registers more in the function ``outputs`` of its plugin (:mod:`metasched.plugins`),
where it also sets the order of its experiments on the page.
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
"""The section with which the page opens. All other sections are folded."""
COMPARISONS = "Every comparison in numbers"
OF_ANY_RUNS = (FIRST, COMPARISONS)
"""Sections that are also made for runs outside of experiments."""

Maker = Callable[["Output", "Results"], Sequence[Any]]
M = TypeVar("M", bound=Maker)


class UnavailableError(Exception):
    """The reason why a figure or table cannot be made from these results."""


class Output(NamedTuple):
    """A figure or table: its name, title and section, and the function that makes it.

    Among the outputs with ``curves`` (accuracy against rows), the first that can be made is shown next to the verdict.
    """

    name: str
    title: str
    section: str
    make: Maker
    after: str
    curves: bool


@dataclass
class Experiments:
    """What plugins say about their experiments. Unknown experiments and regimes come last on a page."""

    names: list[str] = field(default_factory=list)
    """In the order of the page."""
    regimes: list[str] = field(default_factory=list)
    """In the order of the page. Cells of other regimes are the user's own runs."""
    typical: set[str] = field(default_factory=set)
    """Variants that represent all others of their experiment and regime if a figure has room for only one."""
    every_schedule: set[str] = field(default_factory=set)
    """Regimes for which the schedules of all cells are drawn, and not only those of a typical one."""


EXPERIMENTS = Experiments()
READERS: dict[str, Callable[[Path], Source]] = {}
"""For each file name: how to read files that plugins write next to outcomes."""
NOTES: dict[str, Callable[[Sequence[CellRuns]], str]] = {}
"""For each output: what a plugin adds to its note, given the cells that it shows."""
_OUTPUTS: dict[str, Output] = {}


def makes(name: str, title: str, section: str, *, after: str = "", curves: bool = False) -> Callable[[M], M]:
    """Register a function as the maker of a figure or table.

    Args:
        name: what ``--only`` and the files are called.
        title: the title for people.
        section: the section of the page.
        after: the output of that section that it follows. By default it comes last.
        curves: whether it may be shown next to the verdict (:class:`Output`).

    Returns:
        A decorator. The function takes the output and the results, returns figures or tables, and raises
        :class:`UnavailableError` if the results do not allow them.
    """

    def register(make: M) -> M:
        _OUTPUTS[name] = Output(name, title, section, make, after, curves)
        return make

    return register


def outputs() -> Mapping[str, Output]:
    """All figures and tables by name, including those of plugins, in the order of the page."""
    from metasched.report import figures, overview  # noqa: F401 (importing them registers their functions)

    plugins.register_all("outputs")
    sections = dict.fromkeys([*OF_ANY_RUNS, *(output.section for output in _OUTPUTS.values())])
    ordered = [output for section in sections for output in _OUTPUTS.values() if output.section == section]
    names = [output.name for output in ordered if not output.after]
    for output in ordered:
        if output.after:
            names.insert(names.index(output.after) + 1, output.name)
    return {name: _OUTPUTS[name] for name in names}
