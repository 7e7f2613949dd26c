"""What each figure and table needs to be run."""

import pytest

from metasched.experiments import outputs
from metasched.experiments.catalogue import EXPERIMENTS
from metasched.experiments.definition import REGIMES
from metasched.report.outputs import outputs as registered

registered()


@pytest.mark.parametrize("name", outputs.NEEDS)
def test_every_output_needs_experiments_and_regimes_that_there_are(name):
    needs = outputs.NEEDS[name]
    assert set(needs.experiments) <= set(EXPERIMENTS)
    assert set(needs.regimes) <= set(REGIMES)
    found = {cell.variant for experiment in needs.experiments for cell in EXPERIMENTS[experiment].cells}
    assert set(needs.variants) <= found


def test_every_output_but_those_of_own_runs_says_what_it_needs():
    assert set(registered()) - set(outputs.NEEDS) == {"methods", "sources-worth", "runs"}
    assert set(outputs.NEEDS) <= set(registered())


def test_only_the_cells_behind_what_is_wanted_are_run():
    cells = EXPERIMENTS["weather"].cells
    needed, kept = outputs.wanted(["fig5"], "weather", cells)
    assert needed
    assert [cell.variant for cell in kept] == ["U850", "V850"]
    assert outputs.wanted(["fig3"], "weather", cells) == (False, [])
    assert outputs.wanted(["p-values"], "weather", cells) == (True, [])


def test_without_a_wish_everything_is_run():
    for experiment in EXPERIMENTS.values():
        assert outputs.wanted([], experiment.name, experiment.cells) == (True, list(experiment.cells))


def test_typical_variants_are_variants():
    found = {cell.variant for experiment in EXPERIMENTS.values() for cell in experiment.cells}
    assert set(outputs.TYPICAL) <= found
