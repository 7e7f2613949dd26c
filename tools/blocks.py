"""Run the blocks of Markdown pages in order, as a reader would: Python, and commands of ``metasched`` after a ``$``.

What Python prints stands in the ``text`` block right below it, what a command prints under the command. A comment above
a block says more: ``<!-- not run: why -->``, or ``<!-- in tests: --seeds 2 -->``, flags that make its commands short;
from there on a page prints other numbers than it shows, and in tests they are not compared.

python tools/blocks.py docs/start.md    # run a page in full, and write anew what it shows of the output
"""

import ast
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from metasched.cli import main as metasched

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)
OPTIONAL = {
    "datasets",
    "equinox",
    "flax",
    "grain",
    "lightning",
    "pandas",
    "polars",
    "ray",
    "sklearn",
    "torch",
    "transformers",
    "trl",
}
"""Packages without which a block is left out."""
DECIMAL = re.compile(r"\d*\.\d+")
CLOSE = 0.05
"""How far a printed decimal may be from the one shown: processors and compilers round differently."""


class Block(NamedTuple):
    """A fenced block: its language, its text and where that begins, its line, and what the comment above says."""

    language: str
    text: str
    start: int
    line: int
    mark: str
    below: bool
    """Whether nothing but an empty line parts it from the block before."""


class Shown(NamedTuple):
    """Output that a page shows, where it stands, and what was printed."""

    start: int
    line: int
    text: str
    printed: str


def pages() -> list[Path]:
    """README and every page of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    list_of, end = [], -1
    for fence in FENCE.finditer(page):
        line = page.count("\n", 0, fence.start("language")) + 1
        below = end >= 0 and not page[end : fence.start()].strip()
        list_of.append(Block(fence["language"], fence["text"], fence.start("text"), line, fence["mark"] or "", below))
        end = fence.end()
    return list_of


def why_not(block: Block) -> str | None:
    """Why a block is not run, if its mark says so."""
    return block.mark.removeprefix("not run: ") if block.mark.startswith("not run: ") else None


def flags(block: Block) -> list[str]:
    """What makes its commands short, if its mark says so."""
    return shlex.split(block.mark.removeprefix("in tests: ")) if block.mark.startswith("in tests: ") else []


def missing(block: Block) -> list[str]:
    """Packages that a block of Python imports and that are not installed."""
    names = []
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    tops = [name.removeprefix("metasched.").partition(".")[0] if "." in name else name for name in names]
    return sorted({top for top in tops if top in OPTIONAL and find_spec(top) is None})


def run(path: Path, quick: bool) -> tuple[list[Shown], list[str]]:
    """Run a page in the current folder; the output that it shows, and a line for each block that lacked a package."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown: list[Shown] = []
    lacking: list[str] = []
    text = path.read_text(encoding="utf-8")
    printed: str | None = None
    shortened = False
    for block in blocks(text):
        if block.language == "text" and block.below and printed is not None and not shortened:
            shown.append(Shown(block.start, block.line, block.text, printed))
        printed = None
        if why_not(block) is not None:
            continue
        if block.language == "python":
            if missing(block):
                lacking.append(f"line {block.line} needs {', '.join(missing(block))}")
            else:
                printed = _python(block, names, path)
        elif block.language == "console":
            more = flags(block) if quick else []
            shortened = shortened or bool(more)
            outputs = list(_console(block, more))
            shown += [] if shortened else outputs
    return shown, lacking


def _python(block: Block, names: dict[str, Any], path: Path) -> str:
    program = compile("\n" * block.line + block.text, str(path), "exec")
    with redirect_stdout(io.StringIO()) as said:
        exec(program, names)
    return said.getvalue()


def _console(block: Block, more: list[str]) -> Iterator[Shown]:
    for command in re.finditer(r"^\$ (?P<words>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", block.text, re.M):
        program, *words = shlex.split(command["words"], comments=True)
        if program != "metasched":
            raise ValueError(f"line {block.line}: '{program}' is not metasched; say why it is not run")
        with redirect_stdout(io.StringIO()) as said:
            metasched([*words, *more])
        if command["output"]:
            start = block.start + command.start("output")
            yield Shown(start, block.line, command["output"], said.getvalue())


def same(shown: str, printed: str) -> bool:
    """Whether that was printed: ``...`` is anything, decimals may differ a little, spaces at line ends do not count."""
    pattern, values = [], []
    for part in re.split(rf"({DECIMAL.pattern}|\.\.\.)", _plain(shown)):
        if part == "...":
            pattern.append(r"[\s\S]*?")
        elif DECIMAL.fullmatch(part):
            pattern.append(r"(\d*\.\d+)")
            values.append(float(part))
        else:
            pattern.append(re.escape(part))
    fits = re.fullmatch("".join(pattern), _plain(printed))
    return fits is not None and all(
        abs(float(one) - other) <= CLOSE for one, other in zip(fits.groups(), values, strict=True)
    )


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def rewrite(path: Path) -> None:
    """Run a page in full and put what was printed where it shows something else."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        shown, _ = run(path, quick=False)
    text = path.read_text(encoding="utf-8")
    for output in reversed(shown):
        if not same(output.text, output.printed):
            text = text[: output.start] + _plain(output.printed) + "\n" + text[output.start + len(output.text) :]
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    for name in sys.argv[1:]:
        rewrite(Path(name).resolve())
