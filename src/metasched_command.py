"""The ``metasched`` program.

It is a module of its own beside the package: importing anything of the package takes a second or more, and Ctrl-C may
come meanwhile.
"""

import os
import signal


def main() -> None:
    """Import the command and run it. Ctrl-C during the import ends the process at once: there is no work to keep."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else Ctrl-C is ignored, as in the background, or somebody else's
        # No exception: a package may catch it halfway through its import, or turn it into an error of its own.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from metasched.cli import main as run

    run(on_ready=lambda: signal.signal(signal.SIGINT, usual))
