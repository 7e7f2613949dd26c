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
