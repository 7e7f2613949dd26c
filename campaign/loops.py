"""Training loops whose choosers have draws under way all the time: what a stored state must go on with, to the bit.

A loop takes a fixed number of steps. Each asks for something or tells a reward of something asked long before, writes a
line about it, and from time to time stores the chooser. A loop that was killed takes up the newest state; what it does
again must be written again in the same words.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

import metasched as ms
from metasched.files import append, make_folder, without_cut_line, write_whole

STEPS = 40
AHEAD = 4
"""Draws that are open at most, as of a loader that prefetches."""
EVERY = 3
"""Steps from one stored state to the next."""
LINES = "lines.txt"
_STATE = "state.safetensors"
_END = "end.json"
_SIZES = {"a": 30, "b": 7, "c": None}


def asks(number: int, waiting: int) -> bool:
    """Whether a step asks; between one and ``AHEAD`` draws are open, and their number goes up and down."""
    return waiting == 0 or (waiting < AHEAD and number * 7 % 11 < 6)


class Loop(Protocol):
    """Something that chooses, and its state."""

    def step(self, number: int) -> str:
        """Take a step; what was done."""

    def state_dict(self) -> dict[str, Any]:
        """Facts and arrays."""

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Go on from there."""


def _hexadecimal(values: Any) -> list[str]:
    return [float(value).hex() for value in values]


class Draws:
    """A chooser that is told in another order than it was asked; the rewards depend on the draw alone."""

    def __init__(self, scheduler: str, batching: str) -> None:
        self._chooser = ms.Chooser(scheduler, _SIZES, 5, batching=batching, seed=3, weights={"a": 2, "b": 1, "c": 1})
        self.state_dict, self.load_state_dict = self._chooser.state_dict, self._chooser.load_state_dict

    def step(self, number: int) -> str:
        """Ask, or tell one of the open draws."""
        waiting = self._chooser.open()
        if asks(number, len(waiting)):
            draw = self._chooser.ask()
            return f"asked {draw.id} {draw.sources.tolist()} {draw.rows.tolist()} {_hexadecimal(draw.weights)}"
        draw = waiting[number % len(waiting)]
        rewards = np.random.default_rng(draw.id).normal(size=len(draw.rows)) + (draw.sources == "b")
        self._chooser.tell(draw, rewards)
        return f"told {draw.id} {_hexadecimal(rewards)}"


class Rows:
    """A mixed stream; after loading, the open draws come once more, with the same rows."""

    def __init__(self) -> None:
        self._stream = ms.mix({"even": range(0, 60, 2), "odd": range(1, 15, 2)}, "thompson", batch_size=4, seed=5)
        self._waiting: list[tuple[Any, Any]] = []

    def state_dict(self) -> dict[str, Any]:
        """Facts of the stream and of its chooser together."""
        state = self._stream.state_dict()
        facts = {"stream": state["facts"], "chooser": state["chooser"]["facts"]}
        return {"facts": facts, "arrays": state["chooser"]["arrays"]}

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Take the open draws again."""
        facts = stored["facts"]
        chooser = {"facts": facts["chooser"], "arrays": stored["arrays"]}
        self._stream.load_state_dict({"facts": facts["stream"], "chooser": chooser})
        self._waiting = [next(self._stream) for _ in self._stream.chooser.open()]

    def step(self, number: int) -> str:
        """Read, or tell one of the open draws."""
        if asks(number, len(self._waiting)):
            self._waiting.append(next(self._stream))
            return f"read {self._waiting[-1][0].id} {list(self._waiting[-1][1])}"
        draw, rows = self._waiting.pop(number % len(self._waiting))
        self._stream.tell(draw, rewards := np.sin(np.array(rows, float)))
        return f"told {draw.id} {list(rows)} {_hexadecimal(rewards)}"


class Prompts:
    """A chooser of prompts with groups of two completions, of which most have one value."""

    def __init__(self) -> None:
        levels = ["easy", "hard", "odd"] * 9
        self._chooser = ms.PromptChooser(levels, group_size=2, patience=9, scheduler="thompson", seed=7)
        self.state_dict, self.load_state_dict = self._chooser.state_dict, self._chooser.load_state_dict

    def step(self, number: int) -> str:
        """Choose two, give each of the last a first value, or give the oldest their second."""
        waiting = self._chooser.waiting()
        if number % 3 == 0:
            return f"chose {self._chooser.next(2).tolist()}"
        prompts = waiting[-2:] if number % 3 == 1 else waiting[:1]
        values = np.random.default_rng(number).normal(size=len(prompts))
        self._chooser.observe(prompts, values)
        return f"observed {prompts.tolist()} {_hexadecimal(values)} {self._chooser.metrics()}"


LOOPS: dict[str, Callable[[], Loop]] = {
    "draws": lambda: Draws("ucb", "per_source"),
    "mixed draws": lambda: Draws("thompson", "mixed"),
    "stream": Rows,
    "prompts": Prompts,
}


def run(name: str, out: Path) -> None:
    """Take all steps of a loop, or those that are left of it."""
    make_folder(out)
    if not (out / _END).exists():
        loop, taken = LOOPS[name](), 0
        lines = out / LINES
        if lines.exists():
            without_cut_line(lines, lines.read_bytes())
        if (out / _STATE).exists():
            with safe_open(out / _STATE, "numpy") as file:
                facts = json.loads(file.metadata()["facts"])
                arrays = {key: file.get_tensor(key) for key in list(file.keys())}
            taken = facts["taken"]
            loop.load_state_dict({"facts": facts["state"], "arrays": arrays})
        for number in range(taken, STEPS):
            append(lines, f"{number} {loop.step(number)}\n".encode(), durable=True)
            if number % EVERY == 0:
                state = loop.state_dict()
                told = json.dumps({"taken": number + 1, "state": state["facts"]})
                write_whole(out / _STATE, save(state["arrays"], metadata={"facts": told}))
        write_whole(out / _END, json.dumps(_digests(loop.state_dict())).encode())
    (out / _STATE).unlink(missing_ok=True)


def _digests(state: dict[str, Any]) -> dict[str, str]:
    """Of all arrays at the end."""
    return {name: hashlib.sha256(np.asarray(one).tobytes()).hexdigest() for name, one in state["arrays"].items()}
