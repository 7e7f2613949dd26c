"""How to choose: variants of a scheduler beside uniform and the useful sources, on rows that are never reported.

Every idea about how to choose is a line in ``VARIANTS``; the table says what it gives on each set. The sets have other
targets than the results, or use the part of the target's rows that rates are tuned on. Everything is compared with
uniform mixing by rows.

All variants run side by side in one program, so the scheduler here is one function whose settings are numbers in its
state. What proves itself becomes a scheduler of the library: ``thompson`` and ``mirror`` are two settings of it.

    python benchmarks/choosing.py --sets rotated-75 gas-tuning --seeds 6
    python benchmarks/choosing.py --variants 'mirror.*' --labels 100
"""

import argparse
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import metasched as ms
from metasched.experiments.definition import target_drawn
from metasched.experiments.sources import SETTINGS
from metasched.learners import engine, rewards
from metasched.learners.checks import checked_objective
from metasched.learners.inner import Schedule
from metasched.learners.losses import row_goodness
from metasched.schedulers import arms
from metasched.schedulers.base import Scheduler, key_of_draw
from metasched.schedulers.rows import by_rows
from metasched.schedulers.thompson import FADE, LEAST


class Set(NamedTuple):
    """Rows to develop on: a data set and its options, how many times as long as usual, shuffled tasks, which rows."""

    name: str
    options: Mapping[str, Any] = {}
    longer: float = 1
    noisy: tuple[int, ...] = ()
    tuning: bool = True  # whether the rows are those that rates are tuned on; a target that is not reported has others


SETS = {
    "scripts-tuning": Set("scripts"),
    "scripts-long": Set("scripts", longer=3),
    "rotated-75": Set("rotated", {"target_angle": 75}),
    "many-101": Set("many", {"seed": 101}),
    "noisy-tuning": Set("digits", noisy=(1, 2, 3, 4)),
    "clean-tuning": Set("digits"),
    "reviews-kitchen": Set("reviews", {"target": "kitchen_housewares"}, tuning=False),
    "gas-tuning": Set("gas"),
    "activity-20": Set("activity", {"target": 20}, longer=2 / 3, tuning=False),
    "activity-8": Set("activity", {"target": 8}, longer=2 / 3, tuning=False),
    "activity-27": Set("activity", {"target": 27}, longer=2 / 3, tuning=False),
}


class Variant(NamedTuple):
    """One way to choose, as numbers."""

    policy: int = 1  # 0 fixed proportions, 1 Thompson, 2 mirror descent
    width: float = 2.0  # of Thompson's draws
    rate: float = 0.05  # of mirror descent
    explore: float = 0.1  # share of uniform rows
    forget: float = FADE
    keep: float = 1.0  # factor of the logarithms of the proportions with every batch
    shrink: float = 0.0  # whether means are drawn together by as much as noise alone would set them apart
    cap: float = 1e9  # passes after which a source is left out
    free: float = 1e9  # passes after which rewards are discounted
    life: float = 2.0  # passes in which they fall to 37 %
    by_size: float = 0.0  # exponent of the sizes in the first proportions
    useful: float = 0.0  # whether only useful sources are drawn
    sampled: float = 0.0  # of mirror descent's rows, the share that Thompson sampling chooses
    reward: int = 1  # 0 transfer, 1 with Adam's scaling, 2 the same but not divided by the target's slope


