"""What a way of choosing would draw: replayed on the tasks' own labels, without training anything."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from metasched.tasks import Labels
from metasched.tasks.cursors import advance, batch_rows, labels_at, starts_of


def replay(
    choose: Callable[[NDArray[np.int64]], int],
    labels: Sequence[Labels],
    num_classes: int,
    batch_size: int,
    batches: int,
) -> NDArray[np.int64]:
    """Rows drawn (N, C), by task and label, in ``batches`` batches of ``batch_size`` rows.

    ``choose(labels (N,)) -> task`` sees the labels at the cursors. The cursor of the chosen task moves on by the batch
    and wraps round; the others rest.
    """
    sizes, rows = np.array([len(own) for own in labels]), np.concatenate(labels).astype(np.int64)
    starts, cursors = starts_of(sizes), np.zeros_like(sizes)
    drawn = np.zeros((len(sizes), num_classes), np.int64)
    for _ in range(batches):
        task = choose(labels_at(rows, starts, cursors))
        batch = starts[task] + batch_rows(cursors[task], sizes[task], batch_size)
        drawn[task] += np.bincount(rows[batch], minlength=num_classes)
        cursors = advance(cursors, sizes, task, batch_size, "rested")
    return drawn
