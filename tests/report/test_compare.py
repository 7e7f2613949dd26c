"""The methods of a cell against each other, on curves that are known."""

from pathlib import Path

import numpy as np
import pytest

import made_up_results as made
from metasched.report import compare, statistics
from metasched.report.results import load

EARLY, LATE, NEVER = (0.6, 0.7, 0.7), (0.1, 0.1, 0.6), (0.1, 0.2, 0.3)


@pytest.fixture
def read(tmp_path):
    return lambda methods, **changes: made.loaded(tmp_path, made.plain_cell(methods, **changes)).cells[0]


def final(*values):
    return [(0.1, 0.1, value) for value in values]


class TestKinds:
    def test_the_best_static_baseline_is_never_a_single_task_or_a_scheduler(self, read):
        cell = read({"cyclic": [NEVER], "uniform": [LATE], "single:1": [EARLY], "ucb": [EARLY]})
        assert compare.best_static(cell).name == "uniform"
        assert compare.best_single(cell).name == "single:1"
        assert compare.best_active(cell).name == "ucb"

    def test_a_single_task_among_runs_of_ones_own_is_no_active_scheduler(self, tmp_path):
        runs = [[made.own("single:2", curve=EARLY)], [made.own("ucb", curve=LATE)]]
        (cell,) = made.loaded(tmp_path, *runs).cells
        assert compare.best_active(cell).name == "ucb"
        assert compare.best_single(cell).name == "single:2"

    def test_a_static_schedule_that_is_new_to_the_report_is_static(self, tmp_path):
        runs = [[made.own("two-by-two", family="static", curve=EARLY)], [made.own("cyclic", curve=LATE)]]
        (cell,) = made.loaded(tmp_path, *runs).cells
        assert compare.best_static(cell).name == "two-by-two"
        assert compare.best_active(cell) is None


class TestSamples:
    def test_are_counted_until_accuracy_stays(self, read):
        cell = read({"cyclic": [(0.6, 0.4, 0.6)], "ucb": [EARLY]})
        assert compare.arrivals(cell.methods["cyclic"], 0.5) == {0: (300, 300)}
        assert compare.arrivals(cell.methods["ucb"], 0.5) == {0: (100, 300)}
        assert compare.arrivals(cell.methods["ucb"], 0.9) == {0: (np.inf, 300)}

    def test_gain_is_samples_of_the_baseline_over_samples_of_the_scheduler(self, read):
        cell = read({"cyclic": [LATE] * 3, "ucb": [EARLY] * 3})
        assert compare.gain_over(cell.methods["cyclic"], cell.methods["ucb"], 0.5)[:3] == (3, 3, 3)
        assert compare.gain_over(None, cell.methods["ucb"], 0.5) is None

    def test_a_seed_that_diverged_never_arrives(self, tmp_path):
        (cell,) = made.loaded(tmp_path, [made.run(curve=EARLY), made.diverged(seed=1)]).cells
        assert compare.arrivals(cell.methods["ucb"], 0.5) == {0: (100, 300), 1: (np.inf, 300)}


def test_seeds_are_paired_by_number_and_not_by_place(tmp_path):
    first = [made.run("ucb", seed, (value,)) for seed, value in ((2, 0.5), (0, 0.4))]
    second = [made.run("cyclic", seed, (value,)) for seed, value in enumerate((0.1, 0.2, 0.3))]
    (cell,) = made.loaded(tmp_path, first + second).cells
    assert compare.differences(cell.methods["ucb"], cell.methods["cyclic"]) == pytest.approx([0.3, 0.2])


class TestThresholds:
    def test_few_labels_also_have_the_final_accuracy_of_the_best_static(self, read):
        cell = read({"cyclic": [LATE] * 3, "ucb": [EARLY] * 3})
        assert compare.thresholds(cell) == {0.5: "fixed before the run", 0.6: "final accuracy of cyclic"}

    def test_the_papers_regime_has_only_the_fixed_one(self, read):
        assert len(compare.thresholds(read({"cyclic": [LATE], "ucb": [EARLY]}, regime="paper"))) == 1

    def test_a_cell_without_a_fixed_one_has_the_other(self, read):
        assert list(compare.thresholds(read({"cyclic": [LATE]}, regime="own runs", threshold=None))) == [0.6]


UPS = [0.60, 0.61, 0.62, 0.63, 0.64, 0.65, 0.66, 0.67]


