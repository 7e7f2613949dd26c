import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metasched import dependence
from metasched.errors import ConfigError, DataError

WEATHER = np.array(
    [[0.721, 0.256, 0.020, 0.003], [0.052, 0.901, 0.033, 0.014], [0.004, 0.037, 0.939, 0.020], [0, 0.017, 0.454, 0.529]]
)


def chain(matrix, length, seed):
    random = np.random.default_rng(seed)
    labels = [0]
    for _ in range(length - 1):
        labels.append(random.choice(len(matrix), p=matrix[labels[-1]]))
    return np.array(labels)


class TestTransitions:
    def test_the_step_from_the_last_row_to_the_first_counts(self):
        assert dependence.transition_counts([0, 1, 1, 2], 3).tolist() == [[0, 1, 0], [0, 1, 1], [1, 0, 0]]

    @given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
    def test_counts_are_those_of_a_plain_loop_and_both_margins_are_the_label_counts(self, labels):
        counts = dependence.transition_counts(labels, 6)
        expected = np.zeros((6, 6), int)
        for here, there in zip(labels, [*labels[1:], labels[0]], strict=True):
            expected[here, there] += 1
        np.testing.assert_array_equal(counts, expected)
        np.testing.assert_array_equal(counts.sum(axis=0), np.bincount(labels, minlength=6))
        np.testing.assert_array_equal(counts.sum(axis=1), np.bincount(labels, minlength=6))

    @given(
        st.lists(st.integers(0, 4), min_size=1, max_size=40),
        st.floats(0, 5),
        st.integers(1, 30),
    )
    def test_rows_are_stochastic_and_absent_labels_are_never_entered(self, labels, smoothing, stride):
        matrix = dependence.transition_matrix(labels, 6, smoothing=smoothing, stride=stride)
        occurs = np.bincount(labels, minlength=6) > 0
        np.testing.assert_allclose(matrix[occurs].sum(axis=1), 1, atol=1e-9)
        assert np.all(matrix[~occurs] == 0)
        assert np.all(matrix[:, ~occurs] == 0)
        assert matrix.min() >= 0

    def test_a_stride_is_a_power(self):
        labels = chain(WEATHER, 300, 0)
        one = dependence.transition_matrix(labels, 4)
        np.testing.assert_allclose(dependence.transition_matrix(labels, 4, stride=20), np.linalg.matrix_power(one, 20))

    def test_smoothing_adds_one_row_in_all_spread_over_the_labels_that_occur(self):
        matrix = dependence.transition_matrix([0, 0, 2, 2], 3, smoothing=1)
        np.testing.assert_allclose(matrix[0], [1.5 / 3, 0, 1.5 / 3])

    @pytest.mark.parametrize(
        ("labels", "classes", "message"),
        [
            ([0, 3], 3, r"labels\[1\] is 3, outside 0 … 2"),
            ([0, -1], 3, r"labels\[1\] is -1"),
            ([], 3, "give one or more integers"),
            ([[0, 1]], 3, r"shape \(1, 2\)"),
            ([0.5], 3, "dtype float64"),
        ],
    )
    def test_bad_labels_are_named(self, labels, classes, message):
        with pytest.raises(DataError, match=message):
            dependence.transition_counts(labels, classes)

    @pytest.mark.parametrize("options", [{"smoothing": -1}, {"smoothing": float("nan")}, {"stride": 0}])
    def test_bad_options_are_named(self, options):
        with pytest.raises(ConfigError, match=next(iter(options))):
            dependence.transition_matrix([0, 1], 2, **options)


class TestStatistic:
    def test_is_pearsons_of_the_transition_table(self):
        contingency = pytest.importorskip("scipy.stats").chi2_contingency
        labels = chain(WEATHER, 400, 1)
        result = dependence.independence_test(labels, 4, permutations=9)
        expected = contingency(dependence.transition_counts(labels, 4), correction=False)
        assert result.statistic == pytest.approx(expected.statistic)
        assert result.asymptotic_p_value == pytest.approx(expected.pvalue, abs=1e-12)

    def test_absent_labels_do_not_count_as_degrees_of_freedom(self):
        labels = np.random.default_rng(0).integers(0, 3, 200)
        few, many = (dependence.independence_test(labels, classes, permutations=99) for classes in (3, 50))
        assert few.asymptotic_p_value == many.asymptotic_p_value
        assert few.p_value == many.p_value
        assert many.counts.shape == (50, 50)

    def test_effect_sizes_are_0_for_one_distribution_and_1_for_a_certain_successor(self):
        cycle = dependence.independence_test(np.tile([0, 1, 2], 30), permutations=99)
        assert cycle.cramers_v == pytest.approx(1)
        assert cycle.total_variation == pytest.approx(2 / 3)  # two different rows of three are at distance 1
        balanced = dependence.independence_test([0, 0, 1, 1], permutations=99)
        assert balanced.cramers_v == balanced.total_variation == 0

    @pytest.mark.parametrize("labels", [[0], [2, 2, 2], [0, 1]])
    def test_sequences_without_any_freedom_never_reject(self, labels):
        result = dependence.independence_test(labels, 3, permutations=99)
        assert result.p_value == result.local_p_value == 1
        assert "no sign" in result.verdict()


def false_positives(draw, sequences=1500, attribute="p_value"):
    random = np.random.default_rng(0)
    rejected = 0
    for number in range(sequences):
        result = dependence.independence_test(draw(random), 10, permutations=99, blocks=5, seed=number)
        rejected += getattr(result, attribute) <= 0.05
    return rejected / sequences


def zipf(power, length):
    weights = np.arange(1, 11.0) ** -power
    return lambda random: random.choice(10, length, p=weights / weights.sum())


