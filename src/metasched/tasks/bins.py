"""Numbers cut into bins, which schedulers see as labels."""

from itertools import pairwise

import numpy as np

from metasched.tasks.arrays import Targets


def bin_edges(values: Targets, bins: int) -> Targets:
    """At most ``bins`` − 1 rising edges, themselves among ``values``, that cut them into parts of about equal size.

    Value v is in bin #{edges ≤ v}; no bin is empty, and equal values share one.
    """
    quantiles = np.quantile(values, np.arange(1, bins) / bins, method="higher")
    return np.unique(quantiles[quantiles > values.min()]).astype(np.float32)


def bin_names(edges: Targets) -> tuple[str, ...]:
    """``("< 0.5", "0.5 … 2", "≥ 2")``: with as many digits as tell the edges apart."""
    if not edges.size:
        return ("any",)
    texts: list[str] = []
    for digits in range(3, 10):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(texts):
            break
    between = [f"{low} … {high}" for low, high in pairwise(texts)]
    return (f"< {texts[0]}", *between, f"≥ {texts[-1]}")
