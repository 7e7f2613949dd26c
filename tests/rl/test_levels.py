import numpy as np
import pytest

from metasched.errors import ConfigError, DataError
from metasched.rl.levels import checked_indices, checked_values, mean_size, names_of, reward_of, spread_of_successes

ROWS = [{"level": 1, "family": "sums"}, {"level": 2, "family": "sums"}, {"level": 2, "family": "words"}]


def test_names_are_a_list_an_array_a_column_or_a_function():
    assert names_of(["a", "b"], None) == ["a", "b"]
    assert names_of(np.array([3, 1]), None) == ["3", "1"]
    assert names_of(ROWS, "level") == ["1", "2", "2"]
    assert names_of({"level": [1, 2]}, "level") == ["1", "2"]
    assert names_of(ROWS, lambda row: f"{row['family']} {row['level']}") == ["sums 1", "sums 2", "words 2"]


def test_columns_of_other_libraries():
    pandas, datasets = pytest.importorskip("pandas"), pytest.importorskip("datasets")
    assert names_of(pandas.DataFrame(ROWS), "level") == ["1", "2", "2"]
    assert names_of(pandas.DataFrame(ROWS), lambda row: row["family"]) == ["sums", "sums", "words"]
    assert names_of(datasets.Dataset.from_list(ROWS), "level") == ["1", "2", "2"]
    assert names_of(datasets.Dataset.from_list(ROWS), lambda row: row["family"]) == ["sums", "sums", "words"]
    with pytest.raises(ConfigError, match="unknown column 'levle'; did you mean 'level'"):
        names_of(datasets.Dataset.from_list(ROWS), "levle")


@pytest.mark.parametrize(
    ("prompts", "by", "said"),
    [
        ("easy", None, "give one name for each prompt"),
        (7, None, "the prompts are 7"),
        ([], None, "there are no prompts"),
        (ROWS, None, "prompt 0 is a dict and not a name"),
        (ROWS, "levle", "row 0 has no column 'levle'"),
        ({"level": [1]}, "levle", "unknown column 'levle'; did you mean 'level'"),
        (ROWS, 3, "by is 3; give the name of a column"),
        (["a", None], None, "prompt 1 has the name None"),
        (["a", ""], None, "prompt 1 has the name ''"),
        ([1, 0.5], None, "prompt 1 has the name 0.5"),
    ],
)
def test_other_prompts_are_refused_in_one_line(prompts, by, said):
    with pytest.raises((ConfigError, DataError), match=said) as refused:
        names_of(prompts, by)
    assert "\n" not in str(refused.value)


def test_rewards_are_zero_where_all_completions_are_alike_and_largest_in_between():
    assert mean_size(np.zeros(4)) == 0
    assert mean_size(np.array([-1.0, 1.0])) == 1
    assert [spread_of_successes(np.array(group)) for group in ([0.0, 0.0], [1.0, 1.0], [0.0, 1.0])] == [0, 0, 0.25]
    assert reward_of("numbers")(np.array([1.0, 2.0])) == 1.5
    assert reward_of(np.max)(np.array([1.0, 2.0])) == 2
    with pytest.raises(ConfigError, match="a success is 2; give numbers from 0 to 1"):
        spread_of_successes(np.array([0.0, 2.0]))
    with pytest.raises(ConfigError, match="unknown values 'advantage'; did you mean 'advantages'"):
        reward_of("advantage")


def test_indices_and_values_of_any_kind():
    torch = pytest.importorskip("torch")
    assert checked_indices(torch.tensor([2, 0]), 3).tolist() == [2, 0]
    assert checked_values(torch.tensor([0.5, 1.0]), np.array([2, 0])).tolist() == [0.5, 1.0]
    assert checked_indices([], 3).shape == (0,)
    assert checked_values([True], np.array([2])).tolist() == [1.0]


@pytest.mark.parametrize(
    ("indices", "values", "said"),
    [
        ([3], [1], "there is no prompt 3; the 3 prompts are 0 … 2"),
        ([-1], [1], "there is no prompt -1"),
        ([0.5], [1], "give a list of whole numbers"),
        ([[0]], [1], "give a list of whole numbers"),
        ([True], [1], "give a list of whole numbers"),
        ([0, 1], [1], r"there are 2 indices and values of shape \(1,\)"),
        ([0, 1], [1, float("nan")], "value 1, of prompt 1, is nan; leave out completions without a value"),
        ([0], ["good"], "give one number for each completion"),
    ],
)
def test_others_are_refused_in_one_line(indices, values, said):
    with pytest.raises(ConfigError, match=said):
        checked_values(values, checked_indices(indices, 3))
