import numpy as np
import pytest

import metasched as ms
from metasched.errors import ConfigError
from metasched.experiments.datasets import mnist, uci

FILES = [file.path for file in (*uci.SEMEION, *uci.OPTDIGITS, *mnist.FILES.values())]


@pytest.fixture
def digits(needs):
    needs(*FILES)
    return ms.datasets.load("digits")


def test_five_windows_of_1400_rows_in_file_order(digits):
    assert digits.sizes == (1400,) * 5
    assert digits.shape == (28, 28)
    assert digits.shared_labels
    _, labels = uci.read_semeion()
    np.testing.assert_array_equal(digits.tasks[1].labels, labels[193:1593])
    _, labels = uci.read_optdigits()
    np.testing.assert_array_equal(digits.tasks[4].labels, labels[2800:4200])


def test_the_target_is_mnist(digits):
    assert digits.test.inputs.shape == (60000, 28, 28)
    assert digits.validation.inputs.shape == (1400, 28, 28)
    assert digits.validation.labels[:4].tolist() == [7, 2, 1, 0]
    assert digits.provenance["test"].files[mnist.FILES["train-images"].path] == mnist.FILES["train-images"].sha256


def test_all_five_are_useful_until_their_labels_are_shuffled(digits):
    assert digits.useful == tuple(task.name for task in digits.tasks)
    assert digits.variant(noise=dict.fromkeys(digits.useful[:4], 1.0)).useful == ("optical-3",)


def test_centred_digits_keep_a_margin_of_four(digits):
    inputs = digits.tasks[0].inputs
    assert inputs[:, 4:24, 4:24].sum() == pytest.approx(inputs.sum())
    assert inputs.min() >= 0
    assert inputs.max() <= 1


def test_the_other_readings_are_options(needs):
    needs(*FILES)
    plain = ms.datasets.load("digits", resizing="plain", validation="sources", target_labels=30)
    assert plain.tasks[0].inputs[:, :4].sum() > 0
    assert plain.provenance["validation"].source == "Optical Recognition"
    assert plain.provenance["validation"].rows.min() >= 4200
    assert len(plain.validation.labels) == 30


@pytest.mark.parametrize("options", [{"resizing": "big"}, {"validation": "semeion"}])
def test_an_unknown_reading_is_refused(options):
    with pytest.raises(ConfigError, match="give '"):
        ms.datasets.load("digits", **options)


def test_an_unknown_option_is_refused_before_any_file_is_read():
    with pytest.raises(ConfigError, match="did you mean 'target_labels'"):
        ms.datasets.load("digits", target_label=30)
