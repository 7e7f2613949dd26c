"""A line that shows progress in a notebook. IPython is used only if it is already running."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any

from metasched.notebook.html import text
from metasched.printing import printable

OnStep = Callable[[int, int, str], None]
"""Called with the steps done, all steps, and the present step in words."""

UPDATE_SECONDS = 0.2
"""Seconds between two versions of the progress line. More versions would only slow down the notebook."""


@contextmanager
def progress(name: str, unit: str, clock: Callable[[], float] = time.monotonic) -> Iterator[OnStep | None]:
    """A function to call at every step, which updates one line in a notebook. None outside of notebooks."""
    display = _display()
    if display is None:
        yield None
        return
    shown = _Line(display, name, unit, clock)
    try:
        yield shown.step
    except BaseException:
        shown.end("stopped after")
        raise
    shown.end("finished in")


def _display() -> Callable[..., Any] | None:
    """The function that shows things in the running notebook, or None."""
    loaded: Any = sys.modules.get("IPython")
    shell = loaded.get_ipython() if loaded is not None and hasattr(loaded, "get_ipython") else None
    if getattr(shell, "kernel", None) is None:  # IPython in a terminal has no kernel
        return None
    found: Callable[..., Any] = import_module("IPython.display").display
    return found


class _Line:
    """The line of :func:`progress`."""

    def __init__(self, display: Callable[..., Any], name: str, unit: str, clock: Callable[[], float]) -> None:
        self._name, self._unit, self._clock = name, unit, clock
        self._done, self._total, self._words = 0, 0, "getting ready"
        self._began = self._shown = clock()
        self._over = False
        self._handle = display(self._content(), raw=True, display_id=True)

    def step(self, done: int, total: int, words: str = "") -> None:
        self._done, self._total, self._words = done, total, words
        if self._clock() - self._shown >= UPDATE_SECONDS:
            self._update()

    def end(self, how: str) -> None:
        self._words = f"{how} {timedelta(seconds=round(self._clock() - self._began))}"
        self._over = True
        self._update()

    def _update(self) -> None:
        self._shown = self._clock()
        self._handle.update(self._content(), raw=True)

    def _content(self) -> dict[str, str]:
        parts = [f"{self._done:,} of {self._total:,} {self._unit}"] if self._total else []
        if 0 < self._done < self._total and not self._over:
            left = (self._clock() - self._began) * (self._total - self._done) / self._done
            parts.append(f"about {timedelta(seconds=round(left))} left")
        said = f"{self._name}: {', '.join([*parts, *filter(None, [self._words])])}"
        bar = f'<progress max="{self._total}" value="{self._done}"></progress> ' if self._total else ""
        return {"text/plain": printable(said), "text/html": bar + text(said)}
