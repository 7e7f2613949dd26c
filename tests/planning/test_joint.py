"""solve_joint against other solvers, against theory, and against bad input."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.planning import coupled_rewards, evaluate_policy, gittins_index, solve_joint
from metasched.planning.policy import joint_states

METHODS = ["numpy", "jax", "lp", "frozen-gittins", "rollout", "top-k", "myopic"]


def problem(tasks, classes, seed, concentration=1.0):
    random = np.random.default_rng(seed)
    Ps = random.dirichlet(np.full(classes, concentration), (tasks, classes))
    return Ps, random.uniform(size=(tasks, classes, classes))


def table_of(A):
    return coupled_rewards(A).table(tuple(range(len(A))), np.zeros(len(A), np.int64))


class TestAgainstOthers:
    """Values to 1e-7, whoever computes them."""

    @pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
    @pytest.mark.parametrize("shape", [(2, 4), (3, 3)])
    def test_quantecon(self, shape, discount):
        peer = pytest.importorskip("quantecon")
        Ps, A = problem(*shape, seed=1)
        tasks, classes = shape
        Q = np.empty((classes**tasks, tasks, classes**tasks))
        for task in range(tasks):
            Q[:, task] = np.kron(np.kron(np.eye(classes**task), Ps[task]), np.eye(classes ** (tasks - 1 - task)))
        ddp = peer.markov.DiscreteDP(table_of(A).reshape(tasks, -1).T, Q, discount)
        theirs = ddp.solve(method="policy_iteration")
        ours = solve_joint(Ps, coupled_rewards(A), discount, tolerance=1e-10)
        np.testing.assert_allclose(ours.value.ravel(), theirs.v, rtol=0, atol=1e-7)
        np.testing.assert_array_equal(ours.actions.ravel(), theirs.sigma)

    @pytest.mark.parametrize("discount", [0.0, 0.9, 0.99])
    def test_the_linear_program(self, discount):
        Ps, A = problem(3, 4, seed=2)
        ours = solve_joint(Ps, coupled_rewards(A), discount, "numpy", tolerance=1e-10)
        program = solve_joint(Ps, coupled_rewards(A), discount, "lp")
        np.testing.assert_allclose(ours.value, program.value, rtol=0, atol=1e-7)
        np.testing.assert_array_equal(ours.actions, program.actions)
        assert program.residual <= 1e-8

    @pytest.mark.parametrize("discount", [0.0, 0.9, 0.999])
    def test_jax(self, discount):
        jax = pytest.importorskip("jax")
        Ps, A = problem(4, 3, seed=3)
        ours = solve_joint(Ps, coupled_rewards(A), discount, "numpy")
        compiled = solve_joint(Ps, coupled_rewards(A), discount, "jax")
        np.testing.assert_allclose(ours.value, compiled.value, rtol=0, atol=1e-7)
        np.testing.assert_array_equal(ours.actions, compiled.actions)
        assert compiled.value.dtype == np.float64
        assert jax.numpy.ones(1).dtype == np.float32, "the user's precision must stay as it was"

    @pytest.mark.parametrize("discount", [0.9, 0.99])
    def test_one_task_is_its_own_chain(self, discount):
        Ps, _ = problem(1, 5, seed=4)
        r = np.random.default_rng(4).normal(size=(1, 5))
        want = np.linalg.solve(np.eye(5) - discount * Ps[0], r[0])
        np.testing.assert_allclose(solve_joint(Ps, r, discount, tolerance=1e-10).value, want, rtol=0, atol=1e-7)


@pytest.mark.parametrize("discount", [0.9, 0.99])
@pytest.mark.parametrize("ties", [False, True])
def test_gittins_theorem(discount, ties):
    """On separable rewards the optimal policy never draws on a task whose index is not the largest."""
    states = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        tasks, classes = [(3, 4), (4, 4), (3, 6), (5, 3)][seed % 4]
        Ps = random.dirichlet(np.full(classes, 0.5), (tasks, classes))
        r = random.integers(0, 3, (tasks, classes)).astype(float) if ties else random.normal(size=(tasks, classes))
        if ties:
            Ps[1], r[1] = Ps[0], r[0]
        policy = solve_joint(Ps, r, discount, tolerance=1e-11)
        labels = joint_states(tasks, classes)
        index = gittins_index(Ps, r, discount)[np.arange(tasks), labels]
        chosen = index[np.arange(len(labels)), policy.actions.ravel()]
        assert (chosen >= index.max(axis=1) - 1e-7).all()
        states += len(labels)
    assert states > 2000


class TestInvariance:
    """What must not change the answer."""

    @pytest.mark.parametrize("discount", [0.9, 0.99])
    def test_order_of_tasks(self, discount):
        Ps, A = problem(4, 3, seed=5)
        order = [2, 0, 3, 1]
        value = solve_joint(Ps, coupled_rewards(A), discount, tolerance=1e-10).value
        permuted = solve_joint(Ps[order], coupled_rewards(A[order]), discount, tolerance=1e-10).value
        np.testing.assert_allclose(permuted, value.transpose(order), rtol=0, atol=1e-7)

    @pytest.mark.parametrize("discount", [0.9, 0.99])
    def test_names_of_labels(self, discount):
        Ps, A = problem(3, 4, seed=6)
        names = [3, 1, 0, 2]
        value = solve_joint(Ps, coupled_rewards(A), discount, tolerance=1e-10).value
        renamed = np.ix_(range(3), names, names)
        again = solve_joint(Ps[renamed], coupled_rewards(A[renamed]), discount, tolerance=1e-10).value
        np.testing.assert_allclose(again, value[np.ix_(names, names, names)], rtol=0, atol=1e-7)

    def test_form_of_the_rewards(self):
        Ps, A = problem(3, 3, seed=7)
        coupled = solve_joint(Ps, coupled_rewards(A), 0.9).value
        np.testing.assert_allclose(solve_joint(Ps, table_of(A), 0.9).value, coupled, rtol=0, atol=1e-7)
        r = A[:, :, 0]
        same_class = np.repeat(r[:, :, None], 3, axis=2)  # the same on every class: coupling without effect
        separable = solve_joint(Ps, r, 0.9).value
        np.testing.assert_allclose(solve_joint(Ps, coupled_rewards(same_class), 0.9).value, separable, atol=1e-7)

    def test_labels_that_never_occur(self):
        Ps, A = problem(3, 3, seed=8)
        padded_Ps, padded_A = np.zeros((3, 4, 4)), np.zeros((3, 4, 4))
        padded_Ps[:, :3, :3], padded_A[:, :3, :3] = Ps, A
        value = solve_joint(Ps, coupled_rewards(A), 0.95, tolerance=1e-10).value
        padded = solve_joint(padded_Ps, coupled_rewards(padded_A), 0.95, tolerance=1e-10)
        np.testing.assert_allclose(padded.value[:3, :3, :3], value, rtol=0, atol=1e-7)

    def test_float32_matrices(self):
        Ps, A = problem(3, 3, seed=9)
        value = solve_joint(Ps, coupled_rewards(A), 0.9).value
        rounded = solve_joint(Ps.astype(np.float32), coupled_rewards(A.astype(np.float32)), 0.9).value
        np.testing.assert_allclose(rounded, value, rtol=1e-5)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.9, 0.99]))
@settings(max_examples=25, deadline=None)
def test_more_reward_is_worth_more(seed, discount):
    Ps, A = problem(3, 3, seed=seed)
    more = A + np.random.default_rng(seed + 1).uniform(size=A.shape)
    less, greater = (solve_joint(Ps, coupled_rewards(a), discount).value for a in (A, more))
    assert (greater >= less - 1e-8 / (1 - discount)).all()
    assert (greater <= less + 1 / (1 - discount) + 1e-6).all()


def test_without_a_future_the_optimum_is_myopic():
    Ps, A = problem(3, 4, seed=10)
    table = table_of(A)
    for discount in (0.0, 1e-9):
        policy = solve_joint(Ps, coupled_rewards(A), discount)
        np.testing.assert_allclose(policy.value, table.max(axis=0), rtol=0, atol=1e-8)
        np.testing.assert_array_equal(policy.actions, table.argmax(axis=0))
        myopic = solve_joint(Ps, coupled_rewards(A), discount, "myopic")
        assert all(policy.action(state) == myopic.action(state) for state in joint_states(3, 4))


class TestReport:
    """What a policy says about itself."""

    def test_the_numbers(self):
        Ps, A = problem(3, 3, seed=11)
        policy = solve_joint(Ps, coupled_rewards(A), 0.9)
        assert policy.value.shape == policy.actions.shape == (3, 3, 3)
        assert policy.residual <= 1e-8
        assert policy.error_bound == pytest.approx(policy.residual / 0.1)
        assert policy.iterations > 0
        assert policy.memory >= 27 * 8 * 4
        assert policy.method == "numpy"
        assert "27 joint states" in policy.reason
        assert policy.action([1, 2, 0]) == policy.action(np.array([1, 2, 0], np.int8)) == policy.actions[1, 2, 0]

    @pytest.mark.parametrize("method", METHODS)
    def test_every_method_acts(self, method):
        Ps, A = problem(3, 3, seed=12)
        policy = solve_joint(Ps, coupled_rewards(A), 0.9, method)
        assert policy.method == method
        assert all(policy.action(state) in range(3) for state in joint_states(3, 3))
        assert (policy.value is None) == (method not in ("numpy", "jax", "lp"))

    def test_many_tasks_are_not_solved_exactly(self):
        Ps, A = problem(40, 5, seed=13)
        policy = solve_joint(Ps, coupled_rewards(A), 0.9)
        assert policy.method == "top-k"
        assert "joint states would take" in policy.reason
        assert policy.action(np.zeros(40, int)) in range(40)
        assert solve_joint(Ps, A[:, :, 0], 0.9).method == "frozen-gittins"

    def test_budgets_decide(self):
        Ps, A = problem(8, 6, seed=14)
        rewards = coupled_rewards(A)
        assert solve_joint(Ps, rewards, 0.9, time_budget=1e-6).method == "top-k"
        assert solve_joint(Ps, rewards, 0.9, time_budget=1e-6, decision_budget=1.3e-3).method == "frozen-gittins"
        assert solve_joint(Ps, rewards, 0.9, time_budget=1e-6, decision_budget=1e-6).method == "myopic"
        assert solve_joint(Ps, rewards, 0.9, memory_limit=1000).method == "top-k"


class TestEvaluation:
    """The value of any policy."""

    def test_of_the_optimum(self):
        Ps, A = problem(3, 3, seed=15)
        policy = solve_joint(Ps, coupled_rewards(A), 0.9, tolerance=1e-11)
        np.testing.assert_allclose(evaluate_policy(Ps, coupled_rewards(A), 0.9, policy), policy.value, atol=1e-8)
        np.testing.assert_allclose(
            evaluate_policy(Ps, coupled_rewards(A), 0.9, policy.actions), policy.value, atol=1e-8
        )

    def test_of_one_task_for_ever(self):
        Ps, A = problem(2, 3, seed=16)
        r = A[:, :, 0]
        want = np.linalg.solve(np.eye(3) - 0.9 * Ps[1], r[1])
        value = evaluate_policy(Ps, r, 0.9, np.ones((3, 3), int))
        np.testing.assert_allclose(value, np.tile(want, (3, 1)), atol=1e-8)

    @pytest.mark.parametrize(
        ("actions", "says"),
        [
            (np.zeros((3, 4), int), r"policy has shape \(3, 4\)"),
            (np.zeros((3, 3)), "float64"),
            (np.full((3, 3), 2), r"policy\[0, 0\] is 2"),
        ],
    )
    def test_bad_tables_are_refused(self, actions, says):
        Ps, A = problem(2, 3, seed=17)
        with pytest.raises(ValueError, match=says):
            evaluate_policy(Ps, A[:, :, 0], 0.9, actions)


class TestBadInput:
    """Errors are ValueErrors that name the argument and the place."""

    @pytest.mark.parametrize("method", ["auto", *METHODS])
    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda Ps, r: (Ps.__setitem__((1, 0, 2), -0.5), r), r"Ps\[1, 0, 2\] is -0.5"),
            (lambda Ps, r: (Ps.__setitem__((1, 2), [0.4, 0.4, 0.4]), r), r"row Ps\[1, 2\] sums to 1.2"),
            (lambda Ps, r: (Ps.__setitem__((0, 1), [0.4, 0.1, 0.1]), r), r"row Ps\[0, 1\] sums to 0.6"),
            (lambda Ps, r: (Ps, r.__setitem__((1, 2), np.nan)), r"rewards\[1, 2\] is nan"),
        ],
    )
    def test_entries(self, method, change, says):
        Ps, A = problem(2, 3, seed=18)
        r = A[:, :, 0].copy()
        change(Ps, r)
        with pytest.raises(ValueError, match=says):
            solve_joint(Ps, r, 0.9, method)

    @pytest.mark.parametrize("discount", [1, 1.0, 1.5, -0.1, np.nan, None, "high", True])
    def test_discount(self, discount):
        Ps, A = problem(2, 3, seed=19)
        with pytest.raises(ValueError, match="discount is"):
            solve_joint(Ps, A[:, :, 0], discount)

    def test_shapes(self):
        Ps, A = problem(2, 3, seed=20)
        with pytest.raises(ValueError, match=r"rewards have shape \(3, 3\)"):
            solve_joint(Ps, np.zeros((3, 3)), 0.9)
        with pytest.raises(ValueError, match=r"Ps has shape \(3, 3\)"):
            solve_joint(Ps[0], np.zeros(3), 0.9)
        with pytest.raises(ValueError, match=r"Ps has shape \(2, 3, 2\)"):
            solve_joint(Ps[:, :, :2], A[:, :, 0], 0.9)

    @pytest.mark.parametrize(
        "option", ["tolerance", "max_iterations", "memory_limit", "time_budget", "decision_budget", "top"]
    )
    def test_options(self, option):
        Ps, A = problem(2, 3, seed=21)
        for value in (0, -1, np.nan, "much"):
            with pytest.raises(ValueError, match=f"{option} is"):
                solve_joint(Ps, A[:, :, 0], 0.9, **{option: value})

    def test_unknown_method(self):
        Ps, A = problem(2, 3, seed=22)
        with pytest.raises(ValueError, match="unknown method 'nunpy'; did you mean 'numpy'"):
            solve_joint(Ps, A[:, :, 0], 0.9, "nunpy")

    @pytest.mark.parametrize("method", ["numpy", "jax", "lp"])
    def test_what_cannot_fit_is_refused_before_it_starts(self, method):
        Ps, A = problem(30, 10, seed=23)
        with pytest.raises(ValueError, match=r"about 10\^30 joint states: .* bytes, .* are free; use method='top-k'"):
            solve_joint(Ps, coupled_rewards(A), 0.9, method)

    def test_the_refusal_counts_the_bytes(self):
        Ps, A = problem(3, 3, seed=24)
        with pytest.raises(
            ValueError, match=r"27 joint states: an exact solution needs 3,483 bytes .* 100 bytes are free"
        ):
            solve_joint(Ps, coupled_rewards(A), 0.9, "numpy", memory_limit=100)

    @pytest.mark.parametrize(
        ("labels", "says"),
        [([0, 3], r"labels\[1\] is 3"), ([-1, 0], r"labels\[0\] is -1"), ([0], "shape"), ([0.0, 1.0], "float64")],
    )
    @pytest.mark.parametrize("method", ["numpy", "frozen-gittins", "myopic"])
    def test_labels(self, method, labels, says):
        Ps, A = problem(2, 3, seed=25)
        policy = solve_joint(Ps, coupled_rewards(A), 0.9, method)
        with pytest.raises(ValueError, match=says):
            policy.action(labels)


def test_importing_the_planners_is_cheap():
    code = "import sys, metasched.planning; print(*({'scipy.stats', 'scipy.optimize'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == ""
