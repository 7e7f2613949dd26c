"""``diagnose``: does order matter, do tasks move together, is the reward stationary, and which scheduler follows?

The recommendation never goes beyond what our own results support (:mod:`~metasched.learners.reference_results`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from metasched.datasets import SetLike, as_tasks
from metasched.dependence import Association, OrderTest, cross_task_association, holm, independence_test
from metasched.learners import reference_results
from metasched.learners.networks import Network, Weights
from metasched.learners.one_thread import one_thread
from metasched.learners.probe import InitialModel, initial_model, right_by_class
from metasched.learners.renamed import clear_arguments
from metasched.learners.settings import LearnerSettings, settings_of
from metasched.seeds import LARGEST, check_seed
from metasched.tasks import TaskSet

OnStep = Callable[[int, int, str], None]

LARGEST_VARIATION = 0.25
"""With a larger coefficient of variation, √t·e(t) is not called constant."""


class Stationarity(NamedTuple):
    """How the validation errors e(t) fall over the first T steps on each task, by class.

    Attributes:
        errors: e (N, T, C'); NaN for a class without validation rows.
        variation: coefficient of variation of √t·e(t) over t, (N, C'): 0 if the scaled reward is stationary.
        exponent: p (N, C') of the least-squares fit e(t) ∝ t^−p; the paper assumes ½.
    """

    errors: NDArray[np.float64]
    variation: NDArray[np.float64]
    exponent: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What :func:`diagnose` found out about a task set.

    Attributes:
        tasks: the task set.
        orders: the order test of each task.
        p_values: their permutation p-values (N,) after Holm's correction over tasks.
        association: the association between tasks at equal positions, or None if their labels mean different things.
        association_p_values: (N, N), after Holm's correction over pairs, or None in the same case.
        stationarity: of the scaled reward, or None if it was not asked for.
        recommendation: a scheduler, one of ``ms.schedulers.names()``.
        reason: the reason, in a sentence.

    Examples:
        >>> evidence = ms.diagnose(tasks, permutations=500, steps=0)
        >>> evidence.recommendation, bool(evidence.p_values.min() > 0.05)
        ('thompson', True)
    """

    tasks: TaskSet
    orders: tuple[OrderTest, ...]
    p_values: NDArray[np.float64]
    association: Association | None
    association_p_values: NDArray[np.float64] | None
    stationarity: Stationarity | None
    recommendation: str
    reason: str


@clear_arguments
def diagnose(
    tasks: SetLike,
    network: Network | str = "auto",
    learner: LearnerSettings | str = "joint",
    *,
    permutations: int = 10_000,
    steps: int = 120,
    alpha: float = 0.05,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> Diagnosis:
    """Test whether order matters: in every task, between tasks, and for the paper's reward.

    Args:
        tasks: the task set, or the name or path of a data set that needs no options.
        network: the network whose reward is followed: a :class:`Network`, ``"auto"``, ``"mlp"`` or ``"cnn"``.
        learner: the learner that the recommendation is for. Its settings give the batch size and the learning rate.
        permutations: the number of shuffles for every p-value.
        steps: inner steps over which the paper's reward is followed; 0 skips this. Skipped in regression.
        alpha: the level of the verdicts, after correction.
        seed: the seed of shuffles and initial weights.
        on_step: called before each step with the number of steps done, the number of all steps, and the next step in
            words.

    Returns:
        The evidence, and the recommended scheduler.

    Examples:
        >>> ms.diagnose(tasks, permutations=500, steps=0).orders[0].verdict().split(" (")[0]
        'no sign that order carries information'
    """
    check_seed(seed)
    tasks, settings = as_tasks(tasks), settings_of(learner)
    say = on_step or (lambda *_: None)
    follow = steps > 0 and tasks.target_size is None
    total = len(tasks.tasks) + follow
    tests = []
    for number, task in enumerate(tasks.tasks):
        say(number, total, f"order of {task.name}")
        own: dict[str, Any] = {"permutations": permutations, "seed": (seed + number) % (LARGEST + 1), "alpha": alpha}
        tests.append(independence_test(task.labels, len(task.classes), **own))
    orders = tuple(tests)
    p_values = holm([order.p_value for order in orders])
    association = corrected = None
    if tasks.shared_labels and len(tasks.tasks) > 1:
        association = cross_task_association([task.labels for task in tasks.tasks], len(tasks.classes))
        pairs = np.tril_indices(len(tasks.tasks), k=-1)
        lower = np.ones_like(association.p_value)
        lower[pairs] = holm(association.p_value[pairs])
        corrected = np.minimum(lower, lower.T)
    followed = None
    if follow:
        say(total - 1, total, f"reward over {steps} steps")
        resolved = settings.resolve(tasks)
        model = initial_model(tasks, network, resolved)
        followed = stationarity(model, model.start(seed), resolved.probe_rate, tasks, steps, resolved.batch_size)
    recommendation, reason = recommend(tasks, orders, p_values, corrected, alpha, settings.name)
    return Diagnosis(tasks, orders, p_values, association, corrected, followed, recommendation, reason)


def recommend(
    tasks: TaskSet,
    orders: tuple[OrderTest, ...],
    p_values: NDArray[np.float64],
    association: NDArray[np.float64] | None,
    alpha: float,
    learner: str,
) -> tuple[str, str]:
    """The scheduler that the evidence on these tasks and our results support, and why."""
    names = [task.name for task in tasks.tasks]
    ordered = [name for name, p, order in zip(names, p_values, orders, strict=True) if p < alpha > order.local_p_value]
    drifting = [name for name, p in zip(names, p_values, strict=True) if p < alpha and name not in ordered]
    usual, why = reference_results.best(learner), reference_results.why(learner)
    if not ordered and not drifting:
        return usual, f"order carries no information here (no task's labels differ from shuffled ones), and {why}"
    if not ordered:
        return usual, (
            f"the order of {_listed(drifting)} is not random, but looks like drift rather than dependence between "
            f"neighbours; rewards follow drift anyway, and {why}"
        )
    found = (
        f"in {len(ordered)} of {len(names)} tasks ({_listed(ordered)}) the label at the cursor predicts the next ones"
    )
    if association is not None:
        linked = [(i, j) for i in range(len(names)) for j in range(i) if association[i, j] < alpha]
        if linked:
            found += f", and tasks move together ({_listed([f'{names[j]} with {names[i]}' for i, j in linked])})"
    scheduler, told = reference_results.with_order(learner)
    return scheduler, f"{found}; {told}"


def _listed(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@one_thread()
def stationarity(
    model: InitialModel, weights: Weights, rate: float, tasks: TaskSet, steps: int, batch_size: int
) -> Stationarity:
    """Train on each task alone from ``weights``, batch after batch, and record the validation error by class.

    The paper's Figure 2 shows √t·e(t) nearly constant over the first 120 steps, and therefore defines the reward r = 1
    − √t·e(t).
    """

    def follow(weights: Weights, batch: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[Weights, jax.Array]:
        gradient = jax.grad(model.loss)(weights, *batch)
        weights = jax.tree.map(lambda w, g: w - rate * g, weights, gradient)
        return weights, model.hits(weights)

    run = jax.jit(lambda batches: lax.scan(follow, weights, batches)[1])
    errors = []
    for number, task in enumerate(tasks.tasks):
        rows = (np.arange(steps)[:, None] * batch_size + np.arange(batch_size)) % len(task)
        batches = jnp.asarray(task.inputs[rows]), jnp.asarray(task.labels[rows]), jnp.full(steps, number, jnp.int32)
        errors.append(1 - right_by_class(np.asarray(run(batches)), tasks, np.nan))
    return summarise_errors(np.stack(errors))


def summarise_errors(errors: NDArray[np.float64]) -> Stationarity:
    """The variation of √t·e(t) and the fitted exponent, for errors e (…, T, C')."""
    time = np.arange(1, errors.shape[-2] + 1)[:, None]
    scaled = np.sqrt(time) * errors
    mean = scaled.mean(axis=-2)
    variation = np.divide(scaled.std(axis=-2), mean, out=np.zeros_like(mean), where=mean != 0)
    # Errors of zero have no logarithm, so fit only the times at which something is still wrong.
    weight = (errors > 0).astype(np.float64)
    x, y = np.log(time) * weight, np.log(np.where(errors > 0, errors, 1.0))
    count = np.maximum(weight.sum(axis=-2, keepdims=True), 1)
    centred = (np.log(time) - x.sum(axis=-2, keepdims=True) / count) * weight
    square = (centred**2).sum(axis=-2)
    exponent = -np.divide((centred * y).sum(axis=-2), square, out=np.full_like(square, np.nan), where=square > 0)
    absent = np.isnan(errors).any(axis=-2)
    return Stationarity(errors, np.where(absent, np.nan, variation), np.where(absent, np.nan, exponent))
