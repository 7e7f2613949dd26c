import pytest

import made_up_results as made
from metasched.report.results import load


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    """Results with every cell and piece of evidence that the page has a place for."""
    return load([made.write_all(tmp_path_factory.mktemp("results"), seeds=4)])
