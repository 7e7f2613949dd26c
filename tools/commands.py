"""Rewrite docs/reference/command-line.md: what every command says of itself with ``--help``.

python tools/commands.py            # rewrite
python tools/commands.py --check    # exit 1 if the page is not what the commands say
"""

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path

from metasched.cli import common, main
from metasched.cli.commands import Commands

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "command-line.md"
WIDTH = "100"
HEAD = """# Command line

This is what `metasched … --help` prints for every command. The exit code is 0 if all went well, 2 for bad input (with
one line that says what to fix), and 130 after Ctrl-C, with the work so far kept.

To complete commands and flags with the Tab key, run these lines for your shell and open a new one:

<!-- not run: it changes the settings of your shell -->
```console
$ mkdir -p ~/.local/share/bash-completion/completions                                # bash
$ metasched --tyro-print-completion bash > ~/.local/share/bash-completion/completions/metasched
$ mkdir -p ~/.zfunc && metasched --tyro-print-completion zsh > ~/.zfunc/_metasched      # zsh
$ echo 'fpath=(~/.zfunc $fpath); autoload -Uz compinit && compinit' >> ~/.zshrc
```

Compiled programs are kept in your cache folder, so a second start is faster. `JAX_COMPILATION_CACHE_DIR` names another
place, and `JAX_ENABLE_COMPILATION_CACHE=false` turns this off.
"""


def paths(group: Commands, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, those of a group before its members."""
    for name in group.names():
        yield (*before, name)
        member = group.members[name]
        if isinstance(member, Commands):
            yield from paths(member, (*before, name))


def told(words: tuple[str, ...]) -> str:
    """What a command prints when it is asked for help."""
    written = io.StringIO()
    with redirect_stdout(written), suppress(SystemExit):
        main([*words, "--help"])
    plain = re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue())
    return "\n".join(line.rstrip() for line in plain.strip().splitlines())


def page() -> str:
    """The whole page."""
    parts = [f"## metasched\n\n```text\n{told(())}\n```\n"]
    for words in paths(common.app):
        parts.append(f"{'#' * (len(words) + 1)} metasched {' '.join(words)}\n\n```text\n{told(words)}\n```\n")
    return "\n".join([HEAD, *parts])


def same(left: str, right: str) -> bool:
    """Whether two pages say the same, wherever their lines break."""
    plain = [re.sub(r"(\s|[│╭╮╰╯─]|-{3,})+", " ", text) for text in (left, right)]
    return plain[0] == plain[1]


if __name__ == "__main__":
    os.environ.update(COLUMNS=WIDTH, NO_COLOR="1")
    fresh = page()
    if "--check" not in sys.argv:
        PAGE.write_text(fresh)
    elif not same(fresh, PAGE.read_text()):
        sys.exit("docs/reference/command-line.md: not what the commands say; run 'python tools/commands.py'")
