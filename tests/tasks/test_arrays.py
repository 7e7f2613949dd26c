import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metasched.tasks import bin_edges

FINITE = st.floats(-1e6, 1e6, width=32)


@given(st.lists(FINITE, min_size=1, max_size=60, unique=True), st.integers(2, 12))
def test_bins_of_different_values_hold_equally_many_but_for_one(values, bins):
    values = np.array(values, np.float32)
    counts = np.bincount(np.searchsorted(bin_edges(values, bins), values, side="right"))
    if len(values) >= bins:
        assert len(counts) == bins
        assert counts.max() - counts.min() <= 2
    else:
        assert counts.max() <= 2
