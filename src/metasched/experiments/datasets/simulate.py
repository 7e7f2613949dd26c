"""Writes simulated files in the ExtremeWeather format, for those without the 82 GB original.

Only the order of the event types is taken from the paper: in each box slot the type follows, image by image, the
transition matrix of its appendix. The weather inside a box is a sketch: each event is a handful of shapes (a low, a
core, a band, a front, a swirl) weighted by type and channel, on a smooth random background with noise. Strength, size,
orientation, hemisphere and surroundings vary so much that one channel distinguishes the types better than chance, but
far from perfectly. Nothing here is an observation, and the file says so.
"""

import io
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.store import Progress
from metasched.errors import ConfigError, StoreError
from metasched.experiments.datasets.extreme_weather import CHANNELS, MAX_GRID, MAX_IMAGES, SLOTS, import_h5py
from metasched.seeds import check_seed
from metasched.tasks import Inputs, Labels

VERSION = 1
"""Changes whenever the same seed would give other numbers."""

TRANSITIONS: NDArray[np.float64] = np.array(
    [
        [0.721, 0.256, 0.020, 0.003],
        [0.052, 0.901, 0.033, 0.014],
        [0.004, 0.037, 0.939, 0.020],
        [0.000, 0.017, 0.454, 0.529],
    ]
)
"""Row c: probabilities of the next event type in a slot after type c (the paper's appendix)."""

FEWEST_BOXES = 5
SMALLEST_GRID = 64
MANTISSA_BITS = 12
TRIES = 40


class Kind(NamedTuple):
    """One event type. Pairs are ranges to draw from; the window reaches from −1 to 1 both ways.

    ``height`` is a fraction of the grid's height and ``aspect`` width over height; ``latitude`` is in degrees from the
    equator, ``warmth`` 0 in mid-latitude air and 1 in tropical. The event's ``radius`` along its axis, times
    ``stretch`` across it, is where the ``swirl`` (m/s) blows fastest; ``jet`` (m/s) is the wind along its band.
    """

    height: tuple[float, float]
    aspect: tuple[float, float]
    latitude: tuple[float, float]
    warmth: float
    radius: float
    stretch: float
    swirl: float
    jet: float


KINDS = (
    Kind((0.05, 0.09), (0.8, 1.3), (5, 32), warmth=0.85, radius=0.50, stretch=0.9, swirl=9, jet=0),
    Kind((0.06, 0.10), (0.8, 1.3), (8, 38), warmth=0.80, radius=0.35, stretch=0.9, swirl=20, jet=0),
    Kind((0.07, 0.12), (0.8, 1.5), (28, 84), warmth=0.20, radius=0.60, stretch=0.6, swirl=15, jet=7),
    Kind((0.06, 0.12), (1.5, 2.5), (22, 60), warmth=0.35, radius=0.60, stretch=0.5, swirl=3, jet=17),
)


# Mean in mid-latitudes, mean in the tropics, spread between events, noise. PRECT is the decimal logarithm of m/s until
# it is written; pressures in Pa, moisture in kg/kg (QREFHT) and kg/m² (TMQ), temperatures in K, winds in m/s, heights
# in m.
CLIMATE = {
    "PRECT": (-7.9, -7.7, 0.5, 0.25),
    "PS": (100500, 101000, 700, 60),
    "PSL": (101000, 101100, 500, 40),
    "QREFHT": (8e-3, 1.6e-2, 2.5e-3, 4e-4),
    "T200": (217, 220, 2.5, 0.3),
    "T500": (256, 266, 4, 0.3),
    "TMQ": (20, 42, 8, 1.2),
    "TREFHT": (286, 298, 4, 0.4),
    "TS": (287, 299, 4, 0.3),
    "U850": (8, -4, 6, 1.2),
    "UBOT": (5, -4, 5, 1.2),
    "V850": (0, 0, 6, 1.2),
    "VBOT": (0, 0, 5, 1.2),
    "Z100": (16250, 16500, 110, 10),
    "Z200": (11850, 12300, 110, 10),
    "ZBOT": (63, 66, 1.5, 0.3),
}

