import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.planning.replay import replay


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=1, max_size=4), st.integers(1, 20))
def test_rows_are_those_of_a_plain_walk_with_cursors(sequences, batch_size):
    seen = []

    def choose(labels):
        seen.append(labels.tolist())
        return int(labels.sum() + len(seen)) % len(sequences)

    drawn = replay(choose, [np.array(own, np.int32) for own in sequences], 4, batch_size, 12)
    expected, cursors = np.zeros((len(sequences), 4), int), [0] * len(sequences)
    for step, labels in enumerate(seen):
        assert labels == [own[cursor] for own, cursor in zip(sequences, cursors, strict=True)]
        task = (sum(labels) + step + 1) % len(sequences)
        for _ in range(batch_size):
            expected[task, sequences[task][cursors[task]]] += 1
            cursors[task] = (cursors[task] + 1) % len(sequences[task])
    np.testing.assert_array_equal(drawn, expected)
