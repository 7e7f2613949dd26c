"""What a way of choosing would draw: replayed on the tasks' own labels, without training anything."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from metasched.tasks import Labels


def replay(
    choose: Callable[[NDArray[np.int64]], int],
    labels: Sequence[Labels],
    num_classes: int,
    batch_size: int,
    batches: int,
) -> NDArray[np.int64]:
    """Rows drawn (N, C), by task and label, in ``batches`` batches of ``batch_size`` rows.

    ``choose(heads (N,)) -> task`` sees the labels at the cursors. The cursor of the chosen task moves on by the batch
    and wraps round; the others rest.
    """
    windows = [_window_counts(own, num_classes, batch_size) for own in labels]
    cursors = np.zeros(len(labels), np.int64)
    heads = np.array([own[0] for own in labels], np.int64)
    drawn = np.zeros((len(labels), num_classes), np.int64)
    for _ in range(batches):
        task = choose(heads)
        drawn[task] += windows[task][cursors[task]]
        cursors[task] = (cursors[task] + batch_size) % len(labels[task])
        heads[task] = labels[task][cursors[task]]
    return drawn


def _window_counts(labels: Labels, num_classes: int, width: int) -> NDArray[np.int64]:
    """Label counts (n, C) of the ``width`` rows from each row on, wrapping round."""
    marks = np.eye(num_classes, dtype=np.int64)[labels]
    whole, rest = divmod(width, len(labels))
    sums = np.concatenate([np.zeros((1, num_classes), np.int64), np.cumsum(np.concatenate([marks, marks]), axis=0)])
    starts = np.arange(len(labels))
    counts: NDArray[np.int64] = whole * marks.sum(axis=0) + sums[starts + rest] - sums[starts]
    return counts
