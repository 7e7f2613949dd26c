"""The meta-learner: time of one meta-update beside PyTorch's, beside its floor, of many seeds, and of scheduling.

    python benchmarks/meta.py --work w1,w2,w3,w4,overhead --device cpu --json meta.json
    taskset -c 0 python benchmarks/meta.py --work w1      # one core, processor time: where the machine is busy

W1: MLP 784-300-300-300-10, 70 inner steps of 20 rows, outer loss on 100 rows. W2: four strided convolutions of 64
filters on 32 × 32 × 3, 50 steps of 10 rows. W3: W1 with UCB over five tasks, told the accuracy on 1,400 validation rows
after each step (outer loss on 20 of them). W4: W1 with many seeds. overhead: W1 under several schedulers. All of full
second order, by initial weights and log inner rate, Adam included, in full float32 on both sides (no TF32). Before
anything is timed, every side's meta-gradient is compared with ours.
"""

import os

CORES = len(os.sched_getaffinity(0))
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ[f"{library}_NUM_THREADS"] = str(CORES)  # common.py would hold them to one
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # two libraries share the accelerator

import argparse  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import replace  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

WORKS = ("w1", "w2", "w3", "w4", "overhead")
FEW_STEPS = 10
AGREEMENT = 1e-4
"""Largest relative difference between two sides' meta-gradients that still counts as the same computation."""


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default=",".join(WORKS), help="which, separated by commas")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--repeats", type=int, default=7, help="runs of each side; the fastest counts")
    parser.add_argument("--seeds", type=int, help="of W4; 8 on a CPU and 64 on a GPU unless told")
    parser.add_argument(
        "--threads", default=f"1,{CORES}", help="of torch on a CPU, all tried; 1 where cores are shared"
    )
    parser.add_argument("--latency", type=float, default=2e-6, help="seconds between dependent kernels, GPU floor")
    parser.add_argument("--gradient", help="AlgorithmOne.gradient of our side, where there is such a setting")
    parser.add_argument("--json", type=Path, help="also write the lines there")
    found = parser.parse_args()
    unknown = set(found.work.split(",")) - set(WORKS)
    if unknown:
        parser.error(f"unknown work {sorted(unknown)}; give some of {', '.join(WORKS)}")
    return found


ASKED = options()
os.environ["JAX_PLATFORMS"] = "cuda" if ASKED.device == "gpu" else "cpu"

import jax  # noqa: E402
import meta_floor  # noqa: E402
import meta_ours  # noqa: E402
import meta_torch  # noqa: E402
import meta_work  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from common import fastest  # noqa: E402

SETTINGS = {"gradient": ASKED.gradient} if ASKED.gradient else {}
TORCH_DEVICE = "cuda" if ASKED.device == "gpu" else "cpu"
THREADS = sorted({int(count) for count in ASKED.threads.split(",")}) if TORCH_DEVICE == "cpu" else [CORES]
CLOCK = time.process_time if TORCH_DEVICE == "cpu" and CORES == 1 else time.perf_counter
"""With one core only the seconds of this process count, whoever else uses the machine."""
Sides = dict[str, Callable[[], Any]]


class Lines:
    """Prints what was measured, and keeps it."""

    def __init__(self, machine: meta_floor.Machine) -> None:
        self.machine, self.kept = machine, []

    def floor(self, work: meta_work.Work) -> float:
        """Seconds; prints what they are made of, and XLA's count beside ours."""
        floor = meta_floor.floor_of(work)
        gradient, both = meta_ours.xla_step_flops(work)
        print(f"\n{work.name}: floor: {floor.text(self.machine)}")
        print(
            f"  one step, ours / XLA's count: gradient {meta_floor.gradient_flop(work, work.rows) / 1e6:.1f} / "
            f"{gradient / 1e6:.1f} MFLOP, with a Hessian-vector product "
            f"{(meta_floor.gradient_flop(work, work.rows) + meta_floor.product_flop(work, work.rows)) / 1e6:.1f} / "
            f"{both / 1e6:.1f} MFLOP"
        )
        return floor.seconds(self.machine)

    def timed(self, work: str, sides: Sides, bound: float, reference: str, repeats: int, **floors: float):
        """Warm up, run in turns, and print time, ratio to ``reference`` and multiple of the floor of each side."""
        for run in sides.values():
            run()
        took = zip(sides, sides.values(), fastest(*sides.values(), repeats=repeats, clock=CLOCK), strict=True)
        found = {side: seconds / getattr(run, "updates", 1) for side, run, seconds in took}
        for side, seconds in found.items():
            ratio, floor = seconds / found[reference], floors.get(side, bound)
            self.kept.append({"work": work, "side": side, "ms": seconds * 1e3, "ratio": ratio, "floor_ms": floor * 1e3})
            print(
                f"  {side:32} {seconds * 1e3:9.2f} ms  {ratio:6.2f} × {reference}  floor {floor * 1e3:.2f} ms, "
                f"{seconds / floor:.1f} × the floor"
            )
        return found


