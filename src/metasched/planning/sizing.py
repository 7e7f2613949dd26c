"""The size of a joint problem, the available memory and time, and the method that follows."""

import math
from pathlib import Path

from metasched.errors import ConfigError
from metasched.planning.bellman import table_bytes

UNKNOWN = 8 * 2**30  # the bytes of memory to assume if the system does not say
DEVICE_STATES = 1_000_000  # with fewer joint states, an accelerator does not pay for compiling
SECONDS_PER_UPDATE = 2e-9  # of one task's value in one state by the NumPy solver
SECONDS_PER_CALL = 8e-6
WIDEST = 4  # tasks of a "top-k" problem


def choose_method(
    shape: tuple[int, int],
    discount: float,
    *,
    separable: bool,
    memory_limit: float | None,
    time_budget: float,
    decision_budget: float,
) -> tuple[str, str]:
    """The method for N tasks of C labels, ``shape`` (N, C), and the reason as a sentence."""
    tasks, classes = shape
    states, need, have = int(classes**tasks), table_bytes(tasks, classes), memory_limit or available_bytes()
    size, seconds = f"{number_in_words(states)} joint states", solve_seconds(shape, discount)
    if states >= DEVICE_STATES and need <= min(have, accelerator_bytes()):
        return "jax", f"{size} fit the accelerator in {bytes_in_words(need)}"
    if need <= have and seconds <= time_budget:
        return "numpy", f"{size} fit in {bytes_in_words(need)} and take about {seconds:.1g} s"
    why = f"{size} would take {f'about {seconds:.1g} s' if need <= have else bytes_in_words(need)}"
    if separable:
        return "frozen-gittins", f"{why}; the rewards are separable, so the Gittins index is optimal"
    width = widest(shape, discount, decision_budget)
    if width >= 2:
        return "top-k", f"{why}; the {width} leading tasks are solved exactly within {decision_budget:g} s a decision"
    if 1e-3 + 2e-8 * classes**3 + 2e-9 * tasks * classes**2 <= decision_budget:
        return "frozen-gittins", f"{why}; no joint problem fits into {decision_budget:g} s a decision"
    return "myopic", f"{why}; no index fits into {decision_budget:g} s a decision"


def widest(shape: tuple[int, int], discount: float, decision_budget: float) -> int:
    """The largest number of tasks, up to ``WIDEST``, whose joint problem fits the budget; at least 1."""
    tasks, classes = shape
    fitting = (k for k in range(min(WIDEST, tasks), 1, -1) if solve_seconds((k, classes), discount) <= decision_budget)
    return next(fitting, 1)


def solve_seconds(shape: tuple[int, int], discount: float) -> float:
    """A rough forecast for the NumPy solver. The sweeps grow with the number of nines of the discount."""
    tasks, classes = shape
    sweeps = 100 + 500 * max(0.0, -math.log10(1 - discount) - 1)
    states = float(min(classes**tasks, 10**100))
    return sweeps * tasks * (SECONDS_PER_CALL + SECONDS_PER_UPDATE * states)


def refuse_if_larger(shape: tuple[int, int], need: float, have: float, what: str, instead: str) -> None:
    """Raise an error, before anything is allocated, if ``need`` bytes are more than ``have``."""
    if need > have:
        tasks, classes = shape
        raise ConfigError(
            f"{tasks} tasks of {classes} labels have {number_in_words(classes**tasks)} joint states: "
            f"{what} needs {bytes_in_words(need)}, {bytes_in_words(have)} are free; {instead}"
        )


def available_bytes() -> int:
    """The bytes that a new program may use: what the system calls available, within the container's limit."""
    found = UNKNOWN
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            found = int(line.split()[1]) * 1024
    limit, used = _read("/sys/fs/cgroup/memory.max").strip(), _read("/sys/fs/cgroup/memory.current").strip()
    if limit.isdigit() and used.isdigit():
        found = min(found, max(0, int(limit) - int(used)))
    return found


def accelerator_bytes() -> int:
    """The free bytes of JAX's default device if that is not the host's processor, otherwise 0."""
    import jax

    if jax.default_backend() == "cpu":
        return 0
    stats = jax.devices()[0].memory_stats() or {}
    return int(stats.get("bytes_limit", 0)) - int(stats.get("bytes_in_use", 0))


def bytes_in_words(count: float) -> str:
    """A number of bytes for a person.

    >>> bytes_in_words(1_500_000_000)
    '1,500,000,000 bytes (1.4 GiB)'
    """
    if count < 1024 or count >= 10**18:
        return f"{number_in_words(count)} bytes"
    step = (int(count).bit_length() - 1) // 10
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")[step]
    return f"{number_in_words(count)} bytes ({count / 1024**step:.3g} {unit})"


def number_in_words(count: float) -> str:
    """A whole number in full if it is readable, otherwise its order of magnitude.

    >>> number_in_words(10**6), number_in_words(3 * 10**400)
    ('1,000,000', 'about 10^400')
    """
    return f"{int(count):,}" if count < 10**18 else f"about 10^{round(math.log10(count))}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