class TestExploratoryVerdicts:
    def test_better_worse_alike_and_open(self, read):
        cell = read(
            {
                "cyclic": final(*UPS),
                "ucb": final(*(value + 0.1 for value in UPS)),
                "gittins": final(*(value - 0.1 for value in UPS)),
                "mdp": final(*(value + 0.01 * (-1) ** k for k, value in enumerate(UPS))),
                "thompson": final(*(value + 0.1 * (-1) ** k for k, value in enumerate(UPS))),
                "supervised": final(*[0.9] * 8),
            }
        )
        found = {method.name: test for method, test in compare.against_best_static(cell).items()}
        assert {name: test.words for name, test in found.items()} == {
            "ucb": "better",
            "gittins": "worse",
            "mdp": "alike",
            "thompson": "too few seeds to tell: about 144 seeds might do",
        }
        assert found["ucb"].p_value == 2 / 256
        assert found["ucb"].p_holm == pytest.approx(4 * 2 / 256)
        assert found["ucb"].difference == pytest.approx((0.1, 0.1, 0.1))

    def test_what_no_agreement_of_seeds_could_show_is_never_no_difference(self, read):
        """Six seeds and five comparisons: the smallest p is 2/64, after Holm .156."""
        names = ("ucb", "gittins", "mdp", "ucb-gain", "mdp-refresh")
        cell = read({"cyclic": final(*UPS[:6]), **{name: final(*[0.9 + 0.01 * k for k in range(6)]) for name in names}})
        for test in compare.against_best_static(cell).values():
            assert test.p_holm == pytest.approx(5 * 2 / 64)
            assert test.words == "too few seeds to tell: about 8 seeds might do"

    @pytest.mark.parametrize(("comparisons", "needed"), [(1, 6), (2, 7), (5, 8), (18, 10), (100, 12), (10**6, None)])
    def test_the_seeds_that_would_do(self, comparisons, needed):
        assert compare.seeds_needed(comparisons) == needed

    @pytest.mark.parametrize("gap", [0.0, 0.005, 0.42])
    def test_three_seeds_never_show_that_two_methods_are_alike(self, read, gap):
        cell = read({"cyclic": final(0.4, 0.41, 0.42), "ucb": final(*(value + gap for value in (0.4, 0.41, 0.42)))})
        (test,) = compare.against_best_static(cell).values()
        assert (test.kind, test.words) == ("open", "too few seeds to tell: about 6 seeds might do")

    def test_so_many_seeds_as_would_do_are_enough_when_the_rest_are_like_these(self):
        random = np.random.default_rng(0)
        few = random.normal(0.03, 0.05, 8)
        needed = compare.seeds_to_tell(few, 1)
        more = few.mean() + few.std(ddof=1) * random.normal(size=(200, needed))
        shown = [statistics.sign_flip_test(sample) <= 0.05 for sample in more]
        assert len(few) < needed
        assert np.mean(shown) > 0.4

    def test_without_a_static_baseline_there_is_nothing_to_compare_with(self, read):
        assert compare.against_best_static(read({"ucb": [EARLY]})) == {}


class TestPlanned:
    def cell(self, variant, roles, gain=0.1):
        """Ten seeds of a static baseline and of schedulers that are better by ``gain``, with these roles."""
        place = made.study(variant=variant)
        runs = [made.run("uniform", seed, (0.5 + 0.01 * seed,), study=place) for seed in range(10)]
        for name, role in roles.items():
            more = [made.run(name, seed, (0.5 + 0.01 * seed + gain,), study=place, role=role) for seed in range(10)]
            runs += more
        return runs

    def test_the_one_method_named_ours_is_held_against_uniform(self, tmp_path):
        cells = [self.cell(f"{count} labels", {"ucb": "ours", "mdp": "field"}) for count in (10, 30, 100)]
        results = made.loaded(tmp_path, *cells)
        tests = compare.planned_contrasts(results.cells)
        assert [method.name for method in tests] == ["ucb"] * 3
        assert {test.words for test in tests.values()} == {"better"}
        assert [test.p_holm for test in tests.values()] == pytest.approx([3 * 2 / 1024] * 3)

    @pytest.mark.parametrize("roles", [{"ucb": "paper"}, {"ucb": "ours", "mdp": "ours"}])
    def test_none_or_several_named_are_no_plan(self, tmp_path, roles):
        results = made.loaded(tmp_path, self.cell("30 labels", roles))
        assert compare.planned(results.cells[0]) is None
        assert compare.planned_contrasts(results.cells) == {}

    def test_without_the_baseline_there_is_no_plan(self, tmp_path):
        runs = [made.run("ucb", role="ours"), made.run("cyclic")]
        assert compare.planned(made.loaded(tmp_path, runs).cells[0]) is None


@pytest.mark.parametrize(
    ("cell", "method", "numbers"),
    [
        ("weather/few-label-30", "thompson-gain", (0.696, 0.655, -0.04907, 0.03515625)),
        ("weather/few-label-30", "target-only", (0.71515, 0.6710666667, -0.03267, 0.109375)),
        ("cifar/paper-own-heads", "single:1", (0.3676666667, 0.3463333333, 0.0656, 0.046875)),
        ("cifar/paper-own-heads", "mdp-refresh", (0.201, 0.1983333333, -0.0968, 0.033203125)),
    ],
)
def test_numbers_of_our_results_are_what_they_were(cell, method, numbers):
    """Computed once by hand-written medians, means and enumerations; six of the last one's seeds diverged."""
    (kept,) = load([Path(__file__).parents[2] / "results" / f"{cell}.jsonl.gz"]).cells
    tested = kept.methods[method]
    score, test = compare.score(tested), compare.against_best_static(kept)[tested]
    assert (score.value, score.low, test.difference.value, test.p_holm) == pytest.approx(numbers, abs=1e-9)
