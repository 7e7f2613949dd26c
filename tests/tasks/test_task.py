import copy
import pickle

import numpy as np

from helpers import make_regression


def test_copies_of_a_split_keep_its_targets():
    split = make_regression().test
    for twin in (copy.deepcopy(split), pickle.loads(pickle.dumps(split)), split._replace(labels=split.labels)):
        np.testing.assert_array_equal(twin.targets, split.targets)
