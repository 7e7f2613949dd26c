"""Photograph the page of a comparison for docs/report.md, made by the command that stands there.

python tools/screenshots.py              # some minutes: the command trains
python tools/screenshots.py page.html    # a page that was made already; needs chromium on the PATH
"""

import shlex
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from PIL import Image

from metasched.cli import main as metasched

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
COMMAND = "metasched demo --out runs/demo"


class Shot(NamedTuple):
    """A picture of a page: its name, and how large the window is, in pixels of the page."""

    name: str
    width: int
    height: int


SHOTS = (Shot("report", 1040, 745), Shot("report-tall", 400, 1180))
"""For wide screens, and for phones."""
SHARPNESS = 1.5
"""Pixels of the picture for one of the page."""
COLOURS = 256
"""Of a picture; so few make it small."""


def photograph(page: Path, shot: Shot) -> None:
    """The top of a page in light colours, as PNG."""
    file = FIGURES / f"{shot.name}.png"
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=20000",
        f"--force-device-scale-factor={SHARPNESS}",
        f"--window-size={shot.width},{shot.height}",
        f"--screenshot={file}",
    )
    subprocess.run(["chromium", *options, page.resolve().as_uri()], check=True, capture_output=True)
    with Image.open(file) as picture:
        picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


def main(pages: list[str]) -> None:
    """Photograph the page that is given, or make one first."""
    with TemporaryDirectory() as folder:
        if not pages:
            with chdir(folder):
                metasched(shlex.split(COMMAND)[1:])
        for shot in SHOTS:
            photograph(Path(pages[0]) if pages else Path(folder, "runs", "demo", "page.html"), shot)


if __name__ == "__main__":
    main(sys.argv[1:])