# What each type of event adds: amplitudes of (low, core, band, front). The winds come from swirl and jet instead.
NONE = (0.0, 0.0, 0.0, 0.0)
PRESSURE = ((-500, 0, 0, 0), (-900, -1800, 0, 0), (-2000, 0, 0, 0), (-300, 0, 0, -300))
MARKS: dict[str, tuple[tuple[float, ...], ...]] = {
    "PRECT": ((0.3, 0.8, 0, 0), (0.5, 1.2, 0, 0), (0.4, 0, 0.8, 0), (0, 0, 1.1, 0)),
    "PS": PRESSURE,
    "PSL": PRESSURE,
    "QREFHT": ((1e-3, 0, 0, 0), (1e-3, 1e-3, 0, 0), (0, 0, 1e-3, -2e-3), (0, 0, 3e-3, -1e-3)),
    "T200": ((0, 0.8, 0, 0), (0.5, 3, 0, 0), (3, 0, 0, 0.5), (0, 0, 0, -1)),
    "T500": ((0, 1, 0, 0), (0.5, 4, 0, 0), (-4, 0, 0, -2), (0, 0, 2, -2)),
    "TMQ": ((6, 2, 0, 0), (8, 6, 0, 0), (0, 0, 7, -4), (0, 0, 15, -3)),
    "TREFHT": ((-0.5, 0, 0, 0), (0, -1, 0, 0), (0, 0, 0, -4), (0, 0, 1, -2)),
    "TS": (NONE, (0, -1.5, 0, 0), (0, 0, 0, -3), (0, 0, 0, -2)),
    "Z100": ((15, 0, 0, 0), (30, 40, 0, 0), (-110, 0, 0, -40), (0, 0, 0, -70)),
    "Z200": ((15, 0, 0, 0), (20, 60, 0, 0), (-180, 0, 0, -60), (0, 0, 0, -90)),
    "ZBOT": (NONE, (0, 0.8, 0, 0), (-0.4, 0, 0, -0.7), (0, 0, 0.5, -0.3)),
}
NEAR_SURFACE = 0.7
"""Strength of the winds UBOT and VBOT against those at 850 hPa."""


