"""The ``metasched`` command: parses the words, calls the library, prints.

An error that the user can fix is one line on standard error and exit code 2. Ctrl-C ends with exit code 130 and keeps
the work so far. Results go to standard output, progress to standard error.
"""

import os
import sys
from collections.abc import Callable, Sequence

from rich.markup import escape

from metasched.cli.common import app, stderr
from metasched.errors import MetaschedError
from metasched.optional import version_of
from metasched.plugins import register_all
from metasched.printing import printable

__all__ = ["main"]

COMMANDS = {
    "compare": "Does choosing help, which model is best, and what is each source worth?",
    "data": "List, download, check and make data sets.",
    "demo": "Compare methods on digits turned by several angles; needs no files of yours.",
    "predict": "Predict new rows with the model of a run.",
    "report": "Make one page from results: the verdict, figures and tables, also as files.",
    "resume": "Continue an interrupted run. The numbers stay the same.",
    "status": "Show which runs of a folder are waiting, running, stale, failed or done.",
    "train": "Train on a data set with one scheduler.",
}
"""The first line of each command's help. A list of commands then imports none of them, because most import JAX."""
for _name, _line in COMMANDS.items():
    app.later(_name, f"{__name__}.{'train' if _name == 'resume' else _name}", _line)


def _with_new_names(words: list[str]) -> list[str]:
    if not words or words[0].startswith("-"):
        return words
    from metasched.cli.settings import with_new_names

    return with_new_names(words)


def _keep_compiled_programs() -> None:
    from metasched.runs.compiled import keep_compiled_programs

    keep_compiled_programs()


def main(argv: Sequence[str] | None = None, on_ready: Callable[[], object] | None = None) -> None:
    """Run the command. ``on_ready`` is called when everything it needs is imported and its arguments are parsed."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words == ["--version"]:
            print(f"metasched {version_of('metasched')}")
            return
        register_all("commands")
        command = app.parse(_with_new_names(words), "metasched")
        _keep_compiled_programs()
        if on_ready:
            on_ready()
        command()
    except MetaschedError as error:
        stderr().print(f"metasched: {escape(printable(str(error)))}", style="red", soft_wrap=True, highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        stderr().print("metasched: interrupted; the work so far is kept", highlight=False)
        if argv is None:
            # A compilation may still run in a thread of XLA. If the interpreter shut down under it, it would crash.
            sys.stdout.flush()
            os._exit(130)
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