class TestErrorRates:
    @pytest.mark.parametrize(
        "draw",
        [zipf(0, 120), zipf(1.5, 120), zipf(2.5, 120), zipf(0, 15)],
        ids=["uniform", "zipf-1.5", "zipf-2.5", "short"],
    )
    def test_independent_labels_are_rejected_five_times_in_a_hundred(self, draw):
        rate = false_positives(draw)
        assert rate == pytest.approx(0.05, abs=0.015)

    def test_the_asymptotic_test_rejects_skewed_labels_far_more_often(self):
        assert false_positives(zipf(2.5, 120), 600, "asymptotic_p_value") > 0.08

    def test_the_papers_weather_chain_is_always_noticed(self):
        for seed in range(20):
            result = dependence.independence_test(chain(WEATHER, 500, seed), 4, permutations=199, seed=seed)
            assert result.p_value == result.local_p_value == 1 / 200
            assert result.stickiness > result.expected_stickiness + 0.2
            assert "neighbouring labels depend on each other" in result.verdict()


class TestVerdict:
    def test_never_says_markov(self):
        for labels in (
            chain(WEATHER, 300, 0),
            np.repeat(np.arange(5), 40),
            np.random.default_rng(0).integers(0, 5, 200),
        ):
            verdict = dependence.independence_test(labels, permutations=199).verdict()
            assert "markov" not in verdict.lower()

    def test_slow_drift_is_told_from_dependence_between_neighbours(self):
        random = np.random.default_rng(0)
        share = np.repeat(np.linspace(0.1, 0.9, 10), 60)
        drifting = (random.random(600) < share).astype(int)
        result = dependence.independence_test(drifting, 2, permutations=999)
        assert result.p_value < 0.01
        assert result.drift_p_value < 0.01
        assert result.local_p_value > 0.05
        assert "label frequencies drift" in result.verdict()

    def test_alternation_is_said_to_repeat_less_often(self):
        labels = np.where(np.random.default_rng(0).random(300) < 0.9, np.arange(300) % 2, 0)
        assert "less often than by chance" in dependence.independence_test(labels, permutations=199).verdict()

    def test_a_corrected_p_value_decides_when_given(self):
        result = dependence.independence_test(chain(WEATHER, 300, 0), permutations=199)
        assert "no sign" in result.verdict(0.2)


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_the_step_down_of_its_definition(p_values):
    adjusted = dependence.holm(p_values)
    m = len(p_values)
    for level in (0.01, 0.05, 0.2):
        rejected = set()
        for rank, index in enumerate(np.argsort(p_values, kind="stable")):
            if p_values[index] * (m - rank) > level:
                break
            rejected.add(int(index))
        assert {int(index) for index in np.flatnonzero(adjusted <= level)} == rejected


def test_holm_refuses_what_is_no_probability():
    with pytest.raises(DataError, match="give a list of probabilities"):
        dependence.holm([0.5, 1.5])


class TestAssociation:
    def test_equal_sequences_are_associated_and_independent_chains_are_not(self):
        first, second = chain(WEATHER, 300, 1), chain(WEATHER, 300, 2)
        result = dependence.cross_task_association([first, first, second], 4)
        assert result.p_value[0, 1] == pytest.approx(1 / 300)
        assert result.cramers_v[0, 1] == pytest.approx(1)
        assert result.p_value[0, 2] > 0.05
        np.testing.assert_array_equal(result.p_value, result.p_value.T)

    def test_shifted_tables_are_those_of_plain_counting(self):
        random = np.random.default_rng(0)
        x, y = random.integers(0, 3, 40), random.integers(0, 4, 40)
        values = []
        for shift in range(40):
            table = np.zeros((3, 4))
            np.add.at(table, (x, np.roll(y, -shift)), 1)
            expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / 40
            values.append(((table - expected) ** 2 / expected).sum())
        p = np.mean(np.array(values) >= values[0] - 1e-9)
        assert dependence.cross_task_association([x, y], 4).p_value[0, 1] == pytest.approx(p)

    def test_sticky_but_independent_sequences_are_not_called_associated(self):
        rejected = 0
        for seed in range(60):
            pair = [chain(WEATHER, 150, 2 * seed), chain(WEATHER, 150, 2 * seed + 1)]
            rejected += dependence.cross_task_association(pair, 4).p_value[0, 1] <= 0.05
        assert rejected <= 10

    def test_unequal_lengths_are_cut_to_the_shorter(self):
        y = chain(WEATHER, 100, 0)
        result = dependence.cross_task_association([y, np.concatenate([y, [0, 1, 2]])], 4)
        assert result.cramers_v[0, 1] == pytest.approx(1)


@pytest.mark.parametrize("labels", [["a"], ["a", "b"] * 10, None, [], [[1, 2], [1]], [0.5, 1.5], [[0, 1]]])
def test_labels_that_are_none_are_refused_in_one_line(labels):
    with pytest.raises(DataError, match="give one or more integers in a row"):
        dependence.independence_test(labels)


@pytest.mark.parametrize("labels", [[0, 2**40, 1], [0, 5000, 1]])
def test_a_label_too_large_for_a_table_of_transitions_is_refused(labels):
    with pytest.raises(DataError, match=r"give 1 … 4096, numbered from 0 without gaps"):
        dependence.independence_test(labels)


def test_shuffles_are_made_in_pieces_that_fit_in_memory(monkeypatch):
    labels = np.random.default_rng(0).integers(0, 3, 90)
    whole = dependence.independence_test(labels, permutations=40)
    monkeypatch.setattr(dependence, "NUMBERS_AT_ONCE", 7 * 90)
    pieces = dependence.independence_test(labels, permutations=40)
    assert (pieces.p_value, pieces.statistic) == (whole.p_value, whole.statistic)
