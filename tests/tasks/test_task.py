import copy
import pickle

import numpy as np

from helpers import make_regression
from metasched import Provenance


def test_copies_of_a_split_keep_its_targets():
    split = make_regression().test
    for twin in (copy.deepcopy(split), pickle.loads(pickle.dumps(split)), split._replace(labels=split.labels)):
        np.testing.assert_array_equal(twin.targets, split.targets)


def test_a_few_words_say_which_rows():
    assert Provenance("file", np.arange(3, 9)).describe() == "file, rows 3–8"
    assert Provenance("file", np.array([5, 2, 9])).describe() == "file, 3 rows of 2–9"
    assert Provenance("file", np.array([], int)).describe() == "file, no rows"


def test_taken_rows_keep_their_numbers_and_add_to_the_notes():
    part = Provenance("file", np.arange(10, 20), {"f": "0"}).take(np.array([3, 1]), "first").take(np.array([1]), "then")
    assert part.rows.tolist() == [11]
    assert part.note == "first; then"
    assert part.files == {"f": "0"}
