from metasched.errors import ConfigError, DataError, MetaschedError, unknown


def test_a_misspelt_name_is_answered_with_the_nearest():
    assert "did you mean 'digits'?" in str(unknown("data set", "digit", ["cifar", "digits"]))


def test_a_hopeless_name_is_answered_with_the_list_alone():
    message = str(unknown("data set", "qqqq", ["cifar", "digits"]))
    assert "did you mean" not in message
    assert "Known: cifar, digits" in message


def test_a_long_list_is_cut():
    assert str(unknown("file", "x", [f"file-{number:03}" for number in range(50)])).endswith("file-019, …")


def test_bad_values_are_value_errors_for_python_users():
    assert issubclass(ConfigError, ValueError)
    assert issubclass(DataError, ValueError)
    assert issubclass(DataError, MetaschedError)
