"""Result files shrink without changing what the report reads, but for the curves they thin."""

import json

import numpy as np

from made_up_results import cell
from metasched.report.parse import cell_from
from metasched.runs.compact import compact, thinned


def test_what_every_seed_has_alike_is_written_once_and_read_as_before():
    whole = cell()
    small = compact(whole)
    assert compact(small) == small
    assert len(json.dumps(small)) <= len(json.dumps(whole))
    before, after = cell_from(whole), cell_from(small)
    for name, method in before.methods.items():
        other = after.methods[name]
        np.testing.assert_allclose(other.final["test_accuracy"], method.final["test_accuracy"], atol=5e-5)
        np.testing.assert_array_equal(other.samples[:, -1:], method.samples[:, -1:])
        if method.drawn is not None:
            np.testing.assert_array_equal(other.drawn, method.drawn)


def test_curves_are_dense_at_first_and_keep_the_last_measurement():
    assert thinned(10) == list(range(10))
    kept = thinned(60)
    assert kept[:4] == [0, 1, 2, 3]
    assert kept[-1] == 59
    assert len(kept) <= 16
    assert np.all(np.diff(np.diff(kept)) >= -2)
