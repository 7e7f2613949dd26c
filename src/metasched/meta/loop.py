"""Algorithm 1 from the first meta-update to the last, for any number of seeds.

Python only decides how many meta-updates the next chunk has, and reads what came of them.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from metasched.meta.outer import MetaState
from metasched.meta.program import CHUNK, Program, prepare, side_by_side, start
from metasched.meta.records import Rates, Record, add_final, records_of

__all__ = ["Program", "Record", "prepare", "run", "run_together", "side_by_side", "spread", "stack", "start"]

CHUNK_SECONDS = 1.0
"""About how long one call should take, so that progress is seen and little is lost."""


Chunk = tuple[Callable[[], dict[int, MetaState]], list[Record]]
"""The states after a chunk, by seed, made when asked for; and one record for each of its meta-updates and seeds."""


def run(program: Program, states: Mapping[int, MetaState], ended: Collection[int] = ()) -> Iterator[Chunk]:
    """All meta-updates that are left to ``states`` (by seed), at most ``together`` seeds at a time.

    The last record of a seed has ``final``. A seed whose loss is no longer finite ends with a record that has
    ``diverged``; the others go on. Seeds that ``ended`` so before stay as they are.
    """
    for group in _groups(program, states):
        yield from run_together(program, group, stack(program, [states[seed] for seed in group]), ended)


def _groups(program: Program, states: Mapping[int, MetaState]) -> Iterator[list[int]]:
    """Neighbouring seeds that have made as many meta-updates, at most ``together`` of them."""
    group: list[int] = []
    for seed, state in states.items():
        if group and (len(group) == program.together or int(state.update) != int(states[group[0]].update)):
            yield group
            group = []
        group.append(seed)
    yield group


def run_together(
    program: Program,
    seeds: Sequence[int],
    stacked: MetaState,
    ended: Collection[int] = (),
    rates: Mapping[int, Rates] | None = None,
) -> Iterator[Chunk]:
    """The same for the seeds of one group, whose states are stacked already.

    ``rates`` are those that each began with, where they are not the program's.
    """
    config = program.learner.config
    done = int(np.asarray(stacked.update).reshape(-1)[0])
    alive = {seed: seed not in ended for seed in seeds}
    count = 1
    while done < config.meta_updates and any(alive.values()):
        count = min(count, CHUNK, config.meta_updates - done)
        began = time.monotonic()
        stacked, log, last = program.chunk(program.data, program.test, stacked, done, count)
        log = jax.tree.map(np.asarray, log)
        seconds = time.monotonic() - began
        records = records_of(program, seeds, alive, log, done, count, rates or {})
        done += count
        if done == config.meta_updates:
            add_final(program, seeds, alive, stacked, last, records)
        yield partial(_by_seed, program, stacked, seeds), records
        count = max(1, min(4 * count, int(count * CHUNK_SECONDS / max(seconds, 1e-3))))


def stack(program: Program, states: Sequence[MetaState]) -> MetaState:
    """States along a first axis, spread over all devices; a short group is filled up with its last seed."""
    if program.together == 1:
        return states[0]
    full = [*states, *[states[-1]] * (program.together - len(states))]
    return spread(program, jax.tree.map(lambda *leaves: jnp.stack(leaves), *full))


def spread(program: Program, stacked: MetaState) -> MetaState:
    """Stacked states dealt out to all devices, where they come out even."""
    devices = jax.devices()
    if len(devices) == 1 or program.together % len(devices):
        return stacked
    by_seed = PartitionSpec("seeds")  # type: ignore[no-untyped-call]
    dealt: MetaState = jax.device_put(stacked, NamedSharding(Mesh(np.asarray(devices), ("seeds",)), by_seed))
    return dealt


def _by_seed(program: Program, stacked: MetaState, seeds: Sequence[int]) -> dict[int, MetaState]:
    if program.together == 1:
        return {seeds[0]: stacked}
    return {seed: jax.tree.map(lambda leaf, lane=lane: leaf[lane], stacked) for lane, seed in enumerate(seeds)}