def simulate_weather(
    path: Path | str,
    *,
    images: int = 600,
    height: int = 192,
    width: int = 288,
    seed: int = 0,
    max_boxes: int = SLOTS,
    progress: Progress | None = None,
) -> None:
    """Write ``images`` simulated images of 5 … ``max_boxes`` events on a ``height`` × ``width`` grid to ``path``.

    Only the windows of the events are written. The rest reads as 0 and takes no space. The file gets its name when it
    is complete. ``progress`` is called with (images so far, images in all).
    """
    path = Path(path)
    _check_options(path, images, height, width, seed, max_boxes)
    h5py = import_h5py()
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    boxes = draw_boxes(images, height, width, seed, max_boxes)
    try:
        with _Disk(partial, "x+") as disk:
            with h5py.File(disk, "w") as file:
                file.attrs.update(
                    simulated=True,
                    description="Simulated events in the layout of ExtremeWeather; not observations",
                    generator=f"metasched simulate-weather, version {VERSION}",
                    seed=seed,
                )
                file["boxes"] = boxes
                edge = min(max(height // 12, 16), 32)
                fields = file.create_dataset(
                    "images",
                    (images, len(CHANNELS), height, width),
                    np.float32,
                    chunks=(1, 4, edge, edge),
                    compression="gzip",
                    compression_opts=1,
                    shuffle=True,
                )
                for image in range(images):
                    _write_image(fields, image, boxes[image], np.random.default_rng([seed, 1, image]))
                    disk.check()
                    if progress is not None:
                        progress(image + 1, images)
            disk.check()
            os.fsync(disk)
        partial.replace(path)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot write ({error.strerror or error}); no file was made: free some space or use another folder"
        ) from None
    finally:
        partial.unlink(missing_ok=True)


class _Disk(io.FileIO):
    """A file that accepts every write of HDF5. It drops what it cannot store, and keeps the error for :meth:`check`.

    HDF5 does not survive a failed write: it leaves half-closed objects behind, and the process crashes when Python
    collects them.
    """

    fault: OSError | None = None

    def write(self, data: Any, /) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.fault = error
        return size

    def truncate(self, size: int | None = None, /) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.fault = error
            return size or 0

    def check(self) -> None:
        """Raise the error, if there was one."""
        if self.fault is not None:
            raise self.fault


def event_chain(length: int, random: np.random.Generator) -> Labels:
    """Event types (length,) of one slot: a Markov chain of :data:`TRANSITIONS`, in equilibrium from the start."""
    types = np.empty(length, np.int32)
    ladders = np.cumsum(TRANSITIONS, axis=1)[:, :-1]
    ladder = np.cumsum(stationary(TRANSITIONS))[:-1]
    for step, draw in enumerate(random.random(length)):
        types[step] = np.searchsorted(ladder, draw, side="right")
        ladder = ladders[types[step]]
    return types


def stationary(transitions: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution π (C,) with π P = π."""
    size = len(transitions)
    equations = np.vstack([transitions.T - np.eye(size), np.ones(size)])
    solution: NDArray[np.float64] = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return solution


def draw_boxes(images: int, height: int, width: int, seed: int, max_boxes: int) -> NDArray[np.int32]:
    """The table (images, 15, 5) of ymin, xmin, ymax, xmax and type; unused rows are −1.

    Image n fills its first 5 … ``max_boxes`` slots. The chain of a slot only moves with images that fill it.
    """
    random = np.random.default_rng([seed, 0])
    filled = random.integers(FEWEST_BOXES, max_boxes + 1, images)
    table = np.full((images, SLOTS, 5), -1, np.int32)
    for slot in range(max_boxes):
        present = np.flatnonzero(filled > slot)
        table[present, slot, 4] = event_chain(len(present), random)
    for image in range(images):
        for slot in range(filled[image]):
            table[image, slot, :4] = _place(KINDS[table[image, slot, 4]], table[image, :slot], height, width, random)
    return table


def _place(
    kind: Kind, others: NDArray[np.int32], height: int, width: int, random: np.random.Generator
) -> tuple[int, int, int, int]:
    """A box of this kind, apart from the others unless the image is too full to find a place."""
    box = (0, 0, 0, 0)
    for _ in range(TRIES):
        tall = max(round(random.uniform(*kind.height) * height), 3)
        wide = min(max(round(tall * random.uniform(*kind.aspect)), 3), width // 2)
        latitude = random.uniform(*kind.latitude) * random.choice([-1, 1])
        top = round((latitude + 90) / 180 * height - tall / 2)
        left = int(random.integers(width))
        box = (top, left, top + tall, left + wide)
        gap = (others[:, 1] - left) % width
        beside = (gap >= wide) & (gap + others[:, 3] - others[:, 1] <= width)
        if np.all(beside | (others[:, 0] >= box[2]) | (others[:, 2] <= box[0])):
            break
    return box


def _write_image(fields: Any, image: int, boxes: NDArray[np.int32], random: np.random.Generator) -> None:
    """Write the window of every box, cut at the poles and continued past the date line."""
    _, _, height, width = fields.shape
    for top, left, bottom, right, label in boxes[boxes[:, 4] >= 0].tolist():
        south = top + bottom < height
        window = event_window(label, bottom - top, right - left, -1 if south else 1, random)
        window = round_mantissa(window[:, max(-top, 0) : min(bottom, height) - top])
        rows = slice(max(top, 0), min(bottom, height))
        seam = min(right, width) - left
        fields[image, :, rows, left : left + seam] = window[:, :, :seam]
        if right > width:
            fields[image, :, rows, : right - width] = window[:, :, seam:]


def event_window(label: int, height: int, width: int, hemisphere: int, random: np.random.Generator) -> Inputs:
    """One event in all channels, (16, height, width): weights (16, shapes) times shapes (shapes, height · width).

    Row 0 is the southernmost. ``hemisphere`` is 1 in the north, −1 in the south, where everything is mirrored.
    """
    kind = KINDS[label]
    strength = float(random.lognormal(0, 0.4))
    radius = kind.radius * float(random.lognormal(0, 0.25))
    tilt = math.radians(random.uniform(15, 65))
    shift_x, shift_y = random.normal(0, 0.15, 2)

    y, x = np.meshgrid(_axis(height) * hemisphere - shift_y, _axis(width) - shift_x, indexing="ij")
    along = x * math.cos(tilt) + y * math.sin(tilt)
    across = (y * math.cos(tilt) - x * math.sin(tilt)) / kind.stretch
    distance = (along**2 + across**2) / radius**2
    swirl = np.exp((1 - distance) / 2)
    band = np.exp(-0.5 * (across / 0.55) ** 2)
    waves = [np.cos(x * a + y * b + phase) for a, b, phase in random.normal(0, (2.5, 2.5, 3.0), (4, 3))]
    shapes = np.stack(
        [
            *(np.ones_like(x), y, *waves),
            *(np.exp(-distance / 2), np.exp(-2 * distance), band, np.tanh(across)),
            *(-y / radius * swirl, x / radius * swirl),
        ]
    ).astype(np.float32)

    middle, tropical, spread, noise = np.array([CLIMATE[name] for name in CHANNELS]).T
    marks = strength * np.array([MARKS[name][label] if name in MARKS else NONE for name in CHANNELS])
    winds = np.zeros((len(CHANNELS), 2))
    warmth = kind.warmth + float(random.normal(0, 0.3))
    for level, share in (("850", 1.0), ("BOT", NEAR_SURFACE)):
        eastward, northward = CHANNELS.index(f"U{level}"), CHANNELS.index(f"V{level}")
        marks[eastward, 2] = strength * share * kind.jet * math.cos(tilt)
        marks[northward, 2] = strength * share * kind.jet * math.sin(tilt)
        winds[eastward, 0] = winds[northward, 1] = strength * share * kind.swirl
    weights = np.column_stack(
        [
            middle + warmth * (tropical - middle) + random.normal(0, 0.7 * spread),
            0.15 * (middle - tropical),
            *(spread * random.normal(0, 0.4, (len(waves), len(CHANNELS)))),
            marks,
            winds,
        ]
    )
    window = np.einsum("cs,shw->chw", weights.astype(np.float32), shapes)
    window += noise.astype(np.float32)[:, None, None] * random.standard_normal(window.shape, np.float32)
    for name in ("V850", "VBOT"):  # mirroring the south reverses every northward wind
        window[CHANNELS.index(name)] *= hemisphere
    for name, least in (("QREFHT", 1e-4), ("TMQ", 0.5)):
        np.maximum(window[CHANNELS.index(name)], least, out=window[CHANNELS.index(name)])
    rain = window[CHANNELS.index("PRECT")]
    np.power(10, np.minimum(rain, -4.5), out=rain)
    return np.ascontiguousarray(window, np.float32)


def round_mantissa(values: Inputs, bits: int = MANTISSA_BITS) -> Inputs:
    """Values rounded to ``bits`` bits of mantissa, half away from zero: a relative error of at most 2^−(bits+1).

    The zeros left behind are what gzip then saves.
    """
    dropped = 23 - bits
    whole = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (whole + np.uint32(1 << (dropped - 1))) & np.uint32((0xFFFFFFFF << dropped) & 0xFFFFFFFF)
    return rounded.view(np.float32)


def _axis(points: int) -> NDArray[np.float64]:
    """Centres of ``points`` equal cells of [−1, 1]."""
    return (np.arange(points) + 0.5) * 2 / points - 1


def _check_options(path: Path, images: int, height: int, width: int, seed: int, max_boxes: int) -> None:
    if path.exists():
        raise ConfigError(f"{path} exists and is not overwritten; remove it or give another name")
    if not 3 <= images <= MAX_IMAGES:
        raise ConfigError(f"images is {images}; give 3 … {MAX_IMAGES:,}: one each for training, validation and test")
    if min(height, width) < SMALLEST_GRID or height * width > MAX_GRID:
        raise ConfigError(f"the grid is {height} × {width}; give {SMALLEST_GRID} or more each way, {MAX_GRID:,} in all")
    if not FEWEST_BOXES <= max_boxes <= SLOTS:
        raise ConfigError(f"max_boxes is {max_boxes}; the format holds {FEWEST_BOXES} … {SLOTS} boxes an image")
    check_seed(seed)
