import numpy as np
import pytest

from metasched.errors import ConfigError, DataError
from metasched.tasks.labelling import label


def labelled(target=("t",), **cells_and_options):
    options = {key: cells_and_options.pop(key) for key in ("regression", "order") if key in cells_and_options}
    cells = {key: np.array(own, object) for key, own in cells_and_options.items()}
    places = {key: lambda row, key=key: f"{key} row {row + 1}" for key in cells}
    return label(cells, target, places, **options)


def test_texts_are_classes_in_the_order_of_the_alphabet():
    result = labelled(s=["dog", "cat"], t=["cat", "ant", "dog"])
    assert result.classes == {"s": ("ant", "cat", "dog"), "t": ("ant", "cat", "dog")}
    assert result.values["s"].tolist() == [2, 1]
    assert result.text


def test_whole_numbers_are_classes_in_the_order_of_numbers():
    result = labelled(s=["10", "9"], t=[9, 10.0])
    assert result.classes["t"] == ("9", "10")
    assert not result.text


def test_numbers_with_leading_zeros_are_names():
    assert labelled(s=["01", "02"], t=["02", "01"]).classes["t"] == ("01", "02")


def test_a_given_order_comes_first():
    assert labelled(s=["b", "z"], t=["a", "b"], order=["z", "b"]).classes["t"] == ("z", "b", "a")


def test_fractions_are_predicted_as_numbers_and_that_is_said():
    result = labelled(s=[1.5, 2], t=["2.5", "3"])
    assert result.classes is None
    assert result.values["t"].tolist() == [2.5, 3]
    assert "so numbers are predicted" in result.notes[0]
    assert labelled(s=[1.5, 2], t=[2, 1.5], regression=False).classes["t"] == ("1.5", "2")


def test_whole_numbers_are_predicted_as_numbers_when_asked():
    assert labelled(s=[1, 2], t=[2, 3], regression=True).values["t"].tolist() == [2, 3]


def test_many_whole_numbers_may_be_either_and_the_user_says_which():
    prices = list(range(101))
    with pytest.raises(
        ConfigError, match="101 different whole numbers; to predict the number give --data regression=True"
    ):
        labelled(s=prices, t=prices)
    assert len(labelled(s=prices, t=prices, regression=False).classes["t"]) == 101


def test_text_is_no_number_to_predict():
    with pytest.raises(DataError, match="t row 2: column 'label' has 'cat' where a number belongs"):
        labelled(s=[1, 2], t=[1, "cat"], regression=True)


def test_an_empty_label_is_named_by_its_row():
    with pytest.raises(DataError, match=r"t row 2: 'label' is empty \(2 such rows\)"):
        labelled(s=["a"], t=["a", None, ""])


def test_a_class_that_only_sources_have_is_shared_and_said():
    result = labelled(s=["a", "owl"] * 5, t=["a", "b"] * 5)
    assert result.classes["s"] == result.classes["t"] == ("a", "b", "owl")
    assert result.notes == ("no row of the target has label owl",)
    assert result.doubts == ()


def test_a_class_that_looks_misspelt_is_a_doubt_and_no_note():
    result = labelled(s=["calm", "storm", "Calm"] * 2, t=["calm", "storm"] * 5)
    assert result.notes == ()
    assert result.doubts[0].startswith("label 'Calm' (s row 3, 2 rows; did you mean 'calm'?) is not in the target;")


def test_sources_with_labels_of_their_own_are_no_doubt():
    assert labelled(s=["p", "q"], t=["cat", "dog"]).doubts == ()


def test_sources_about_something_else_have_labels_of_their_own():
    result = labelled(s=["pen", "cup"], u=["a", "b"], t=["a", "b"])
    assert result.classes == {"s": ("cup", "pen"), "u": ("a", "b"), "t": ("a", "b")}
    assert "'s' has none of the target's labels" in result.notes[0]