def relative_difference(work: meta_work.Work, ours: meta_ours.Gradient, theirs: list[torch.Tensor]) -> float:
    """The largest over weights, biases and log rate, each by its norm."""
    expected = [*meta_torch.from_ours(work, ours.by_weights), np.array(ours.by_log_rate)]
    pairs = zip(theirs, expected, strict=True)
    return max(float(np.linalg.norm(a.cpu().numpy() - b) / np.linalg.norm(b)) for a, b in pairs)


def peers_of(work: meta_work.Work, weights: Any) -> dict[str, Callable[[meta_work.Work], Callable[[], Any]]]:
    """Every way to the meta-gradient in torch that this device offers, as builders: work in, gradient function out."""

    def on_device(make, channels_last=False):
        return lambda work: make(meta_torch.problem_of(work, weights, TORCH_DEVICE, channels_last))

    peers = {"torch eager": on_device(lambda problem: partial(meta_torch.eager, problem))}
    if not work.rewarded:
        peers["torch.func"] = on_device(lambda problem: partial(meta_torch.functional_gradient, problem))
    if work.network == "cnn":
        peers["torch eager, channels last"] = on_device(lambda problem: partial(meta_torch.eager, problem), True)
    if TORCH_DEVICE == "cpu":
        peers["TorchOpt MetaSGD"] = on_device(meta_torch.with_torchopt)
        peers["higher"] = on_device(meta_torch.with_higher)
    else:
        peers["torch, compiled step"] = on_device(meta_torch.with_compiled_step)
        if not work.rewarded:
            peers["torch eager, CUDA graph"] = on_device(meta_torch.with_cuda_graph)
    return peers


def same_computation(work: meta_work.Work, ours: meta_ours.Gradient) -> Sides:
    """The peers whose meta-gradient is ours; prints by how much each differs.

    A rectifier whose input is all but zero may fall on either side of it, and that one switch is then felt in every
    later step. A peer that differs over all steps is therefore judged over a few.
    """
    few = replace(work, steps=FEW_STEPS)
    same: Sides = {}
    for name, build in peers_of(work, ours.weights).items():
        begin = time.perf_counter()
        try:
            gradient = build(work)
            off, over = relative_difference(work, ours, gradient()), ""
            if off > AGREEMENT:
                shorter = relative_difference(few, meta_ours.ours_meta_gradient(few, **SETTINGS), build(few)())
                off, over = shorter, f" over {few.steps} steps (by {off:.1e} over {work.steps})"
        except ImportError as error:
            print(f"  check: {name} LEFT OUT: {error}")
            continue
        except Exception as error:  # a peer that fails must not take the others with it
            print(f"  check: {name} FAILED: {str(error).strip().splitlines()[0][:150]}")
            continue
        verdict = "" if off <= AGREEMENT else "; LEFT OUT"
        took = time.perf_counter() - begin
        print(f"  check: {name} differs from our meta-gradient by {off:.1e}{over}{verdict}; first run {took:.1f} s")
        if not verdict:
            same[name] = gradient
    return same


def gradient_work(work: meta_work.Work, lines: Lines, repeats: int) -> None:
    """W1, W2, W3: one meta-update, ours and the peers'."""
    floor = lines.floor(work)
    ours = meta_ours.ours_meta_gradient(work, **SETTINGS)
    same = same_computation(work, ours)
    if work.rewarded:
        problem = meta_torch.problem_of(work, ours.weights, TORCH_DEVICE)
        schedule = meta_torch.schedule_of(problem)
        meta_torch.differentiated(problem, meta_torch.eager_step, schedule)
        agreed = sum(a == b for a, b in zip(schedule.drawn, ours.tasks, strict=True))
        print(f"  check: {agreed} of {work.steps} tasks drawn are the same")
    problem = meta_torch.problem_of(work, ours.weights, TORCH_DEVICE)
    sides: Sides = {"ours": meta_ours.ours_update(meta_ours.program_of(work, config=SETTINGS))}
    if not SETTINGS:
        sides["ours, gradient scan"] = meta_ours.ours_update(meta_ours.program_of(work, config={"gradient": "scan"}))
    for name, gradient in same.items():
        for threads in THREADS:
            label = f"{name}, {threads} thread{'s' * (threads > 1)}" if TORCH_DEVICE == "cpu" else name
            sides[label] = meta_torch.update_of(problem, gradient, threads)
    found = lines.timed(work.name, sides, floor, "ours", repeats)
    peers = {name: seconds for name, seconds in found.items() if not name.startswith("ours")}
    if peers:
        best = min(peers, key=peers.__getitem__)
        print(f"  → ours is {peers[best] / found['ours']:.2f} times as fast as the fastest peer, {best}")


