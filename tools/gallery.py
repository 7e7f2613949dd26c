"""Draw the figures of docs/gallery.md that no other tool draws, by the code and the commands that it shows.

python tools/gallery.py    # some minutes: one of the commands trains
"""

import re
import shlex
import shutil
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

from metasched.cli import main as metasched

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "gallery.md"
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
"""Commands of the page, and the files that each leaves, by the name of the figure."""


def draw() -> None:
    """Run the page's code, then every command, and keep the figures."""
    with TemporaryDirectory() as folder, chdir(folder):
        Path("results").symlink_to(ROOT / "results")
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
            exec(block, {})
        for command, files in MADE.items():
            metasched(shlex.split(command)[1:])
            for name, file in files.items():
                shutil.copyfile(file, FIGURES / f"gallery-{name}.svg")


if __name__ == "__main__":
    draw()
