"""Algorithm 1 from the first meta-update to the last, for any number of seeds.

Python only decides how many meta-updates the next chunk has, and reads what came of them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from metasched.meta.outer import MetaState
from metasched.meta.program import CHUNK, Program, prepare, side_by_side, start
from metasched.meta.records import Record, add_final, records_of

__all__ = ["Program", "Record", "prepare", "run", "side_by_side", "start"]

CHUNK_SECONDS = 1.0
"""About how long one call should take, so that progress is seen and little is lost."""


def run(program: Program, states: Mapping[int, MetaState]) -> Iterator[tuple[dict[int, MetaState], list[Record]]]:
    """All meta-updates that are left to ``states`` (by seed), ``together`` seeds at a time.

    Yields, after every chunk, the states that moved and one record for each of their meta-updates, the last of a seed
    with ``final``. A seed whose loss is no longer finite ends with a record that has ``diverged``; the others go on.
    """
    seeds = list(states)
    for begin in range(0, len(seeds), program.together):
        group = {seed: states[seed] for seed in seeds[begin : begin + program.together]}
        yield from _run_group(program, group)


def _run_group(program: Program, group: Mapping[int, MetaState]) -> Iterator[tuple[dict[int, MetaState], list[Record]]]:
    config, seeds = program.learner.config, list(group)
    stacked = _stack(program, list(group.values()))
    done = int(next(iter(group.values())).update)
    alive = {seed: bool(_finite(state)) for seed, state in group.items()}
    count = 1
    while done < config.meta_updates and any(alive.values()):
        count = min(count, CHUNK, config.meta_updates - done)
        began = time.monotonic()
        stacked, log, last = program.chunk(program.data, program.test, stacked, done, count)
        log = jax.tree.map(np.asarray, log)
        seconds = time.monotonic() - began
        records = records_of(program, seeds, alive, log, done, count)
        done += count
        if done == config.meta_updates:
            add_final(program, seeds, alive, stacked, last, records)
        yield dict(zip(seeds, _unstack(program, stacked, len(seeds)), strict=True)), records
        count = max(1, min(4 * count, int(count * CHUNK_SECONDS / max(seconds, 1e-3))))


def _finite(state: MetaState) -> bool:
    return all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state.parameters))


def _stack(program: Program, states: Sequence[MetaState]) -> MetaState:
    """States along a first axis, spread over all devices; a short group is filled up with its last seed."""
    if program.together == 1:
        return states[0]
    full = [*states, *[states[-1]] * (program.together - len(states))]
    stacked: MetaState = jax.tree.map(lambda *leaves: jnp.stack(leaves), *full)
    devices = jax.devices()
    if len(devices) > 1 and program.together % len(devices) == 0:
        by_seed = PartitionSpec("seeds")  # type: ignore[no-untyped-call]
        stacked = jax.device_put(stacked, NamedSharding(Mesh(np.asarray(devices), ("seeds",)), by_seed))
    return stacked


def _unstack(program: Program, stacked: Any, number: int) -> list[Any]:
    if program.together == 1:
        return [stacked]
    return [jax.tree.map(lambda leaf, lane=lane: leaf[lane], stacked) for lane in range(number)]
