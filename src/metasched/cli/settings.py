"""The flags of training, in groups: those that matter first, then the others; all made from :class:`TrainConfig`."""

import ast
import inspect
from dataclasses import asdict, dataclass, field, fields, make_dataclass
from itertools import pairwise
from typing import Annotated, Any, get_type_hints

import tyro

from metasched import schedulers
from metasched.learners import rewards
from metasched.learners.config import TrainConfig
from metasched.schedulers.resolve import AUTO, BEST_SINGLE, SINGLE, TARGET_ONLY, USEFUL

FIRST = ("reward", "meta_updates", "batch_size")
"""Settings that stand among the first flags; the others have a group of their own."""


def documented(kind: type) -> dict[str, str]:
    """The text below each field of a dataclass, as plain words on one line."""
    body: Any = ast.parse(inspect.getsource(kind)).body[0]
    return {
        own.target.id: " ".join(text.value.value.replace("``", "").split())
        for own, text in pairwise(body.body)
        if isinstance(own, ast.AnnAssign) and isinstance(own.target, ast.Name) and isinstance(text, ast.Expr)
        if isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


_TEXTS = documented(TrainConfig) | {
    "reward": f"What a scheduler is told after a batch: {', '.join(rewards.names())} (see docs/learner.md)."
}
_TYPES = get_type_hints(TrainConfig)


def _group(title: str, names: tuple[str, ...]) -> Any:
    """A dataclass of some of the settings; tyro makes a group of flags of it."""
    chosen: Any = [
        (own.name, Annotated[_TYPES[own.name], tyro.conf.arg(help=_TEXTS[own.name])], field(default=own.default))
        for own in fields(TrainConfig)
        if own.name in names
    ]
    return make_dataclass(title, chosen, namespace={"__doc__": "Settings of training."})


_First = _group("First", FIRST)
_Others = _group("Others", tuple(own.name for own in fields(TrainConfig) if own.name not in FIRST))


def _settings(first: Any, others: Any) -> TrainConfig:
    return TrainConfig(**asdict(first), **asdict(others))


_annotated: Any = Annotated  # the groups are made when the module is read, so no type checker knows them
_unprefixed: Any = tyro.conf.OmitArgPrefixes
_settings.__annotations__ = {
    "first": _annotated[_First, tyro.conf.arg(name="")],
    "others": _unprefixed[_annotated[_Others, tyro.conf.arg(name="training")]],
    "return": TrainConfig,
}

Settings = Annotated[TrainConfig, tyro.conf.arg(name="", constructor=_settings)]
"""A :class:`TrainConfig` as flags."""

SchedulerName = Annotated[
    str,
    tyro.conf.arg(
        metavar="NAME",
        help=f"One of {', '.join(schedulers.names())}; {AUTO}: what did best in our results; controls: "
        f"{TARGET_ONLY} (no source rows), {SINGLE}TASK (one task by name or number from 1), {BEST_SINGLE}, {USEFUL} "
        "(the tasks known to be).",
    ),
]


@dataclass(frozen=True)
class Further:
    """How to run it."""

    network: str = "auto"
    """auto, mlp or cnn."""
    seed: int = 0
    """The first seed."""
    tracker: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Also send records to tensorboard, mlflow or wandb; may be repeated."""
    quiet: bool = False
    """No progress."""


FurtherFlags = Annotated[tyro.conf.OmitArgPrefixes[Further], tyro.conf.arg(name="further")]
