"""`python -m benchmarks [NAME...] [-- options of one benchmark]`."""

from __future__ import annotations

import importlib
import sys

NAMES = (
    "apiserver",
    "inprocess",
    "responsiveness",
    "unread",
    "cluster",
    "pages",
    "queue",
    "reconcile",
    "turns",
    "informer",
    "webhook",
    "nodegroup",
    "ipam",
    "ipam_million",
    "scheduler",
    "placement",
    "trainer",
    "grove",
    "testkit",
    "cel",
    "yaml_answers",
    "dashboard",
)


def main() -> int:
    arguments = sys.argv[1:]
    chosen = [name for name in arguments if name in NAMES] or list(NAMES)
    options = [argument for argument in arguments if argument not in NAMES and argument != "--"]
    code = 0
    for name in chosen:
        module = importlib.import_module(f"benchmarks.{name}")
        code = max(code, module.main(options))
    return code


if __name__ == "__main__":
    sys.exit(main())
