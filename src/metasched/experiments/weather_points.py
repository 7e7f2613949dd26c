"""Weather points: real ClimateNet rows of five regions teach the event types of a sixth."""

from dataclasses import replace

from metasched.experiments.definition import Cell, Experiment, few_label_cells, robust_cells
from metasched.learners.settings import AlgorithmOne

FEW = AlgorithmOne(
    target_batch="all",
    batch_size=20,
    batches_per_update=20,
    updates=60,
    eval_every=2,
    balanced_loss=True,
    balanced_accuracy=True,
)
"""Most source rows are background, so losses and accuracies are balanced over the classes."""
PER_BATCH = replace(FEW, target_batch="uniform", batches_per_update=1, steps_per_batch=100, reward_rows=200)

WEATHER_POINTS = Experiment(
    name="weather-points",
    title="Weather points: five regions teach a sixth (ClimateNet)",
    dataset="weather-points",
    network="mlp",
    tuned_in="few-label-30",
    cells=(
        Cell("paper", "paper", "all labels", PER_BATCH, 0.7),
        *few_label_cells(FEW, {10: 0.5, 30: 0.6, 100: 0.7}),
        *robust_cells(FEW, 0.6, num_tasks=5),
    ),
)
