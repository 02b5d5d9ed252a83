"""The story of all operators under faults, for many seeds: see ``chaosworld``.

    python tests/faults/chaos.py --seeds 200

A seed that is printed is broken; it breaks again in the same way with ``--first SEED --seeds 1``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

ROOT = Path(__file__).parents[2]


def tell(seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Run seeds one after the other; yields what was broken (``problem``) and how often faults struck."""
    command = [sys.executable, "-m", "tests.faults.chaosseed", *map(str, seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            yield json.loads(line)
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {running.returncode}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="at once (default: %(default)s)")
    arguments = parser.parse_args()
    seeds, jobs = range(arguments.first, arguments.first + arguments.seeds), arguments.jobs
    began, struck, told, failed = time.monotonic(), Counter[str](), 0, 0
    reports: Queue[dict[str, Any] | None] = Queue()

    def work(some: Iterable[int]) -> None:
        try:
            for report in tell(some):
                reports.put(report)
        finally:
            reports.put(None)

    for number in range(jobs):
        threading.Thread(target=work, args=(seeds[number::jobs],)).start()
    while jobs:
        report = reports.get()
        if report is None:
            jobs -= 1
            continue
        told += 1
        print(f"\r{told} of {len(seeds)}", end="", file=sys.stderr, flush=True)
        struck.update(report["struck"])
        if report["problem"]:
            failed += 1
            print(f"\rseed {report['seed']}:\n  {report['problem']}", flush=True)
    words = ", ".join(f"{name} {count}" for name, count in sorted(struck.items()))
    print(f"\r{told} of {len(seeds)} seeds told, {failed} broken, {time.monotonic() - began:.0f} s")
    print(f"faults: {words}")
    return 1 if failed or told < len(seeds) else 0


if __name__ == "__main__":
    sys.exit(main())
