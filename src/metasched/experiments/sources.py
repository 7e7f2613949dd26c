"""Task sets whose sources differ, both learners: does choosing pay?

The target's labels are drawn anew for every seed, and rates are tuned on rows of the target that are never reported.
"""

from dataclasses import replace

from metasched.experiments.base import LABELS, Cell, Experiment
from metasched.experiments.methods import ordered_methods, source_methods
from metasched.learners.config import TrainConfig

CONFIG = TrainConfig(
    batch_size=20, batches_per_update=35, meta_updates=30, validation_batch="all", eval_every=2, eval_rows=1000
)
LEARNERS = {"meta": "Algorithm 1", "joint": "joint"}


def _cells(config: TrainConfig, threshold: float, labels: tuple[int, ...] = LABELS) -> tuple[Cell, ...]:
    return tuple(
        Cell(
            f"{learner}-{count}",
            "sources",
            f"{name}, {count} labels",
            config,
            threshold,
            learner=learner,
            draw_labels=count,
        )
        for learner, name in LEARNERS.items()
        for count in labels
    )


def _experiment(
    name: str, title: str, config: TrainConfig = CONFIG, threshold: float = 0.7, labels: tuple[int, ...] = LABELS
) -> Experiment:
    return Experiment(name, title, name, "mlp", "30", _cells(config, threshold, labels), source_methods)


SCRIPTS = _experiment("scripts", "Scripts: digits and letters of twelve collections teach USPS")
ROTATED = _experiment("rotated", "Rotated MNIST: twelve angles teach one between two of them")
MANY = _experiment("many", "Many: twenty digit sources, fifteen of them spoilt, teach MNIST", threshold=0.6)
REVIEWS = _experiment("reviews", "Reviews: fifteen kinds of goods teach books")
GAS = replace(
    _experiment("gas", "Gas sensors: seven batches in time teach the last", threshold=0.8), methods=ordered_methods
)
_ACTIVITY = _experiment(
    "activity", "Activity: 24 people in recorded order teach one", replace(CONFIG, meta_updates=20), labels=(10, 30)
)
ACTIVITY = replace(
    _ACTIVITY,
    methods=ordered_methods,
    cells=(
        *_ACTIVITY.cells,
        *(
            replace(
                cell, name=f"{cell.name}-user-{user}", variant=f"{cell.variant}, user {user}", data={"target": user}
            )
            for user in (29, 13)
            for cell in _ACTIVITY.cells
            if cell.draw_labels == 30
        ),
    ),
)