def seeds_work(lines: Lines, seeds: int, repeats: int) -> None:
    """W4: many seeds of W1."""
    work, floor = meta_work.W1, meta_floor.floor_of(meta_work.W1)
    bound = meta_floor.Floor(seeds * floor.flop, seeds * floor.bytes, floor.kernels)
    print(f"\nW4: {seeds} seeds of W1: floor: {bound.text(lines.machine)}")
    one = meta_ours.ours_update(meta_ours.program_of(work, config=SETTINGS))
    sides: Sides = {
        f"ours, {seeds} × one seed": meta_ours.Run(lambda: [one() for _ in range(seeds)], one.updates),
        f"ours, {seeds} seeds under vmap": meta_ours.ours_seeds(work, seeds, SETTINGS),
    }
    if TORCH_DEVICE == "cpu":
        weights = meta_ours.ours_meta_gradient(work, **SETTINGS).weights
        problem = meta_torch.problem_of(work, weights, TORCH_DEVICE)
        eager = meta_torch.update_of(problem, partial(meta_torch.eager, problem), THREADS[0])
        sides[f"torch eager, {seeds} × one seed"] = lambda: [eager() for _ in range(seeds)]
        sides[f"torch.func under vmap, {seeds} seeds"] = meta_torch.seeds_of(problem, seeds)
    lines.timed("W4", sides, bound.seconds(lines.machine), next(iter(sides)), repeats)


def overhead_work(lines: Lines, repeats: int) -> None:
    """One meta-update under different schedulers, everything else alike."""
    work = replace(meta_work.W1, name="overhead", scheduler="any")
    floor, static = lines.floor(work), meta_floor.floor_of(replace(work, scheduler="cyclic")).seconds(lines.machine)
    schedulers = {
        "cyclic": meta_ours.ms.schedulers.cyclic(meta_work.TASKS),
        "cyclic, reading its reward": meta_ours.reads_its_reward(meta_work.TASKS),
        "ucb": meta_ours.ms.schedulers.ucb(meta_work.TASKS),
        "gittins": meta_ours.planned(work, "gittins"),
        "mdp": meta_ours.planned(work, "mdp"),
    }
    sides = {
        name: meta_ours.ours_update(meta_ours.program_of(work, scheduler, SETTINGS))
        for name, scheduler in schedulers.items()
    }
    found = lines.timed("overhead", sides, floor, "cyclic, reading its reward", repeats, cyclic=static)
    reward = found["cyclic, reading its reward"]
    print(f"  → measuring rewards costs {(reward - found['cyclic']) / work.steps * 1e6:.0f} µs a batch")
    for name in ("ucb", "gittins", "mdp"):
        print(f"  → {name} itself costs {(found[name] - reward) / work.steps * 1e6:.0f} µs a batch")


def main() -> None:
    """Measure what was asked for."""
    warnings.filterwarnings("ignore", module="torchopt|higher|torch")
    device = jax.devices()[0].device_kind
    print(f"{device}, {CORES} cores, Python {sys.version.split()[0]}, JAX {jax.__version__}, torch {torch.__version__}")
    print(f"load average {os.getloadavg()[0]:.2f} before" + (f"; {SETTINGS}" if SETTINGS else ""))
    jax.config.update("jax_default_matmul_precision", "highest")
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(THREADS[0])
    lines = Lines(meta_floor.measured_machine(ASKED.latency, CLOCK))
    works = ASKED.work.split(",")
    for name, work in (("w1", meta_work.W1), ("w2", meta_work.W2), ("w3", meta_work.W3)):
        if name in works:
            gradient_work(work, lines, ASKED.repeats)
    if "w4" in works:
        seeds_work(lines, ASKED.seeds or (8 if TORCH_DEVICE == "cpu" else 64), max(2, ASKED.repeats // 3))
    if "overhead" in works:
        overhead_work(lines, ASKED.repeats)
    print(f"\nload average {os.getloadavg()[0]:.2f} after")
    if ASKED.json:
        about = {"device": device, "cores": CORES, "jax": jax.__version__, "torch": torch.__version__}
        ASKED.json.write_text(json.dumps({**about, "lines": lines.kept}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
