"""Digits: five windows of Semeion and Optical Recognition teach MNIST."""

from metasched.experiments.definition import Cell, Experiment, few_label_cells, robust_cells
from metasched.learners.settings import AlgorithmOne

FEW = AlgorithmOne(batches_per_update=35, updates=60, eval_every=2, target_batch="all")
"""35 batches in every meta-update, one step on each; an outer step takes all of the few target labels."""
PER_BATCH = AlgorithmOne(batches_per_update=1, steps_per_batch=100, updates=60, eval_every=1, reward_rows=200)
"""One batch in every meta-update, a hundred steps on it: the reading that fits the sample counts of the paper."""

DIGITS = Experiment(
    name="digits",
    title="Digits: Semeion and Optical Recognition teach MNIST",
    dataset="digits",
    network="mlp",
    tuned_in="few-label-30",
    cells=(
        *(
            Cell(f"paper-B{size}", "paper", f"B={size}", config, 0.8)
            for size, config in (
                (1, AlgorithmOne(**{**vars(PER_BATCH), "batch_size": 1, "updates": 150, "eval_every": 3})),
                (20, PER_BATCH),
                (100, AlgorithmOne(**{**vars(PER_BATCH), "batch_size": 100})),
            )
        ),
        *few_label_cells(FEW, {10: 0.4, 30: 0.55, 100: 0.7}),
        *robust_cells(FEW, 0.55, num_tasks=5),
    ),
)
