"""The ``metasched`` command: parses, calls, prints.

What a user can mend is one line on standard error and exit code 2; Ctrl-C is exit code 130 with the work so far kept.
Results go to standard output, progress to standard error.
"""

import os
import sys
from collections.abc import Sequence

from rich.markup import escape

from metasched.cli import compare, data, demo, predict, report, status, train
from metasched.cli.common import app, stderr
from metasched.cli.settings import with_new_names
from metasched.errors import MetaschedError
from metasched.optional import version_of
from metasched.plugins import register_all
from metasched.printing import printable
from metasched.runs.compiled import keep_compiled_programs

__all__ = ["compare", "data", "demo", "main", "predict", "report", "status", "train"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words == ["--version"]:
            print(f"metasched {version_of('metasched')}")
            return
        keep_compiled_programs()
        register_all("commands")
        app.parse(with_new_names(words), "metasched")()
    except MetaschedError as error:
        stderr().print(f"metasched: {escape(printable(str(error)))}", style="red", soft_wrap=True, highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        stderr().print("metasched: interrupted; the work so far is kept", highlight=False)
        if argv is None:
            # A compilation may still run in a thread of XLA, and taking the interpreter down under it crashes.
            sys.stdout.flush()
            os._exit(130)
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