STATIC = Variant(policy=0, explore=0)
MIRROR = Variant(policy=2, explore=0.05)
VARIANTS: dict[str, Variant] = {
    "uniform": STATIC,
    "useful": STATIC._replace(useful=1),
    "proportional": STATIC._replace(by_size=1),
    **{f"thompson {w:g}, plain": Variant(width=w, reward=0) for w in (1, 2)},
    **{f"thompson {w:g}, explore {e:g}": Variant(width=w, explore=e) for w in (1, 1.5, 2, 3) for e in (0, 0.1)},
    **{f"thompson {w:g}, shrunk": Variant(width=w, shrink=1) for w in (1, 2)},
    "thompson 2, not divided": Variant(reward=2),
    **{f"thompson 2, cap {c:g}": Variant(cap=c) for c in (4, 16)},
    **{f"thompson 2, discount after {f:g}": Variant(free=f, life=f) for f in (2, 8)},
    **{f"mirror {r:g}, plain": MIRROR._replace(rate=r, reward=0) for r in (0.05,)},
    **{f"mirror {r:g}": MIRROR._replace(rate=r) for r in (0.01, 0.02, 0.05, 0.1)},
    **{f"mirror {r:g}, shrunk": MIRROR._replace(rate=r, shrink=1) for r in (0.02, 0.05, 0.1, 0.2)},
    **{f"mirror {r:g}, shrunk, explore .1": MIRROR._replace(rate=r, shrink=1, explore=0.1) for r in (0.05, 0.1)},
    **{f"mirror {r:g}, shrunk, explore .2": MIRROR._replace(rate=r, shrink=1, explore=0.2) for r in (0.05, 0.1)},
    "mirror 0.05, not divided": MIRROR._replace(reward=2),
    "mirror 0.05, shrunk, fade .9": MIRROR._replace(shrink=1, forget=0.9 ** (1 / 35)),
    "mirror 0.05, shrunk, fade .6": MIRROR._replace(shrink=1, forget=0.6 ** (1 / 35)),
    **{f"mirror 0.05, shrunk, keep {k:g}": MIRROR._replace(shrink=1, keep=k) for k in (0.999, 0.997)},
    **{f"mirror 0.05, shrunk, cap {c:g}": MIRROR._replace(shrink=1, cap=c) for c in (4, 16)},
    **{f"mirror 0.05, shrunk, discount after {f:g}": MIRROR._replace(shrink=1, free=f, life=f) for f in (2, 8)},
    **{f"mirror {r:g}, {h:g} sampled": MIRROR._replace(rate=r, sampled=h) for r in (0.05, 0.1) for h in (0.3, 0.5)},
    "mirror 0.05, 0.5 sampled 1.5": MIRROR._replace(sampled=0.5, width=1.5),
    "mirror 0.03": MIRROR._replace(rate=0.03),
    "mirror 0.03, shrunk": MIRROR._replace(rate=0.03, shrink=1),
    **{
        f"mirror {r:g}, discount after {f:g}": MIRROR._replace(rate=r, free=f, life=f)
        for r in (0.03, 0.05)
        for f in (2, 4)
    },
    "mirror 0.05, shrunk, from sizes": MIRROR._replace(shrink=1, by_size=1),
}


class State(NamedTuple):
    """The settings of a variant, rewards so far, logarithms of proportions (N,), rows drawn (N,)."""

    settings: Variant
    seen: arms.Arms
    logits: jax.Array
    drawn: jax.Array


def any_variant(sizes: np.ndarray, useful: np.ndarray) -> Scheduler:
    """The scheduler whose settings are in its state."""
    number, rows = len(sizes), jnp.asarray(sizes, jnp.float32)

    def init(key: jax.Array) -> State:
        return State(
            Variant(*(jnp.float32(value) for value in STATIC)),
            arms.first(number, key),
            jnp.zeros(number),
            jnp.zeros(number),
        )

    def estimates(state: State) -> tuple[jax.Array, jax.Array]:
        """Means (N,), shrunk to each other or not, and the deviation of rewards within a source."""
        seen, tried = state.seen, state.seen.visits > LEAST
        sigma = arms.within(seen)
        count = jnp.maximum(tried.sum(), 1)
        weight = jnp.maximum(seen.visits, LEAST)
        centre = jnp.where(tried, seen.mean, 0).sum() / count
        apart = jnp.where(tried, (seen.mean - centre) ** 2, 0).sum() / jnp.maximum(count - 1, 1)
        noise = jnp.where(tried, sigma**2 / weight, 0).sum() / count
        true = jnp.maximum(apart - noise, 0)
        kept = true / (true + sigma**2 / weight + 1e-30)
        shrunk = centre + (seen.mean - centre) * jnp.where(state.settings.shrink > 0, kept, 1)
        return jnp.where(tried, shrunk, centre), sigma

    def select_rows(state: State, _: jax.Array, count: int) -> jax.Array:
        own, tried = state.settings, state.seen.visits > LEAST
        first, second, third, fourth = jax.random.split(key_of_draw(state.seen.key, state.seen.turn), 4)
        mean, sigma = estimates(state)
        open_ = (state.drawn < own.cap * rows) | (state.drawn >= own.cap * rows).all()
        noise = jax.random.normal(first, (count, number)) / jnp.sqrt(jnp.maximum(state.seen.visits, LEAST))
        thompson = jnp.where(open_, mean + own.width * sigma * noise, -jnp.inf).argmax(axis=1)
        base = own.by_size * jnp.log(rows) + jnp.where((own.useful > 0) & ~jnp.asarray(useful), -1e9, 0.0)
        logits = jnp.where(open_, base + state.logits, -1e9)
        drawn = jax.random.categorical(second, logits, shape=(count,))
        sampled = (own.policy == 1) | (jax.random.uniform(fourth, (count,)) < own.sampled)
        learned = arms.untried_rows_first(tried, jnp.where(sampled, thompson, drawn))
        chosen = jnp.where(own.policy == 0, drawn, learned)
        return arms.explored(third, chosen.astype(jnp.int32), own.explore, number)

    def update_rows(state: State, _: jax.Array, tasks: jax.Array, rewards: jax.Array) -> State:
        own = state.settings
        passes = (state.drawn / rows)[tasks]
        rewards = rewards * jnp.exp(-jnp.maximum(passes - own.free, 0) / own.life)
        seen = arms.observe_rows(state.seen, tasks, rewards, own.forget)
        state = state._replace(seen=seen, drawn=state.drawn.at[tasks].add(1))
        mean, sigma = estimates(state)
        step = jnp.where((own.policy == 2) & (seen.turn > number), own.rate * mean / jnp.maximum(sigma, 1e-30), 0)
        return state._replace(logits=own.keep * state.logits + step)

    return Scheduler(
        init, lambda state, labels: select_rows(state, labels, 1)[0], update_rows, "active", select_rows, update_rows
    )


