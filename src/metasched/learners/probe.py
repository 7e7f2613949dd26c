"""The reward of each label of each task with the initial model, and the plan that follows from these rewards.

The paper's reward of label c of task i is the validation accuracy after fitting the first row of that label from the
initial model.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from metasched.datasets import SetLike, as_tasks
from metasched.errors import ConfigError
from metasched.learners.losses import Rows, objective_of, row_scores, task_loss
from metasched.learners.meta import seed_keys
from metasched.learners.networks import Network, Weights, default_network
from metasched.learners.renamed import clear_arguments
from metasched.learners.settings import LearnerSettings, settings_of
from metasched.learners.stream import device_data
from metasched.planning.plan import Plan, Probe, make
from metasched.seeds import check_seed
from metasched.tasks import TaskSet

Loss = Callable[[Weights, jax.Array, jax.Array, jax.Array], jax.Array]
"""``loss(weights, inputs (n, *shape), labels (n,), task) -> scalar``, differentiable with respect to the weights."""
Hits = Callable[[Weights], jax.Array]
"""``hits(weights) -> bool (v,)``: which validation rows the model predicts correctly."""

PROBES_AT_ONCE = 16


def first_rows(tasks: TaskSet) -> NDArray[np.int64]:
    """The row number (N, C) of the first row of each label in each task; −1 if the label never occurs."""
    rows = np.full((len(tasks.tasks), max(len(task.classes) for task in tasks.tasks)), -1, np.int64)
    for number, task in enumerate(tasks.tasks):
        present, first = np.unique(task.labels, return_index=True)
        rows[number, present] = first
    return rows


class InitialModel(NamedTuple):
    """The model before any training: the loss of a batch, correct validation rows, and initial weights by seed."""

    loss: Loss
    hits: Hits
    start: Callable[[int], Weights]


def prober(model: InitialModel, steps: int, tasks: TaskSet) -> Callable[[Weights, float], Probe]:
    """Make ``probe(weights, rate)``, which fits the first row of every label of every task, each time from these
    weights.

    A fit is ``steps`` SGD steps (R) with ``rate`` on this single row. C is the largest number of labels of a task, C'
    that of the target. All fits are one compiled call, which is compiled once for any weights and rates.
    """
    rows = first_rows(tasks)
    numbers, classes = (found.tolist() for found in np.nonzero(rows >= 0))
    chosen = [tasks.tasks[task].inputs[rows[task, label]] for task, label in zip(numbers, classes, strict=True)]
    cases = (jnp.asarray(np.stack(chosen)), jnp.asarray(classes, jnp.int32), jnp.asarray(numbers, jnp.int32))

    @jax.jit
    def right_after(weights: Weights, rate: Any, cases: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        def fit(case: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
            row, label, task = case

            def step(weights: Weights, _: None) -> tuple[Weights, None]:
                gradient = jax.grad(model.loss)(weights, row[None], label[None], task)
                return jax.tree.map(lambda w, g: w - rate * g, weights, gradient), None

            return model.hits(lax.scan(step, weights, None, length=steps)[0])

        found: jax.Array = lax.map(fit, cases, batch_size=PROBES_AT_ONCE)
        return found

    def probe(weights: Weights, rate: float) -> Probe:
        right = np.asarray(right_after(weights, jnp.float32(rate), cases))
        accuracy = np.zeros(rows.shape)
        accuracy[numbers, classes] = right.mean(axis=1)
        by_class = np.zeros((*rows.shape, len(tasks.classes)))
        by_class[numbers, classes] = right_by_class(right, tasks, right.mean(axis=1)[:, None])
        return Probe(accuracy, by_class, rows >= 0)

    return probe


def right_by_class(
    right: NDArray[np.bool_], tasks: TaskSet, fallback: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """The share of correct validation rows (m, C') in each class, from (m, v). ``fallback`` is for a class without
    rows.
    """
    member = tasks.validation.labels[:, None] == np.arange(len(tasks.classes))
    counts = member.sum(axis=0)
    return np.where(counts > 0, right.astype(np.float64) @ member / np.maximum(counts, 1), fallback)


def initial_model(tasks: TaskSet, network: Network | str, settings: LearnerSettings) -> InitialModel:
    """The initial model as the functions that a prober needs.

    In regression they raise an error when called, because no prediction of a number is simply correct.
    """
    if tasks.target_size is not None:
        return InitialModel(_no_labels, _no_labels, _no_labels)
    objective = objective_of(tasks, default_network(tasks, network, settings.heads == "shared"), settings)
    data = device_data(tasks, settings)

    def batch_loss(weights: Weights, inputs: jax.Array, labels: jax.Array, task: jax.Array) -> jax.Array:
        return task_loss(objective, weights, None, Rows(inputs, labels), objective.heads.of_task(jnp.asarray(task)))

    def validation_hits(weights: Weights) -> jax.Array:
        return row_scores(objective, weights, data.validation) > 0

    def start(seed: int) -> Weights:
        return objective.network.init(seed_keys(seed)[0], data.validation.inputs[:1])

    return InitialModel(batch_loss, validation_hits, start)


def _no_labels(*_: Any) -> NoReturn:
    raise ConfigError(
        "a plan needs labels, and these tasks have numbers to predict; "
        "use a scheduler that learns while training (gittins and mdp with refresh of 1 or more, ucb, …)"
    )


@clear_arguments
def plan(
    tasks: SetLike,
    network: Network | str = "auto",
    learner: LearnerSettings | str = "joint",
    *,
    discount: float = 0.99,
    stride: Literal["batch", "row"] = "batch",
    smoothing: float = 0.0,
    rewards: Literal["auto", "coupled", "separable"] = "auto",
    method: str = "auto",
    seed: int = 0,
) -> Plan:
    """Probe the initial model, and compute from which task to draw in which state.

    Args:
        tasks: the sources and the target, or the name or path of a data set that needs no options.
        network: a :class:`Network`, or ``"auto"``, ``"mlp"``, ``"cnn"``.
        learner: the learner whose settings give the batch size, and the rate and steps of the SGD that probes the
            model: with Algorithm 1 its ``inner_rate`` and ``steps_per_batch``, otherwise 0.01 and 1.
        discount: γ in [0, 1).
        stride: ``"batch"`` uses P^B, the chain of batch starts; ``"row"`` uses P, as the paper writes it.
        smoothing: pseudo-counts in each row of P.
        rewards: the rewards of the joint problem. ``"auto"`` is coupled if tasks and target share their labels.
            Otherwise it is separable, because no label of one task is then a class of another.
        method: the method for the joint problem; see :func:`metasched.planning.solve_joint`.
        seed: the seed of the initial weights, as in :func:`metasched.train`.

    Returns:
        The plan. Its expensive parts are computed when they are first used.

    Examples:
        >>> plan = ms.plan(tasks, learner=ms.Joint(batch_size=10))
        >>> plan.policy.action([0, 1]) in (0, 1)
        True
    """
    check_seed(seed)
    tasks = as_tasks(tasks)
    settings = settings_of(learner).resolve(tasks)
    options = {"discount": discount, "stride": stride, "smoothing": smoothing, "rewards": rewards, "method": method}
    return planner(tasks, network, settings, **options)(seed, settings.probe_rate)


def planner(
    tasks: TaskSet, network: Network | str, settings: LearnerSettings, **options: Any
) -> Callable[[int, float], Plan]:
    """Make plans from the seed of the initial weights and the rate of the probes. What plans share is computed once.

    ``settings`` are resolved, and ``options`` are those of :func:`plan`.
    """
    model = initial_model(tasks, network, settings)
    probing = prober(model, settings.inner_steps, tasks)

    def probe(seed: int, rate: float) -> Probe:
        return probing(model.start(seed), rate)

    # Probes differ by seed and rate; transition matrices, discount and method are the same for all.
    first = partial(probe, 0, settings.probe_rate)
    template = make(tasks, first, batch_size=settings.rows_per_choice, cursor=settings.cursor, **options)
    return lambda seed, rate: replace(template, measure=partial(probe, seed, rate))
