"""The experiments of the paper, and weather points, a real counterpart of its weather data.

In a *stream* cell an update has many batches, with one step on each. In a *per-batch* cell it has one batch, with many
steps on it. This interpretation of the paper fits its sample counts. With few target labels an outer step uses all of
them.
"""

from dataclasses import replace

from metasched.experiments.datasets.weather import TEST_FEATURES
from metasched.experiments.definition import Cell, Experiment, few_label_cells, robust_cells
from metasched.learners.settings import AlgorithmOne

_DIGITS = AlgorithmOne(batching="per_source", batches_per_update=35, updates=60, eval_every=2, target_batch="all")
_DIGITS_PER_BATCH = AlgorithmOne(
    batching="per_source", batches_per_update=1, steps_per_batch=100, updates=60, eval_every=1, reward_rows=200
)
DIGITS = Experiment(
    name="digits",
    title="Digits: Semeion and Optical Recognition teach MNIST",
    dataset="digits",
    network="mlp",
    tuned_in="few-label-30",
    cells=(
        *(
            Cell(f"paper-B{settings.batch_size}", "paper", f"B={settings.batch_size}", settings, 0.8)
            for settings in (
                replace(_DIGITS_PER_BATCH, batch_size=1, updates=150, eval_every=3),
                _DIGITS_PER_BATCH,
                replace(_DIGITS_PER_BATCH, batch_size=100),
            )
        ),
        *few_label_cells(_DIGITS, {10: 0.4, 30: 0.55, 100: 0.7}),
        *robust_cells(_DIGITS, 0.55, num_tasks=5),
    ),
)

_CIFAR = AlgorithmOne(
    batching="per_source",
    target_batch="all",
    batch_size=10,
    batches_per_update=50,
    updates=40,
    eval_every=2,
    eval_rows=500,
)
_CIFAR_PER_BATCH = replace(
    _CIFAR,
    target_batch="uniform",
    batch_size=20,
    batches_per_update=1,
    steps_per_batch=50,
    updates=80,
    reward_rows=200,
)
CIFAR = Experiment(
    name="cifar",
    title="Meta-CIFAR-100: four superclasses teach large carnivores",
    dataset="cifar",
    network="cnn",
    tuned_in="few-label-30",
    cells=(
        Cell("paper-own-heads", "paper", "own heads", _CIFAR_PER_BATCH, 0.4),
        Cell("paper-shared-head", "paper", "shared head", replace(_CIFAR_PER_BATCH, heads="shared"), 0.4),
        *few_label_cells(_CIFAR, {10: 0.25, 30: 0.3, 100: 0.35}),
        *robust_cells(_CIFAR, 0.3, num_tasks=4),
    ),
)

_WEATHER = AlgorithmOne(
    batching="per_source", target_batch="all", batches_per_update=25, updates=30, eval_every=2, eval_rows=500
)
_WEATHER_PER_BATCH = replace(
    _WEATHER, target_batch="uniform", batches_per_update=1, steps_per_batch=50, updates=40, reward_rows=200
)
WEATHER = Experiment(
    name="weather",
    title="Extreme Weather: five box slots teach event types",
    dataset="weather",
    network="cnn",
    tuned_in="few-label-30",
    cells=(
        *(
            Cell(f"paper-{feature}", "paper", feature, _WEATHER_PER_BATCH, 0.6, {"test_feature": feature})
            for feature in TEST_FEATURES
        ),
        *few_label_cells(_WEATHER, {10: 0.4, 30: 0.5, 100: 0.6}, test_feature="U850"),
        *robust_cells(_WEATHER, 0.5, num_tasks=5, test_feature="U850"),
    ),
)

# Most source rows are background, so losses and accuracies are balanced over the classes.
_POINTS = AlgorithmOne(
    batching="per_source",
    target_batch="all",
    batches_per_update=20,
    updates=60,
    eval_every=2,
    balanced_loss=True,
    balanced_accuracy=True,
)
_POINTS_PER_BATCH = replace(_POINTS, target_batch="uniform", batches_per_update=1, steps_per_batch=100, reward_rows=200)
WEATHER_POINTS = Experiment(
    name="weather-points",
    title="Weather points: five regions teach a sixth (ClimateNet)",
    dataset="weather-points",
    network="mlp",
    tuned_in="few-label-30",
    cells=(
        Cell("paper", "paper", "all labels", _POINTS_PER_BATCH, 0.7),
        *few_label_cells(_POINTS, {10: 0.5, 30: 0.6, 100: 0.7}),
        *robust_cells(_POINTS, 0.6, num_tasks=5),
    ),
)
