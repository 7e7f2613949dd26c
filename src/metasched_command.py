"""The ``metasched`` program.

It is a module of its own beside the package: importing the package takes a second or more, and the user may press
Ctrl-C meanwhile.
"""

import os
import signal


def main() -> None:
    """Import the command and run it. Ctrl-C during the import ends the process at once: there is no work to keep."""
    usual = signal.getsignal(signal.SIGINT)
    if (
        usual is signal.default_int_handler
    ):  # otherwise Ctrl-C is ignored, as for a background process, or somebody else handles it
        # No exception: a package may catch it halfway through its import, or turn it into an error of its own.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from metasched.cli import main as run

    run(on_ready=lambda: signal.signal(signal.SIGINT, usual))
