"""The joint learner beside a plain PyTorch loop that does the same.

    python benchmarks/joint_learner.py                          # CPU, one thread on both sides
    python benchmarks/joint_learner.py --device cuda --runs 64  # also 64 runs side by side

Every step: one source batch of 20 rows, round robin over five sources, and all 30 target rows; cross-entropy of both,
Adam with a falling rate, MLP 784-300-300-300-10. Nothing is measured on test rows. Before anything is timed, the
weights of both sides after 35 steps are compared. Both run in turns; the ratio is that of medians, of processor time
where both have one thread of a CPU.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

CLASSES, SOURCES, ROWS, TARGET_ROWS, STEPS = 10, 5, 20, 30, 35
RATE, DECAY, UPDATES = 1e-3, 0.1, 1000
"""Adam's rate at the first step, its share of that at the last, and updates of 35 steps in the whole run."""
AGREEMENT = 1e-3


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="cores of both sides on a CPU")
    parser.add_argument("--repeats", type=int, default=9, help="turns of each side")
    parser.add_argument("--updates", type=int, default=2, help="of 35 steps, in each turn")
    parser.add_argument("--runs", type=int, default=1, help="of ours side by side, where more than one")
    return parser.parse_args()


ASKED = options()
if ASKED.device == "cpu":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-ASKED.threads :])
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ[f"{library}_NUM_THREADS"] = str(ASKED.threads)
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # two libraries share the accelerator
os.environ["JAX_PLATFORMS"] = ASKED.device

import jax  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from common import medians  # noqa: E402
from torch import nn  # noqa: E402

import metasched as ms  # noqa: E402
from metasched.learners import engine, rewards  # noqa: E402
from metasched.learners.checks import checked_objective  # noqa: E402
from metasched.learners.inner import Schedule  # noqa: E402
from metasched.learners.networks import mlp  # noqa: E402

Side = Callable[[], Any]


