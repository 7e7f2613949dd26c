"""Gas Sensor Array Drift (Vergara et al. 2012): sensors that age. Eight batches over three years, the last is the
target.

The more the sensors have drifted between two batches, the less one helps the other. So recent sources, and those that
were recorded in a similar way, are worth more.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.store import checksums, listed, locate
from metasched.errors import DataError
from metasched.experiments.datasets.build import Rows, task_set
from metasched.experiments.datasets.channels import standardise_all
from metasched.tasks import Labels, Provenance, TaskSet

FILES = listed(
    "gas",
    "GitHub BrechtDewilde1/BDProject",
    """
    2ff13bf02d2156ee01d948a6d46202a6a95855709176d91728339fa510221861  581027 batch1.dat
    d6790e1d6344db1cdcbbfecd039b88e98897ae8ad0a5d80a1ac530101f9b0dd1 1640067 batch2.dat
    21b8564babf75b8b27ac3e9e03537ed44bc217a066f23dba4524af6f6bac29de 2095686 batch3.dat
    30939c81857e501ce98aab0e606e2a720a42765189bf5e577c1255dd0b844b07  214515 batch4.dat
    3e2e4c791d1c4afa4c2092ad55e3cd7cdcf664f9e03187ddea102ccf547f5db3  263243 batch5.dat
    1d9e32f5e501b0f3e33354b469dd1955ca003614309f3b1e43fb137517ca154b 3013566 batch6.dat
    1c6b15628bce7ab0ba8601d1c49864a78d2b283b05c060344704335324131014  378481 batch8.dat
    8deaa13dadb0098d96f0443989baa0a6ba7243a92e5f61f9ad1349a3a0ff087a  604663 batch9.dat
    """,
)
CLASSES = ("Acetaldehyde", "Acetone", "Ammonia", "Ethanol", "Ethylene", "Toluene")
FEATURES = 128


def load(*, target_labels: int = 6, seed: int = 0) -> TaskSet:
    """Tasks ``batch-1`` to ``batch-6`` and ``batch-8``, rows in file order; inputs (128,), six gases.

    Features are standardised over the rows of all sources together; the concentration is not among them. Batches 7 and
    10 of the original are not in this copy. ``target_labels`` of the 470 rows of batch 9, stratified and drawn from
    ``seed``, are for validation and all others for test. By default there is one row of each gas, because the rows of a
    batch are so alike that with 30 labels the sources have nothing to add: a linear model on these labels alone is
    right for .97 of the rows.
    """
    batches = [parse(locate(file)) for file in FILES]
    rows = {}
    for file, inputs, (_, labels) in zip(
        FILES, standardise_all([values for values, _ in batches]), batches, strict=True
    ):
        number = file.path.removeprefix("gas/batch").removesuffix(".dat")
        origin = Provenance(f"Gas Sensor Array Drift batch {number}", np.arange(len(labels)), checksums(file))
        rows[f"batch-{number}"] = Rows(inputs, labels, origin, CLASSES)
    validation, test = rows.pop("batch-9").divided(target_labels, seed)
    notes = ("within a batch the files list one gas after another, in long runs",)
    return task_set("gas", rows, validation, test, notes=notes, split="drawn")


def parse(path: Path) -> tuple[NDArray[np.float64], Labels]:
    """Features (n, 128) and labels (n,) of a batch. A line has gas, concentration and features, with commas."""
    rows = [line.split(",") for line in path.read_text("ascii", "replace").splitlines()]
    for number, row in enumerate(rows, 1):
        if len(row) != FEATURES + 2 or row[0] not in CLASSES:
            raise DataError(
                f"{path}: line {number} is not one of {', '.join(CLASSES)}, its concentration and {FEATURES} numbers; "
                "replace it with a good copy"
            )
    if not rows:
        raise DataError(f"{path}: holds no rows; replace it with a good copy")
    try:
        values = np.array([row[2:] for row in rows], np.float64)
    except ValueError as error:
        raise DataError(f"{path}: holds something other than numbers ({error}); replace it with a good copy") from None
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        raise DataError(f"{path}: line {bad[0] + 1} holds NaN or infinity; replace it with a good copy")
    return values, np.array([CLASSES.index(row[0]) for row in rows], np.int32)
