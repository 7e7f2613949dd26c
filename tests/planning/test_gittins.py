"""Gittins indices against four other ways to compute them, and the properties that the planners rely on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.planning import gittins, gittins_index, largest_remaining_index
from metasched.planning.gittins import gittins_index_jax

DISCOUNTS = st.sampled_from([0.0, 0.3, 0.9, 0.99, 0.9999, 1 - 1e-9])


@st.composite
def chains(draw):
    """A chain of 1–9 labels with absorbing, absent and leaky labels, and rewards that often tie."""
    size = draw(st.integers(1, 9))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    P = random.dirichlet(np.full(size, draw(st.sampled_from([0.1, 1.0, 10.0]))), size)
    kinds = draw(
        st.lists(st.sampled_from(["plain", "plain", "absorbing", "absent", "leaky"]), min_size=size, max_size=size)
    )
    for label, kind in enumerate(kinds):
        if kind == "absorbing":
            P[label] = np.eye(size)[label]
        elif kind == "absent":
            P[label], P[:, label] = 0.0, 0.0
        elif kind == "leaky":
            P[label] *= random.uniform(0.2, 0.9)
    ties = draw(st.booleans())
    r = random.integers(-2, 3, size).astype(float) if ties else random.normal(size=size)
    return P, r


def by_restarting(P, r, discount):
    """ν(c) = (1 − β) V_c(c), where V_c is the value of a chain that may be restarted in c at every step."""
    index = np.empty(len(r))
    for label in range(len(r)):
        V = np.zeros(len(r))
        for _ in range(20_000):
            go = r + discount * P @ V
            better = np.maximum(go, go[label])
            change, V = np.abs(better - V).max(), better
            if change < 1e-13:
                break
        index[label] = (1 - discount) * V[label]
    return index


@given(chains(), DISCOUNTS)
@settings(max_examples=300, deadline=None)
def test_agrees_with_the_largest_remaining_index(chain, discount):
    P, r = chain
    want = largest_remaining_index(P, r, discount)
    accurate = 1e-12 if discount <= 0.99 else 1e-7  # the plain algorithm loses digits near 1, elimination does not
    np.testing.assert_allclose(gittins_index(P, r, discount), want, rtol=0, atol=accurate)


@pytest.mark.parametrize("discount", [0.5, 0.9])
def test_agrees_with_restarting_in_each_state(discount):
    random = np.random.default_rng(0)
    for size in (1, 2, 5, 8):
        P, r = random.dirichlet(np.ones(size), size), random.normal(size=size)
        np.testing.assert_allclose(gittins_index(P, r, discount), by_restarting(P, r, discount), atol=1e-10)


@pytest.fixture
def markovianbandit():
    """The peer makes NumPy raise for the whole process when imported, and multiplies memory it never set."""
    with np.errstate():
        peer = pytest.importorskip("markovianbandit")
    with np.errstate(all="ignore"):
        yield peer


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_agrees_with_markovianbandit_where_that_is_accurate(markovianbandit, discount):
    random = np.random.default_rng(1)
    for size in (3, 30, 100):
        P, r = random.dirichlet(np.ones(size), size), random.uniform(size=size)
        theirs = markovianbandit.rested_bandit_from_P1_R1(P, r).gittins_indices(discount=discount)
        np.testing.assert_allclose(gittins_index(P, r, discount), theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("discount", [0.9, 1 - 1e-6, 1 - 1e-9])
def test_agrees_with_forty_digits(discount):
    mpmath = pytest.importorskip("mpmath")
    random = np.random.default_rng(2)
    with mpmath.workdps(40):
        for size, concentration in ((4, 1.0), (6, 0.2), (8, 1.0)):
            P, r = random.dirichlet(np.full(size, concentration), size), random.normal(size=size)
            exact = mpmath.matrix(P.tolist())
            for c in range(size):  # rows within rounding of one count as stochastic: put the rounding on the diagonal
                exact[c, c] = 1 - sum(exact[c, other] for other in range(size) if other != c)
            want = _largest_remaining_index_in_mpmath(mpmath, exact, mpmath.matrix(r.tolist()), mpmath.mpf(discount))
            np.testing.assert_allclose(gittins_index(P, r, discount), want, rtol=0, atol=1e-13)


def _largest_remaining_index_in_mpmath(mpmath, P, r, discount):
    size = P.rows
    index, chosen = [0.0] * size, []
    for _ in range(size):
        system = mpmath.eye(size)
        for row in range(size):
            for column in chosen:
                system[row, column] -= discount * P[row, column]
        d, b = mpmath.lu_solve(system, r), mpmath.lu_solve(system, mpmath.ones(size, 1))
        best = max((c for c in range(size) if c not in chosen), key=lambda c: d[c] / b[c])
        index[best] = float(d[best] / b[best])
        chosen.append(best)
    return index


@pytest.mark.parametrize("size", [gittins.SMALL, gittins.SMALL + 1, gittins.BLOCK, gittins.BLOCK + 1, 150])
def test_block_boundaries_change_nothing(size):
    random = np.random.default_rng(size)
    P, r = random.dirichlet(np.ones(size), size), random.normal(size=size)
    np.testing.assert_allclose(gittins_index(P, r, 0.95), largest_remaining_index(P, r, 0.95), rtol=0, atol=1e-12)


def test_a_batch_is_its_members():
    random = np.random.default_rng(3)
    for size in (6, 70):
        P, r = random.dirichlet(np.ones(size), (2, 3, size)), random.normal(size=(2, 3, size))
        batch = gittins_index(P, r, 0.9)
        assert batch.shape == (2, 3, size)
        assert batch.dtype == np.float64
        for i in range(2):
            for j in range(3):
                np.testing.assert_allclose(batch[i, j], gittins_index(P[i, j], r[i, j], 0.9), rtol=0, atol=1e-14)
        np.testing.assert_array_equal(gittins_index(P[0, 0], r, 0.9)[1, 2], gittins_index(P[0, 0], r[1, 2], 0.9))


def test_by_hand():
    """From label 0 (paying 0) one step reaches label 1 (paying 1): stopping after it earns β / (1 + β)."""
    assert gittins_index([[0, 1], [1, 0]], [0.0, 1.0], 0.5) == pytest.approx([1 / 3, 1.0])
    assert gittins_index([[0, 1], [0, 1]], [0.0, 1.0], 0.9) == pytest.approx([0.9, 1.0])
    assert gittins_index([[1.0]], [-3.0], 0.9) == -3.0


def test_a_leaky_row_ends_the_task():
    """Half of the time label 0 ends the task after paying 0; otherwise label 1 pays 1 for ever."""
    index = gittins_index([[0, 0.5], [0, 1]], [0.0, 1.0], 0.9)
    assert index[0] == pytest.approx(0.45 / (0.1 + 0.45))  # 0.45·10 of reward over 1 + 0.45·10 of time
    assert index[1] == 1.0


def test_an_absent_label_is_worth_its_reward_and_changes_no_other():
    random = np.random.default_rng(4)
    P, r = random.dirichlet(np.ones(3), 3), random.normal(size=3)
    padded = np.zeros((5, 5))
    padded[np.ix_([0, 2, 3], [0, 2, 3])] = P
    rewards = np.array([r[0], 7.0, r[1], r[2], 0.0])
    index = gittins_index(padded, rewards, 0.9)
    np.testing.assert_allclose(index[[0, 2, 3]], gittins_index(P, r, 0.9), rtol=0, atol=1e-14)
    assert index[1] == 7.0
    assert index[4] == 0.0


def test_equal_indices_are_equal_to_the_bit():
    random = np.random.default_rng(5)
    for _ in range(50):
        P = random.dirichlet(np.ones(6), 6)
        assert len(set(gittins_index(P, np.full(6, 0.1), 0.97))) == 1
        two_levels = gittins_index(P, [0.3, 0.1, 0.3, 0.1, 0.1, 0.3], 0.97)
        assert set(two_levels[[0, 2, 5]]) == {0.3}
        alike = np.tile(random.dirichlet(np.ones(6)), (6, 1))  # identical rows: labels differ by their reward alone
        tied = gittins_index(alike, [0.9, 0.2, 0.5, 0.2, 0.5, 0.2], 0.97)
        assert tied[2] == tied[4]
        assert tied[1] == tied[3] == tied[5]


@given(chains(), DISCOUNTS, st.floats(0.1, 10), st.floats(-5, 5))
@settings(max_examples=100, deadline=None)
def test_index_follows_shifts_scales_and_bounds_of_the_rewards(chain, discount, scale, shift):
    P, r = chain
    index = gittins_index(P, r, discount)
    np.testing.assert_allclose(gittins_index(P, scale * r + shift, discount), scale * index + shift, rtol=0, atol=1e-10)
    assert (index >= r - 1e-12).all()
    assert (index <= r.max() + 1e-12).all()


@given(chains(), DISCOUNTS, st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_an_index_moves_by_no_more_than_its_rewards(chain, discount, seed):
    P, r = chain
    change = np.random.default_rng(seed).normal(size=len(r))
    moved = gittins_index(P, r + change, discount) - gittins_index(P, r, discount)
    assert (moved <= change.max() + 1e-10).all()
    assert (moved >= change.min() - 1e-10).all()


@given(chains(), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_renaming_labels_renames_indices(chain, seed):
    P, r = chain
    names = np.random.default_rng(seed).permutation(len(r))
    renamed = gittins_index(P[np.ix_(names, names)], r[names], 0.95)
    np.testing.assert_allclose(renamed, gittins_index(P, r, 0.95)[names], rtol=0, atol=1e-12)


@pytest.mark.parametrize("function", [gittins_index, largest_remaining_index])
@pytest.mark.parametrize(
    ("P", "r", "discount", "says"),
    [
        ([[0.5, 0.5], [-0.1, 1.1]], [0, 1], 0.9, r"P\[1, 0\] is -0.1"),
        ([[0.5, 0.5], [0.6, 0.6]], [0, 1], 0.9, r"row P\[1\] sums to 1.2"),
        ([[0.5, np.nan], [0.5, 0.5]], [0, 1], 0.9, r"P\[0, 1\] is nan"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, np.nan], 0.9, r"r\[1\] is nan"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, np.inf], 0.9, r"r\[1\] is inf"),
        ([[0.5, 0.5], [0.5, 0.5]], [np.inf, -np.inf], 0.9, r"r\[0\] is inf"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, 1], 1.0, "discount is 1.0"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, 1], -0.1, "discount is -0.1"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, 1], float("nan"), "discount is nan"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, 1], "0.9", "discount is '0.9'"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, 1, 2], 0.9, r"r has shape \(3,\)"),
        ([[0.5, 0.5]], [0, 1], 0.9, r"P has shape \(1, 2\)"),
        ([[0.5, 0.5], [1.0]], [0, 1], 0.9, "P is ragged"),
        ([["a", "b"], ["c", "d"]], [0, 1], 0.9, "P has dtype"),
    ],
)
def test_bad_input_is_named(function, P, r, discount, says):
    with pytest.raises(ValueError, match=says):
        function(P, r, discount)


def test_bad_input_in_a_batch_is_named():
    P = np.full((3, 2, 2), 0.5)
    P[2, 1] = [0.9, 0.3]
    with pytest.raises(ValueError, match=r"row P\[2, 1\] sums to 1.2"):
        gittins_index(P, np.zeros((3, 2)), 0.9)
    with pytest.raises(ValueError, match=r"r has shape \(4, 2\)"):
        gittins_index(np.full((3, 2, 2), 0.5), np.zeros((4, 2)), 0.9)
    with pytest.raises(ValueError, match="give one chain"):
        largest_remaining_index(np.full((3, 2, 2), 0.5), np.zeros((3, 2)), 0.9)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 0.9, 0.99]))
def test_in_jax_it_equals_the_index_on_the_host(classes, seed, discount):
    random = np.random.default_rng(seed)
    P = random.dirichlet(np.full(classes, 0.5), (3, classes))
    r = random.normal(size=(3, classes)).round(1)
    expected = gittins_index(P, r, discount)
    np.testing.assert_allclose(gittins_index_jax(jnp.asarray(P), jnp.asarray(r), discount), expected, atol=2e-5)


def test_in_jax_a_label_that_never_occurs_has_its_reward():
    P = np.array([[[0.5, 0.5, 0], [1, 0, 0], [0, 0, 0]]])
    index = gittins_index_jax(jnp.asarray(P), jnp.array([[1.0, 0.0, 0.3]]), 0.9)
    assert float(index[0, 2]) == pytest.approx(0.3)


def test_in_jax_it_works_compiled():
    P, r = jnp.full((2, 3, 3), 1 / 3), jnp.arange(6.0).reshape(2, 3)
    compiled = jax.jit(gittins_index_jax, static_argnums=2)(P, r, 0.9)
    np.testing.assert_allclose(compiled, gittins_index(P, r, 0.9), atol=1e-5)
