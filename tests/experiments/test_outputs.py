"""The figures and tables that are declared, and what each needs to be run."""

import pytest

from metasched.experiments import EXPERIMENTS, REGIMES, outputs


@pytest.mark.parametrize("output", outputs.OUTPUTS.values(), ids=list(outputs.OUTPUTS))
def test_every_output_needs_experiments_and_regimes_that_there_are(output):
    assert outputs.OUTPUTS[output.name] is output
    assert set(output.experiments) <= set(EXPERIMENTS)
    assert set(output.regimes) <= set(REGIMES)
    found = {cell.variant for name in output.experiments for cell in EXPERIMENTS[name].cells}
    assert set(output.variants) <= found


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
