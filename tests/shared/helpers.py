import jax
import jax.numpy as jnp
import numpy as np

import metasched as ms


def make_tasks(sizes=(12, 20, 9), classes=3, shape=(4,), validation=10, test=30, seed=0, **options):
    """Tasks with separable classes: class c lies around the c-th corner."""
    random = np.random.default_rng(seed)

    def rows(count):
        labels = random.integers(0, classes, count)
        centres = np.eye(classes, int(np.prod(shape)))[labels] * 2
        return (centres + 0.5 * random.normal(size=centres.shape)).reshape(count, *shape), labels

    return ms.TaskSet.from_arrays(
        {f"task-{number}": rows(size) for number, size in enumerate(sizes)},
        validation=rows(validation),
        test=rows(test),
        classes=[f"c{label}" for label in range(classes)],
        **options,
    )


def make_regression(sizes=(30, 25, 40), numbers=2, validation=12, test=30, seed=0, **options):
    """Tasks whose targets are linear in their inputs, each task a little apart."""
    random = np.random.default_rng(seed)
    slopes = random.normal(size=(4, numbers))

    def rows(count, shift=0.0):
        inputs = random.normal(size=(count, 4))
        return inputs, inputs @ slopes + shift

    return ms.TaskSet.regression(
        {f"task-{number}": rows(size, number) for number, size in enumerate(sizes)},
        validation=rows(validation),
        test=rows(test),
        **options,
    )


def made(name, num_tasks, **options):
    """A scheduler by name, with the plan it may need for tasks of eight rows and two labels."""
    plan = None
    if ms.schedulers.needs_plan(name):
        random = np.random.default_rng(0)
        rows = {f"task-{number}": (random.normal(size=(8, 2)), np.arange(8) // 3 % 2) for number in range(num_tasks)}
        target = [(random.normal(size=(4, 2)), [0, 1, 0, 1]) for _ in range(2)]
        tasks = ms.TaskSet.from_arrays(rows, validation=target[0], test=target[1])
        plan = ms.plan(tasks, learner=ms.Joint(batch_size=1), method="myopic")
    return ms.schedulers.make(name, num_tasks=num_tasks, plan=plan, **options)


def make_own_label_tasks():
    """Two tasks and a target with four, two and three classes of their own, easily told apart."""
    random = np.random.default_rng(0)

    def rows(count, classes):
        labels = random.integers(0, classes, count)
        return np.eye(4)[labels] + 0.1 * random.normal(size=(count, 4)), labels

    return ms.TaskSet.from_arrays(
        {"a": rows(40, 4), "b": rows(40, 2)},
        validation=rows(30, 3),
        test=rows(100, 3),
        classes={"a": "pqrs", "b": "tu", "target": "xyz"},
    )


def make_line(update, seed=0, **more):
    """A line of metrics, of two tasks."""
    numbers = {"samples": 4 * update, "drawn": [4 * update, 0], "abstained": 0, "tasks": [0, 1]}
    rates = {"loss": 0.5, "validation_accuracy": 0.5, "inner_rate": 0.1}
    return {"seed": seed, "update": update, **numbers, **rates, **more}


def as_float64(tree):
    """Every float32 array of a pytree in float64."""
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64)) if x.dtype == np.float32 else x, tree)


class Stop(BaseException):
    """As abrupt as a kill: nothing of ours catches it."""


def stop_after(count):
    """What to call with every record so that the run stops at record number ``count``."""
    seen = []

    def on_record(record):
        seen.append(record)
        if len(seen) == count:
            raise Stop

    return on_record


def nearest_mean(task, test):
    """Share of test rows that lie nearest to the task's mean of their own class."""
    sources, rows = task.inputs.reshape(len(task), -1), test.inputs.reshape(len(test.labels), -1)
    means = np.stack([sources[task.labels == label].mean(axis=0) for label in range(len(task.classes))])
    return np.mean(np.argmin((means**2).sum(axis=1) - 2 * rows @ means.T, axis=1) == test.labels)
