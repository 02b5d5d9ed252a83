"""The way in: `quarterdeck`, or `python -m quarterdeck.cli`."""

import os
import signal
import sys

_INTERRUPTED = 130


def main() -> int:
    """Run the command of this process.

    Ctrl-C while modules are still imported ends it at once: there is nothing to put in order yet, and modules
    written in C do not survive an exception in the middle of their import.
    """
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    from quarterdeck.cli.main import main as run

    signal.signal(signal.SIGINT, before)
    return run()


if __name__ == "__main__":
    sys.exit(main())
