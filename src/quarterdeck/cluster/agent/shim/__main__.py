"""``run FOLDER``, ``exec FOLDER [--tty] -- COMMAND …`` or ``probe``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path


def main(words: Sequence[str]) -> int:
    match words:
        case ["run", folder]:
            from quarterdeck.cluster.agent.shim.outside import run

            run(Path(folder))
            return 0
        case ["exec", folder, "--tty", "--", *command]:
            from quarterdeck.cluster.agent.shim.enter import enter

            return enter(Path(folder), command, tty=True)
        case ["exec", folder, "--", *command]:
            from quarterdeck.cluster.agent.shim.enter import enter

            return enter(Path(folder), command, tty=False)
        case ["probe"]:
            from quarterdeck.cluster.agent.shim.probe import usable_namespaces

            print(json.dumps(usable_namespaces()))
            return 0
    print(__doc__, file=sys.stderr)
    return 2


sys.exit(main(sys.argv[1:]))
