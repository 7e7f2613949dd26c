import numpy as np
import pytest

from metasched.errors import ConfigError, DataError
from metasched.tasks.labels import find_typos, label


def labelled(target=("t",), **cells_and_options):
    options = {key: cells_and_options.pop(key) for key in ("regression", "order") if key in cells_and_options}
    cells = {key: np.array(own, object) for key, own in cells_and_options.items()}
    row_names = {key: lambda row, key=key: f"{key} row {row + 1}" for key in cells}
    return label(cells, target, row_names, **options)


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
    with pytest.raises(ConfigError, match="101 different whole numbers; if they are amounts, give --regression"):
        labelled(s=prices, t=prices)
    assert len(labelled(s=prices, t=prices, regression=False).classes["t"]) == 101


def test_rather_many_whole_numbers_are_classes_with_a_warning():
    counts = list(range(21))
    result = labelled(s=counts * 3, t=counts)
    assert len(result.classes["t"]) == 21
    assert result.warnings == (
        "'label' has 21 different whole numbers, which are taken as classes; if they are amounts, give --regression "
        "(regression=True)",
    )
    assert labelled(s=counts, t=counts, regression=False).warnings == ()
    assert labelled(s=counts[:20], t=counts[:20]).warnings == ()
    names = [f"class {count}" for count in counts]
    assert labelled(s=names, t=names).warnings == ()


def test_text_is_no_number_to_predict():
    with pytest.raises(DataError, match="t row 2: column 'label' has 'cat' where a number should be"):
        labelled(s=[1, 2], t=[1, "cat"], regression=True)


def test_an_empty_label_is_named_by_its_row():
    with pytest.raises(DataError, match=r"t row 2: 'label' is empty \(2 such rows\)"):
        labelled(s=["a"], t=["a", None, ""])


def test_a_class_that_only_sources_have_is_shared_and_said():
    result = labelled(s=["a", "owl"] * 5, t=["a", "b"] * 5)
    assert result.classes["s"] == result.classes["t"] == ("a", "b", "owl")
    assert result.notes == ("no row of the target has label owl",)
    assert result.warnings == ()


def test_a_class_that_looks_misspelt_is_a_warning_and_no_note():
    result = labelled(s=["calm", "storm", "Calm"] * 2, t=["calm", "storm"] * 5)
    assert result.notes == ()
    assert result.warnings[0].startswith("label 'Calm' (s row 3, 2 rows; did you mean 'calm'?) is not in the target;")


def test_sources_with_labels_of_their_own_are_no_warning():
    assert labelled(s=["p", "q"], t=["cat", "dog"]).warnings == ()


def test_sources_about_something_else_have_labels_of_their_own():
    result = labelled(s=["pen", "cup"], u=["a", "b"], t=["a", "b"])
    assert result.classes == {"s": ("cup", "pen"), "u": ("a", "b"), "t": ("a", "b")}
    assert "'s' has none of the target's labels" in result.notes[0]


def found(target=("t",), **texts):
    return find_typos(texts, target, {part: lambda row, part=part: f"{part}.csv line {row + 2}" for part in texts})


def test_a_misspelt_label_is_named_with_its_first_row_and_the_one_that_was_meant():
    lines, labels = found(s=["good", "poor", "Good", "good"], t=["good", "poor"])
    assert lines == [
        "label 'Good' (s.csv line 4, 1 row; did you mean 'good'?) is not in the target; "
        "fix the spelling, or ignore this if it is intended"
    ]
    assert labels == {"Good"}


def test_a_rare_label_is_named_even_if_nothing_is_spelt_like_it():
    lines, _ = found(s=["good", "poor", "excellent"], t=["good", "poor"])
    assert lines[0].startswith("label 'excellent' (s.csv line 4, 1 row) is not in the target;")


def test_a_source_that_spells_a_label_its_own_way_throughout_is_named():
    lines, _ = found(s=["SUPERB"] * 40 + ["poor"] * 9, t=["superb", "poor"] * 9)
    assert "label 'SUPERB' (s.csv line 2, 40 rows; did you mean 'superb'?) is not in the target" in lines[0]
    assert "label 'superb' (t.csv line 2, 9 rows; did you mean 'SUPERB'?) is in no source" in lines[1]


def test_a_label_that_only_one_row_of_the_target_has_is_named():
    lines, _ = found(s=["good", "poor"] * 5, t=["good", "poor", "excellent"])
    assert lines == [
        "label 'excellent' (t.csv line 4, 1 row) is in no source; fix the spelling, or ignore this if it is intended"
    ]


def test_many_labels_are_one_line_with_the_rarest_first():
    odd = [f"odd {letter}" for letter in "abcde"]
    lines, labels = found(s=["good", *odd, *odd[:-1]], t=["good"])
    assert len(lines) == 1
    assert lines[0].startswith("labels 'odd e' (s.csv line 7, 1 row), 'odd a' (s.csv line 3, 2 rows), 'odd b' (")
    assert " and 2 more are not in the target;" in lines[0]
    assert len(labels) == 5


def test_sources_that_know_more_than_the_target_are_no_fault():
    letters = ["cat", "owl", "eagle", "class-7"] * 20
    assert found(s=letters, t=["cat", "class-1"] * 20) == ([], set())


def test_numbers_are_not_spelt_like_numbers():
    assert found(s=["1", "11"] * 9, t=["1"] * 9) == ([], set())
    assert "'11' (s.csv line 2, 1 row) is not" in found(s=["11", "1"], t=["1"])[0][0]


def test_a_text_among_numbers_is_named_and_not_made_a_class():
    prices = [f"{230 + number / 7:.2f}" for number in range(150)]
    cells = {"a": np.array([*prices, "n.a."], object), "t": np.array(prices, object)}
    names = {part: (lambda row, part=part: f"{part} row {row}") for part in cells}
    with pytest.raises(DataError, match=r"a row 150: 'price' is 'n\.a\.', where 300 of 301 labels are numbers"):
        label(cells, ["t"], names, title="price")
    assert label(cells, ["t"], names, title="price", regression=False).classes is not None


def test_texts_beside_few_numbers_are_classes():
    cells = {"a": np.array(["1", "2", "other"] * 9, object), "t": np.array(["1", "2", "other"], object)}
    names = {part: (lambda row: f"row {row}") for part in cells}
    assert label(cells, ["t"], names).classes["t"] == ("1", "2", "other")
