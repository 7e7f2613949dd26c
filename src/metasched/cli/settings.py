"""The flags of training, in groups, the most important ones first. They are made from the settings of the learners."""

import ast
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, make_dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import tyro

from metasched import schedulers
from metasched.cli.common import stderr
from metasched.errors import ConfigError
from metasched.learners import rewards
from metasched.learners.renamed import REMOVED
from metasched.learners.renamed import SETTINGS as RENAMED
from metasched.learners.settings import LEARNERS, OPTIMISERS, AlgorithmOne, Joint, LearnerSettings, settings_of
from metasched.schedulers.resolve import AUTO, BEST_SINGLE, SINGLE, TARGET_ONLY, USEFUL

FIRST = ("updates", "batch_size", "learning_rate")
"""Settings that are among the first flags. The others have a group for each learner, and one for both."""
_KINDS = (LearnerSettings, Joint, AlgorithmOne)
_FIELDS: dict[str, Field[Any]] = {each.name: each for kind in _KINDS for each in fields(kind)}
_TYPES: dict[str, Any] = {"optimiser": Literal[OPTIMISERS], "gradient": str}
"""Settings that may also be objects in Python."""


def documented(kind: type) -> dict[str, str]:
    """The text below each field of a dataclass, as plain words on one line."""
    body: Any = ast.parse(inspect.getsource(kind)).body[0]
    return {
        own.target.id: " ".join(text.value.value.replace("``", "").split())
        for own, text in pairwise(body.body)
        if isinstance(own, ast.AnnAssign) and isinstance(own.target, ast.Name) and isinstance(text, ast.Expr)
        if isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


_TEXTS = {name: text for kind in _KINDS for name, text in documented(kind).items()}


def _group(title: str, about: str, names: Iterable[str], **more: tuple[type, Any, str]) -> Any:
    """A dataclass of some settings and further flags. tyro makes a group of flags from it."""
    flags: dict[str, tuple[Any, Any, str]] = dict(more)
    for own in (_FIELDS[name] for name in names):
        flags[own.name] = _TYPES.get(own.name, own.type), own.default, _TEXTS[own.name]
    chosen: Any = [
        (name, Annotated[kind, tyro.conf.arg(help=text)], field(default=default))
        for name, (kind, default, text) in flags.items()
    ]
    return make_dataclass(title, chosen, namespace={"__doc__": about})


def _only(kind: type[LearnerSettings]) -> list[str]:
    """The settings that only one learner has."""
    return [
        name
        for name in _FIELDS
        if name not in LearnerSettings.__dataclass_fields__ and name not in FIRST and name in kind.__dataclass_fields__
    ]


_First = _group(
    "First",
    "What matters most.",
    FIRST,
    learner=(str, "joint", "joint: one model trained on source and target rows together; meta: Algorithm 1."),
    reward=(
        str,
        rewards.DEFAULT,
        f"What a scheduler is told about a row or batch: {', '.join(rewards.names())} (see docs/choosing.md).",
    ),
)
_Shared = _group(
    "Shared",
    "Settings of every learner.",
    [name for name in LearnerSettings.__dataclass_fields__ if name not in FIRST and name in _FIELDS],
    abstain=(bool, False, "Let the scheduler also choose to draw no rows at all."),
)
_Joint = _group("JointOnly", "Settings of the joint learner.", _only(Joint))
_AlgorithmOne = _group("AlgorithmOneOnly", "Settings of Algorithm 1 (--learner meta).", _only(AlgorithmOne))


class Asked(NamedTuple):
    """What the flags say about the learner, the reward and whether the scheduler may abstain."""

    learner: str
    reward: str
    abstain: bool
    values: dict[str, Any]

    def settings(self) -> LearnerSettings:
        """The settings of the learner. A flag of the other learner is refused."""
        kind = type(settings_of(self.learner))
        values = dict(self.values)
        if kind is Joint and values["outer_rate"] != AlgorithmOne.outer_rate:
            warn_renamed("--outer-rate", "--learning-rate with the joint learner")
            values["learning_rate"] = values.pop("outer_rate")
        own = {each.name for each in fields(kind)}
        for name, value in values.items():
            if name not in own and value != _FIELDS[name].default:
                other = next(each for each in LEARNERS.values() if each is not kind)
                raise ConfigError(f"{_flag(name)} is for {other.title}; leave it out, or give --learner {other.name}")
        return kind(**{name: value for name, value in values.items() if name in own})


def _asked(first: Any, shared: Any, joint: Any, meta: Any) -> Asked:
    values = {**asdict(first), **asdict(shared), **asdict(joint), **asdict(meta)}
    return Asked(values.pop("learner"), values.pop("reward"), values.pop("abstain"), values)


_annotated: Any = Annotated  # The groups are made when the module is imported, so type checkers do not know them.
_unprefixed: Any = tyro.conf.OmitArgPrefixes
_asked.__annotations__ = {
    "first": _annotated[_First, tyro.conf.arg(name="")],
    "shared": _unprefixed[_annotated[_Shared, tyro.conf.arg(name="training")]],
    "joint": _unprefixed[_annotated[_Joint, tyro.conf.arg(name="joint learner")]],
    "meta": _unprefixed[_annotated[_AlgorithmOne, tyro.conf.arg(name="Algorithm 1")]],
    "return": Asked,
}

LearnerFlags = Annotated[Asked, tyro.conf.arg(name="", constructor=_asked)]
"""The learner with its settings, the reward and ``abstain`` as flags."""


def with_new_names(words: Sequence[str]) -> list[str]:
    """Replace flags of version 0.1 by their new names, with a warning for each."""
    if not words or words[0] not in ("train", "compare"):
        return list(words)
    new = {_flag(old): _flag(name) for old, name in RENAMED.items()}
    removed = {_flag(name) for name in REMOVED}
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        if name in removed:
            raise ConfigError(f"{name} no longer exists; leave it out")
        if name in new:
            warn_renamed(name, new[name])
            word = new[name] + equals + value
        found.append(word)
    return found


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def warn_renamed(old: str, new: str) -> None:
    """Warn that a flag has a new name."""
    text = f"metasched: {old} is now {new}; the next version will not accept the old name"
    stderr().print(text, style="yellow", soft_wrap=True, highlight=False)


SchedulerName = Annotated[
    str,
    tyro.conf.arg(
        metavar="NAME",
        help=f"One of {', '.join(schedulers.names())}; {AUTO}: what did best in our results; controls: "
        f"{TARGET_ONLY} (no source rows), {SINGLE}TASK (one task by name or number from 1), {BEST_SINGLE}, {USEFUL} "
        "(the tasks known to be useful).",
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
