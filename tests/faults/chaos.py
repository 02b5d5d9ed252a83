"""The story of all operators under faults, for many seeds: see ``chaosworld``.

    python tests/faults/chaos.py --seeds 200 [--seconds 300]

A seed that is printed is broken; it breaks again in the same way with ``--first SEED --seeds 1``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from queue import Queue
from typing import Any

ROOT = Path(__file__).parents[2]


def tell(seeds: Iterable[int], *, restored: int = 0) -> Iterator[dict[str, Any]]:
    """Run seeds one after the other; yields what was broken (``problem``) and how often faults struck."""
    command = [sys.executable, "-m", "tests.faults.chaosseed"]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "CHAOS_RESTORED": str(restored)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True, bufsize=1
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for seed in seeds:
            print(seed, file=running.stdin)
            line = running.stdout.readline()
            if not line:
                raise SystemExit(f"seed {seed}: {' '.join(command)} ended without a word")
            yield json.loads(line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="at once (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no seed begins after so many")
    parser.add_argument(
        "--restored", type=int, default=0, metavar="N", help="restore the server in every Nth seed"
    )
    arguments = parser.parse_args()
    seeds, jobs = range(arguments.first, arguments.first + arguments.seeds), arguments.jobs
    limit: float = arguments.seconds
    began, struck, told, failed = time.monotonic(), Counter[str](), 0, 0
    reports: Queue[dict[str, Any] | None] = Queue()

    def is_time(_: int) -> bool:
        return time.monotonic() - began < limit

    def work(some: Iterable[int]) -> None:
        try:
            for report in tell(takewhile(is_time, some), restored=arguments.restored):
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
    is_complete = told == len(seeds) or not is_time(0)
    return 0 if is_complete and told and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
