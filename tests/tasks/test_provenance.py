import numpy as np

from metasched import Provenance


def test_a_few_words_say_which_rows():
    assert Provenance("file", np.arange(3, 9)).describe() == "file, rows 3–8"
    assert Provenance("file", np.array([5, 2, 9])).describe() == "file, 3 rows of 2–9"
    assert Provenance("file", np.array([], int)).describe() == "file, no rows"


def test_taken_rows_keep_their_numbers_and_add_to_the_notes():
    part = Provenance("file", np.arange(10, 20), {"f": "0"}).take(np.array([3, 1]), "first").take(np.array([1]), "then")
    assert part.rows.tolist() == [11]
    assert part.note == "first; then"
    assert part.files == {"f": "0"}


def test_joined_rows_name_each_source_once():
    a, b = Provenance("a", np.arange(2), {"f": "0"}), Provenance("b", np.arange(1), {"g": "1"})
    joined = a.joined(b).joined(a)
    assert joined.source == "a + b"
    assert joined.rows.tolist() == [0, 1, 0, 0, 1]
    assert joined.files == {"f": "0", "g": "1"}
