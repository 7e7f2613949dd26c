"""Chooses sources one after another, by how well a weighted ridge classifier predicts held-out target rows."""

import numpy as np

from metasched.references.grams import Grams, Known
from metasched.references.threads import one_thread
from metasched.tasks import Split


def greedy_sources(grams: Grams, labelled: Split) -> tuple[str, ...]:
    """The names of the sources that help, in the order of choice. Empty if the target alone does best.

    It starts with only the target's labelled rows, and adds the source that lowers the squared error on held-out rows
    most, until no source lowers it.
    """
    chosen: list[int] = []
    rest = list(range(len(grams.names)))
    with one_thread():
        known = grams.known(labelled)
        best = _error(grams, known, [])
        while rest:
            errors = [_error(grams, known, [*chosen, source]) for source in rest]
            if min(errors) >= best:
                break
            best = min(errors)
            chosen.append(rest.pop(int(np.argmin(errors))))
    return tuple(grams.names[source] for source in chosen)


def _error(grams: Grams, known: Known, sources: list[int]) -> float:
    """The held-out error with these sources, with the best penalty for them."""
    return float(grams.held_out_errors(known, sources).min())
