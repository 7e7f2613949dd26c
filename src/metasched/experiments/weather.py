"""Extreme Weather: five box slots, each seen through five of 16 variables, teach event types seen through one."""

from dataclasses import replace

from metasched.experiments.datasets.weather import TEST_FEATURES
from metasched.experiments.definition import Cell, Experiment, few_label_cells, robust_cells
from metasched.learners.settings import AlgorithmOne

FEW = AlgorithmOne(
    target_batch="all",
    batch_size=20,
    batches_per_update=25,
    updates=30,
    eval_every=2,
    eval_rows=500,
)
PER_BATCH = replace(FEW, target_batch="uniform", batches_per_update=1, steps_per_batch=50, updates=40, reward_rows=200)

WEATHER = Experiment(
    name="weather",
    title="Extreme Weather: five box slots teach event types",
    dataset="weather",
    network="cnn",
    tuned_in="few-label-30",
    cells=(
        *(
            Cell(f"paper-{feature}", "paper", feature, PER_BATCH, 0.6, {"test_feature": feature})
            for feature in TEST_FEATURES
        ),
        *few_label_cells(FEW, {10: 0.4, 30: 0.5, 100: 0.6}, test_feature="U850"),
        *robust_cells(FEW, 0.5, num_tasks=5, test_feature="U850"),
    ),
)