def not_divided(objective: Any, turn: Any) -> jax.Array:
    """Transfer that is not divided by the length of the target's gradient: late evidence counts less."""
    direction = jax.tree.map(jnp.multiply, turn.slope, turn.step_sizes)
    _, along = jax.jvp(lambda w: row_goodness(objective, w, turn.batch, turn.head), (turn.before,), (direction,))
    return along


def results(name: str, variants: Mapping[str, Variant], seeds: int, labels: int, rate: float) -> dict[str, Any]:
    """Final accuracies, and the share of rows from useful sources, by variant."""
    chosen = SETS[name]
    tasks = ms.datasets.load(chosen.name, **chosen.options)
    if chosen.noisy:
        tasks = tasks.variant(noise={tasks.tasks[number - 1].name: 1.0 for number in chosen.noisy})
    useful = np.array([task.name in (tasks.useful or ()) for task in tasks.tasks])
    if not useful.any():
        variants = {variant: own for variant, own in variants.items() if not own.useful}
    updates = round(SETTINGS["updates"] * chosen.longer)
    learner = ms.Joint(**{**SETTINGS, "updates": updates, "eval_every": updates, "learning_rate": rate})
    by_seed = [target_drawn(tasks, labels, seed, chosen.tuning) for seed in range(seeds)]
    objective = checked_objective(by_seed[0], "mlp", learner)
    scheduler = by_rows(any_variant(np.array(tasks.sizes), useful), len(tasks.tasks))
    told = (rewards.transfer, rewards.adam_transfer, not_divided)
    replicas = [(variant, seed) for variant in variants for seed in range(seeds)]
    together = 1 if jax.default_backend() == "cpu" else min(len(replicas), 512)
    program = engine.prepare(by_seed[0], objective, Schedule(scheduler, told), together, own_rows=True)
    rows = {seed: engine.replica_rows(program, own) for seed, own in enumerate(by_seed)}
    states = {}
    for variant, seed in replicas:
        own = variants[variant]
        state = program.start(
            rows[seed].data, np.uint32(seed), engine.hyperparameters_of(objective.settings, own.reward)
        )
        mine = state.stream.scheduler._replace(settings=Variant(*(jnp.float32(value) for value in own)))
        states[variant, seed] = state._replace(stream=state.stream._replace(scheduler=mine))
    found: dict[str, dict[str, list[float]]] = {key: {"accuracy": [], "useful": [], "sources": []} for key in variants}
    for _, records in engine.run(program, states, rows={key: rows[key[1]] for key in states}):
        for (variant, _), record in records:
            if "final" in record or "diverged" in record:
                drawn = np.array(record.get("drawn", [0] * len(useful))) + 1e-12
                shares = drawn / drawn.sum()
                row = found[variant]
                row["accuracy"].append(record["final"]["test_accuracy"] if "final" in record else 0.0)
                row["useful"].append(float(shares[useful].sum()))
                row["sources"].append(float(np.exp(-(shares * np.log(shares)).sum())))
    return found


def main() -> None:
    """Run what was asked for and print a table for each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--variants", default=".*", help="a regular expression; uniform and useful are always run")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--labels", type=int, default=30)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    wanted = {
        name: variant
        for name, variant in VARIANTS.items()
        if name in ("uniform", "useful") or re.fullmatch(asked.variants, name)
    }
    for name in asked.sets:
        began = time.monotonic()
        found = results(name, wanted, asked.seeds, asked.labels, asked.rate)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        base = np.array(found["uniform"]["accuracy"])
        for variant, row in found.items():
            gain = np.array(row["accuracy"]) - base
            error = gain.std(ddof=1) / len(gain) ** 0.5 if len(gain) > 1 else 0.0
            shares = f"useful {np.mean(row['useful']):.2f}, as many as {np.mean(row['sources']):4.1f} sources"
            print(
                f"  {variant:40} {gain.mean():+.3f} ± {error:.3f}  {np.mean(row['accuracy']):.3f}  {shares}", flush=True
            )
        if asked.out:
            asked.out.mkdir(parents=True, exist_ok=True)
            (asked.out / f"{name}-{asked.labels}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
