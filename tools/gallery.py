"""Draw the figures of the pages that are outputs of commands, from ``results/`` and from a small set that is made here.

python tools/gallery.py    # some minutes: one of the commands trains
"""

import shlex
import shutil
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import metasched as ms
from metasched.cli import main as metasched

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
MADE = {
    "metasched report results --only contrasts --out page.html": {"contrasts": "page_files/contrasts.svg"},
    "metasched report results --only fig3 --out page.html": {"fig3": "page_files/fig3.svg"},
    "metasched diagnose sensors.npz --permutations 1000 --steps 0 --quiet --out transitions.svg": {
        "transitions": "transitions.svg"
    },
    "metasched compare sensors.npz --seeds 7 --quiet --out runs/sensors": {
        "compare": "runs/sensors/page_files/runs.svg",
        "schedules": "runs/sensors/page_files/schedules.svg",
    },
}
"""The commands, and the files that each leaves, by the name of the figure."""


def sensors() -> ms.TaskSet:
    """Four sensors that teach a fifth: one measures as the target does, two are turned, and one has wrong labels."""
    random = np.random.default_rng(0)

    def sensor(count: int, turn: float, wrong: int = 0) -> tuple[np.ndarray, np.ndarray]:
        weather = random.integers(0, 3, count), random.integers(1, 6, count)
        labels = np.repeat(*weather)[:count]  # weather lasts one to five rows
        angles = 2 * np.pi * labels / 3 + turn
        inputs = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return inputs + 0.6 * random.normal(size=(count, 2)), (labels + wrong) % 3

    return ms.TaskSet.from_arrays(
        {
            "same": sensor(300, turn=0),
            "turned": sensor(300, turn=1),
            "away": sensor(300, turn=2),
            "wrong": sensor(300, turn=0, wrong=1),
        },
        validation=sensor(15, turn=0),
        test=sensor(500, turn=0),
        classes=["calm", "wind", "storm"],
    )


def draw() -> None:
    """Run every command, and keep the figures."""
    with TemporaryDirectory() as folder, chdir(folder):
        Path("results").symlink_to(ROOT / "results")
        ms.datasets.save_npz(sensors(), "sensors.npz")
        for command, files in MADE.items():
            metasched(shlex.split(command)[1:])
            for name, file in files.items():
                shutil.copyfile(file, FIGURES / f"gallery-{name}.svg")


if __name__ == "__main__":
    draw()
