import pytest

import made_up_results as made
from metasched.report import page
from metasched.report.results import load


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    """Results with every cell and piece of evidence that the page has a place for."""
    return load([made.write_all(tmp_path_factory.mktemp("results"), seeds=4)])


@pytest.fixture(scope="session")
def report(everything):
    """All figures and tables of these."""
    for module in ("altair", "jinja2", "vl_convert"):
        pytest.importorskip(module)
    return page.build(everything)
