import numpy as np
import pytest

import metasched as ms
from metasched.errors import RunError

CONFIG = ms.Joint(batch_size=4, updates=2)


@pytest.fixture
def seeds(tasks, tmp_path):
    return ms.train(tasks, scheduler="uniform", learner=CONFIG, seeds=(3, 5), out=tmp_path / "a")


def weights(model):
    return np.asarray(model.weights[0]["w"])


def test_of_several_seeds_the_first_is_taken_unless_another_is_named(seeds):
    assert np.array_equal(weights(ms.load_model(seeds.out)), weights(seeds.model(3)))
    assert np.array_equal(weights(ms.load_model(seeds.out, seed=5)), weights(seeds.model(5)))
    assert np.array_equal(weights(ms.load_model(seeds.out / "seed-5")), weights(seeds.model(5)))


def test_a_seed_that_is_not_there_is_refused_with_those_that_are(seeds):
    with pytest.raises(RunError, match="has no seed 4, only 3 and 5"):
        ms.load_model(seeds.out, seed=4)
    with pytest.raises(RunError, match="has no seed 4, only 5"):
        ms.load_model(seeds.out / "seed-5", seed=4)


def test_runs_of_several_methods_are_told_apart_by_their_folders(tasks, seeds):
    ms.train(tasks, scheduler="cyclic", learner=CONFIG, seeds=(3, 5), out=seeds.out.parent / "b")
    with pytest.raises(RunError, match=r"holds 4 runs, of more than one method; name one of them \(a/seed-3"):
        ms.load_model(seeds.out.parent)


def test_a_model_is_read_without_what_its_run_says(seeds):
    (seeds.out / "seed-3" / "run.json").write_text("{}")
    assert ms.load_model(seeds.out / "seed-3").classes == seeds.tasks.classes


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(RunError, match="nowhere: no such folder"):
        ms.load_model(tmp_path / "nowhere")
