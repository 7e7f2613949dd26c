"""Predictions if one source is left out: those with all sources and without each source, from the same sums."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metasched.references.grams import Grams
from metasched.references.threads import one_thread
from metasched.tasks import Split


class LeftOut(NamedTuple):
    """The outputs of a weighted ridge classifier for the same rows.

    Attributes:
        all: (n, k) with all sources. The largest output is the predicted class; in regression these are the numbers.
        without: (sources, n, k) without each source, in the order of the task set.
    """

    all: NDArray[np.float64]
    without: NDArray[np.float64]


def left_out_scores(grams: Grams, labelled: Split, test_inputs: NDArray[np.float32]) -> LeftOut:
    """The outputs for ``test_inputs`` of fits on the target's labelled rows with all sources, and with all but each
    one.

    The penalty is the best one for all sources on held-out labelled rows.
    """
    every = list(range(len(grams.names)))
    with one_thread():
        known = grams.known(labelled)
        share = int(np.argmin(grams.held_out_errors(known, every)))
        fits = [grams.fit(known, every, share)]
        fits += [grams.fit(known, [other for other in every if other != source], share) for source in every]
        outputs = grams.rows(test_inputs) @ np.stack(fits)
    return LeftOut(outputs[0], outputs[1:])
