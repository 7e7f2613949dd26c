"""Commands by name. Words become a function to call, or an error of one line if they do not fit."""

import re
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from functools import partial, wraps
from importlib import import_module
from inspect import getdoc
from io import StringIO
from typing import Any, NamedTuple, TypeVar, overload

import tyro

from metasched.errors import ConfigError, unknown


class Later(NamedTuple):
    """A command whose module is imported when it is used. The module registers the command under its name."""

    module: str
    line: str


Function = TypeVar("Function", bound=Callable[..., None])

COMPLETION = "--tyro-print-completion"
SHELLS = ("bash", "zsh", "fish", "tcsh")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CHOICE = re.compile(r"invalid choice '(.*)' for argument '(--.*)'\. Expected one of \((.*)\)")
_NUMBER = re.compile(r"Error parsing (--[\w-]+): .*(?:int\(\) with base 10|string to float): '(.*)'")


class Commands:
    """A group of commands; a command is a function, whose parameters are its flags, or another group.

    >>> group = Commands("Greets people.")
    >>> @group.command
    ... def greet(name: str) -> None:
    ...     "Greet somebody."
    ...     print("Hello,", name)
    >>> group.parse(["greet", "--name", "Ada"], "hello")()
    Hello, Ada
    """

    def __init__(self, description: str, order: Sequence[str] = ()) -> None:
        self.description = description
        self.order = order
        self.known: dict[str, Callable[..., None] | Commands | Later] = {}

    @overload
    def command(self, member: Function) -> Function: ...

    @overload
    def command(self, member: None = None, *, name: str) -> Callable[[Function], Function]: ...

    @overload
    def command(self, member: "Commands", *, name: str) -> "Commands": ...

    def command(self, member: Any = None, *, name: str | None = None) -> Any:
        """Register a function under its own name or another one, or a group of commands."""
        if member is None:
            return partial(self.command, name=name)
        self.known[name or member.__name__] = member
        return member

    def later(self, name: str, module: str, line: str) -> None:
        """Register a command by its module. ``line`` describes it in a list of commands."""
        self.known.setdefault(name, Later(module, line))

    def member(self, name: str) -> "Callable[..., None] | Commands":
        """The command of that name. It is imported if necessary."""
        member = self.known[name]
        if isinstance(member, Later):
            import_module(member.module)
            member = self.known[name]
            if isinstance(member, Later):
                raise RuntimeError(f"{member.module} registers no command '{name}'")
        return member

    @property
    def members(self) -> "dict[str, Callable[..., None] | Commands]":
        """All commands, imported."""
        return {name: self.member(name) for name in self.known}

    def names(self) -> list[str]:
        """The commands in the order in which a user meets them. Commands without a place in this order come last."""
        return sorted(self.known, key=lambda name: self.order.index(name) if name in self.order else len(self.order))

    def parse(self, words: Sequence[str], prog: str) -> Callable[[], None]:
        """Parse the words into a function to call. Print the help and exit if they ask for it or contain no command.

        ``words`` begin with commands. For an unknown command, the error suggests the nearest one.
        """
        if words[:1] == [COMPLETION] and (len(words) != 2 or words[1] not in SHELLS):
            raise ConfigError(f"{COMPLETION} needs the name of a shell: {', '.join(SHELLS)}")
        path, last = self._walk(words)
        said = StringIO()
        try:
            with redirect_stderr(said):
                return self._parser(words).cli(  # type: ignore[no-any-return]
                    prog=prog,
                    args=[*words, "--help"] if isinstance(last, Commands) and len(path) == len(words) else words,
                    description=self.description,
                    config=(tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone),
                )
        except SystemExit as stopped:
            if stopped.code == 2:
                raise ConfigError(one_line(said.getvalue(), " ".join([prog, *path]))) from None
            raise

    def _walk(self, words: Sequence[str]) -> "tuple[list[str], Callable[..., None] | Commands]":
        """Follow the commands at the beginning of the words, and find what the last of them is."""
        path: list[str] = []
        last: Callable[..., None] | Commands = self
        for word in words:
            if not isinstance(last, Commands) or word.startswith("-"):
                break
            if word not in last.known:
                raise unknown("command", " ".join([*path, word]), [" ".join([*path, name]) for name in last.names()])
            path.append(word)
            last = last.member(word)
        return path, last

    def _parser(self, words: Sequence[str]) -> tyro.extras.SubcommandApp:
        """The commands for tyro. The chosen command has its whole docstring, the others have their first line."""
        parser = tyro.extras.SubcommandApp()
        completes = words[:1] == [COMPLETION]  # with all flags of all commands
        for name in self.names():
            asked = bool(words) and words[0] == name
            member = self.member(name) if asked or completes else self.known[name]
            if isinstance(member, Later):
                parser.command(name=name, help=member.line)(_nothing)
            elif isinstance(member, Commands):
                parser.command(member._parser(words[1:] if asked else ()), name=name, help=member.description)
            else:
                line = (getdoc(member) or "").partition("\n")[0]
                parser.command(name=name, help=None if asked else line)(_later(member))
        return parser


def _nothing() -> None:
    """A stand-in for commands that were not chosen."""


def one_line(box: str, prog: str) -> str:
    """Turn a parser's framed message into one line: what is wrong, the nearest flag, where to find help.

    The title is part of the frame. On a stream that takes only ASCII, it is a line above a rule.
    """
    plain = _COLOUR.sub("", box).strip()
    lines = [line.strip(" │") for line in plain.splitlines() if line[:1] not in "╭╰"]
    parts = [" ".join(part.split()) for part in re.split(r"\n[─-]{3,}\n", "\n".join(lines))]
    fault, *rest = parts if plain.startswith("╭") else parts[1:] or parts
    near = re.search(r"Perhaps you meant: (--[\w-]+)", " ".join(rest))
    if choice := _CHOICE.match(fault):
        return str(unknown(choice[2], choice[1], {*re.findall(r"'([^']*)'", choice[3])} - {"None"}))
    if number := _NUMBER.match(fault):
        return f"{number[1]} is '{number[2]}'; give a {'whole ' * ('int()' in fault)}number"
    hint = f"; did you mean '{near[1]}'?" if near else ""
    return f"{fault.replace(' (required)', '').rstrip('.:')}{hint} (see {prog} --help)"


def _later(function: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """The function, to be called after parsing."""

    @wraps(function)
    def ready(*words: Any, **flags: Any) -> Callable[[], None]:
        return partial(function, *words, **flags)

    return ready
