"""``run FOLDER`` or ``probe``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def main(words: Sequence[str]) -> int:
    _leave_descriptors()
    match words:
        case ["run", folder]:
            from quarterdeck.cluster.agent.shim.outside import run

            run(Path(folder))
            return 0
        case ["probe"]:
            from quarterdeck.cluster.agent.shim.probe import usable_namespaces

            print(json.dumps(usable_namespaces()))
            return 0
    print(__doc__, file=sys.stderr)
    return 2


def _leave_descriptors() -> None:
    """Whoever started us may have left more open than it meant to; a container must not hold on to that."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with suppress(OSError):
                os.close(int(name))


sys.exit(main(sys.argv[1:]))
