"""The ``metasched`` command: parses, calls, prints.

What a user can mend is one line on standard error and exit code 2; Ctrl-C is exit code 130 with the work so far kept.
Results go to standard output, progress to standard error.
"""

import os
import sys
from collections.abc import Sequence

import tyro
from rich.markup import escape

from metasched.cli import data, evidence, train
from metasched.cli.common import app, stderr
from metasched.datasets.store import cache_folder
from metasched.errors import MetaschedError

__all__ = ["data", "evidence", "main", "train"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    # What XLA compiles is kept in the user's cache, so that the second start is quick.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
    try:
        app.cli(
            prog="metasched",
            args=argv,
            description="Decides which data source the next training batch comes from.",
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    except MetaschedError as error:
        stderr().print(f"metasched: {escape(str(error))}", style="red", soft_wrap=True, highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        stderr().print("metasched: interrupted; the work so far is kept", highlight=False)
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
