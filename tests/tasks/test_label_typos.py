from metasched.tasks.label_typos import strays


def found(target=("t",), **texts):
    return strays(texts, target, {part: lambda row, part=part: f"{part}.csv line {row + 2}" for part in texts})


def test_a_misspelt_label_is_named_with_its_first_row_and_the_one_that_was_meant():
    lines, labels = found(s=["good", "poor", "Good", "good"], t=["good", "poor"])
    assert lines == [
        "label 'Good' (s.csv line 4, 1 row; did you mean 'good'?) is not in the target; "
        "mend the spelling, unless it is meant"
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
    assert lines == ["label 'excellent' (t.csv line 4, 1 row) is in no source; mend the spelling, unless it is meant"]


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