def made_up_tasks() -> ms.TaskSet:
    """Five sources of random rows around one centre a class."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(CLASSES, 784))

    def rows(count: int) -> tuple[Any, Any]:
        labels = random.integers(0, CLASSES, count)
        return (0.3 * centres[labels] + random.normal(size=(count, 784))).astype("float32"), labels

    sources = {f"source-{number}": rows(STEPS * ROWS) for number in range(SOURCES)}
    classes = [str(label) for label in range(CLASSES)]
    return ms.TaskSet.from_arrays(sources, validation=rows(TARGET_ROWS), test=rows(100), classes=classes)


def program_of(tasks: ms.TaskSet, scheduler: ms.Scheduler, runs: int = 1, **changes: Any) -> engine.Program:
    """The joint learner, compiled."""
    known = {"batch_size": ROWS, "batches_per_update": STEPS, "target_batch": "all", "learning_rate": RATE}
    config = ms.Joint(**known, rate_decay=DECAY, updates=UPDATES, eval_every=UPDATES, **changes)
    objective = checked_objective(tasks, mlp(CLASSES), config)
    return engine.prepare(tasks, objective, Schedule(scheduler, (rewards.transfer,)), together=runs)


def start(program: engine.Program, seed: int = 0) -> Any:
    """The state before the first step."""
    return program.start(program.rows.data, seed, engine.hyperparameters_of(program.objective.settings))


def ours(program: engine.Program, updates: int) -> Side:
    """So many updates of every run of the program, always from the same states."""
    states = engine._stack_states(program, [start(program, seed) for seed in range(program.together)])
    return lambda: jax.block_until_ready(program.chunk(program.rows.data, program.rows.test, states, 0, updates))


class Plain:
    """The loop that one would write in PyTorch."""

    def __init__(self, tasks: ms.TaskSet, weights: Any, device: str, **adam: Any) -> None:
        layers: list[nn.Module] = []
        for layer in weights:
            linear = nn.Linear(*layer["w"].shape)
            linear.weight = nn.Parameter(torch.tensor(np.asarray(layer["w"]).T.copy()))
            linear.bias = nn.Parameter(torch.tensor(np.array(layer["b"])))
            layers += [linear, nn.ReLU()]
        self.model = nn.Sequential(*layers[:-1]).to(device)
        self.sources = [self._rows(task, device) for task in tasks.tasks]
        self.target = self._rows(tasks.validation, device)
        self.cursors, self.turn, self.device = [0] * SOURCES, 0, device
        self.adam = torch.optim.Adam(self.model.parameters(), lr=RATE, **adam)
        self.rate = torch.optim.lr_scheduler.ExponentialLR(self.adam, DECAY ** (1 / (UPDATES * STEPS - 1)))

    @staticmethod
    def _rows(split: Any, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor(split.inputs, device=device), torch.tensor(
            np.asarray(split.labels, np.int64), device=device
        )

    def run(self, steps: int) -> None:
        """So many steps."""
        for _ in range(steps):
            (inputs, labels), first = self.sources[self.turn], self.cursors[self.turn]
            self.cursors[self.turn] = (first + ROWS) % len(labels)
            self.turn = (self.turn + 1) % SOURCES
            rows = slice(first, first + ROWS)
            self.adam.zero_grad()
            on_source = nn.functional.cross_entropy(self.model(inputs[rows]), labels[rows])
            on_target = nn.functional.cross_entropy(self.model(self.target[0]), self.target[1])
            (on_source + on_target).backward()
            self.adam.step()
            self.rate.step()
        if self.device == "cuda":
            torch.cuda.synchronize()


def agree(tasks: ms.TaskSet, program: engine.Program, device: str) -> float:
    """Largest difference of weights after 35 steps, in units of the largest change."""
    first = start(program)
    peer = Plain(tasks, first.parameters.weights, device)
    peer.run(STEPS)
    found = program.chunk(program.rows.data, program.rows.test, first, 0, 1)[0].parameters.weights
    apart, moved = 0.0, 0.0
    for layer, (mine, began) in zip(peer.model[::2], zip(found, first.parameters.weights, strict=True), strict=True):
        theirs = layer.weight.detach().cpu().numpy().T
        apart = max(apart, float(np.abs(np.asarray(mine["w"]) - theirs).max()))
        moved = max(moved, float(np.abs(theirs - np.asarray(began["w"])).max()))
    return apart / moved


def main() -> None:
    """Compare, time and print one line for each side."""
    torch.set_num_threads(ASKED.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    jax.config.update("jax_default_matmul_precision", "highest")
    tasks = made_up_tasks()
    cyclic = program_of(tasks, ms.schedulers.cyclic(SOURCES))
    apart = agree(tasks, cyclic, ASKED.device)
    print(f"weights after {STEPS} steps: {apart:.1e} of the largest change apart")
    if apart > AGREEMENT:
        raise SystemExit("the two sides do not compute the same")
    steps = ASKED.updates * STEPS
    weights = start(cyclic).parameters.weights
    sides = {
        "ours, cyclic": ours(cyclic, ASKED.updates),
        "ours, thompson on transfer": ours(program_of(tasks, ms.schedulers.thompson(SOURCES)), ASKED.updates),
    }
    kinds: dict[str, dict[str, Any]] = {"torch, Adam": {}, "torch, fused Adam": {"fused": True}}
    for name, adam in kinds.items():
        loop = Plain(tasks, weights, ASKED.device, **adam)
        sides[name] = lambda loop=loop: loop.run(steps)
    if ASKED.runs > 1:
        many = program_of(tasks, ms.schedulers.cyclic(SOURCES), ASKED.runs)
        sides[f"ours, cyclic, {ASKED.runs} runs"] = ours(many, ASKED.updates)
    clock = time.process_time if ASKED.device == "cpu" and ASKED.threads == 1 else time.perf_counter
    found = medians(sides, ASKED.repeats, clock)
    for name, seconds in found.items():
        runs = ASKED.runs if name.endswith(" runs") else 1
        each = seconds / steps / runs
        ratios = [f"{found[peer] / steps / each:.2f} × {peer}" for peer in kinds] if name.startswith("ours") else []
        print(f"{name:32} {each * 1e3:8.3f} ms a step of one run  {', '.join(ratios)}")


if __name__ == "__main__":
    main()
