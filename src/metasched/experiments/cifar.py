"""Meta-CIFAR-100: four superclasses teach a fifth, whose classes none of them has."""

from dataclasses import replace

from metasched.experiments.definition import Cell, Experiment, few_label_cells, robust_cells
from metasched.learners.settings import AlgorithmOne

FEW = AlgorithmOne(
    target_batch="all",
    batch_size=10,
    batches_per_update=50,
    updates=40,
    eval_every=2,
    eval_rows=500,
)
PER_BATCH = replace(
    FEW,
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
        Cell("paper-own-heads", "paper", "own heads", PER_BATCH, 0.4),
        Cell("paper-shared-head", "paper", "shared head", replace(PER_BATCH, heads="shared"), 0.4),
        *few_label_cells(FEW, {10: 0.25, 30: 0.3, 100: 0.35}),
        *robust_cells(FEW, 0.3, num_tasks=4),
    ),
)
