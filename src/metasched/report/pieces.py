"""Which function makes which figure or table."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from metasched.experiments.outputs import Output
from metasched.report.results import Results

Maker = Callable[[Output, Results], Sequence[Any]]
M = TypeVar("M", bound=Maker)
MAKERS: dict[str, Maker] = {}


class UnavailableError(Exception):
    """Why a table or figure cannot be made from the results at hand."""


def makes(*outputs: Output) -> Callable[[M], M]:
    """Say of a function that it makes these outputs; it raises :class:`UnavailableError` where it cannot."""

    def register(maker: M) -> M:
        MAKERS.update(dict.fromkeys((output.name for output in outputs), maker))
        return maker

    return register
