import numpy as np
import pytest

from metasched.errors import ConfigError
from metasched.seeds import check_seed, counting


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, np.int64(7), np.uint32(2**32 - 1)])
def test_a_seed_is_a_whole_number_of_32_bits(seed):
    assert check_seed(seed) == int(seed)
    assert type(check_seed(seed)) is int


@pytest.mark.parametrize("seed", [-1, 2**32, 2**63, True, 1.0, "1", None, np.float64(1)])
def test_anything_else_is_refused(seed):
    with pytest.raises(ConfigError, match="give a whole number from 0 to 4294967295"):
        check_seed(seed)


def test_seeds_count_up_from_the_first():
    assert counting(3) == [0, 1, 2]
    assert counting(2, 2**32 - 2) == [2**32 - 2, 2**32 - 1]


@pytest.mark.parametrize(("count", "first"), [(0, 0), (-1, 0), (100_001, 0), (10**12, 0), (2, 2**32 - 1), (2, -1)])
def test_too_few_too_many_and_those_past_the_last_are_refused(count, first):
    with pytest.raises(ConfigError):
        counting(count, first)
