"""The command line of the case runner: choose cases, run them, report.

Failing cases are printed as they fail; the last line is always `N passed, M failed`.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from . import registry
from .case import CASE_WORDS, Case, CaseFailure, load
from .run import Run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files named on the command line; 0 when every case passed, else 1."""
    options = _parser().parse_args(arguments)
    cases: list[Case] = []
    unreadable = 0
    for path in options.files:
        try:
            cases += [case for case in load(path) if _is_chosen(case, options.only)]
        except ValueError as error:
            print(f"FAIL {error}", flush=True)
            unreadable += 1
    if not cases and not unreadable:
        print("FAIL no case was chosen", flush=True)
        unreadable = 1
    report = Report(verbose=options.verbose)
    with Run(options.kubeconfig) as run:
        execute(cases, run, jobs=options.jobs, report=report)
    if options.slowest:
        report.print_slowest(options.slowest)
    print(f"{report.passed} passed, {report.failed + unreadable} failed", flush=True)
    return 1 if report.failed or unreadable else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.harness", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="case files")
    parser.add_argument("--kubeconfig", type=Path, help="server to judge (default: start the embedded one)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="ID", help="case id or glob; may be repeated"
    )
    parser.add_argument("--jobs", type=int, default=8, metavar="N", help="cases at a time (default 8)")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="show the N slowest cases")
    parser.add_argument("-v", "--verbose", action="store_true", help="print passing cases too")
    return parser


def _is_chosen(case: Case, patterns: Iterable[str]) -> bool:
    patterns = list(patterns)
    return not patterns or any(fnmatch.fnmatchcase(case.id, pattern) for pattern in patterns)


class Report:
    """Counts outcomes and prints failures; used from several threads."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.passed = 0
        self.failed = 0
        self._verbose = verbose
        self._lock = threading.Lock()
        self._times: list[tuple[float, str]] = []

    def add(self, case: Case, seconds: float, failure: Sequence[str] | None) -> None:
        with self._lock:
            self._times.append((seconds, case.id))
            if failure is None:
                self.passed += 1
                if self._verbose:
                    print(f"ok   {case.id}", flush=True)
                return
            self.failed += 1
            print(f"FAIL {case.id} ({case.file.path.name})", flush=True)
            for line in failure:
                print(f"     {line}", flush=True)

    def print_slowest(self, count: int) -> None:
        for seconds, name in sorted(self._times, reverse=True)[:count]:
            print(f"{seconds:7.2f} s  {name}")


def execute(cases: Sequence[Case], run: Run, *, jobs: int, report: Report) -> None:
    """Run all cases, at most `jobs` at a time; a lane is one job, the exclusive lane comes last."""
    lanes: dict[str, list[Case]] = {}
    work: list[Callable[[], None]] = []

    def one(case: Case) -> Callable[[], None]:
        return lambda: _run_case(case, run, report)

    for case in cases:
        kind = registry.find(case)
        lane = kind.lane(case) if kind is not None else ""
        if lane:
            lanes.setdefault(lane, []).append(case)
        else:
            work.append(one(case))
    alone = lanes.pop(registry.EXCLUSIVE, [])
    for members in lanes.values():  # first in the queue: a lane is the longest job
        work.insert(0, lambda members=members: _run_all(members, run, report))  # type: ignore[misc]
    _in_parallel(work, jobs)
    _run_all(alone, run, report)


def _in_parallel(work: Sequence[Callable[[], None]], jobs: int) -> None:
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        futures: list[Future[None]] = [pool.submit(item) for item in work]
    for future in futures:
        future.result()


def _run_all(cases: Iterable[Case], run: Run, report: Report) -> None:
    for case in cases:
        _run_case(case, run, report)


def _run_case(case: Case, run: Run, report: Report) -> None:
    start = time.monotonic()
    failure: Sequence[str] | None = None
    try:
        kind = registry.find(case)
        if kind is None:
            raise CaseFailure(f"unknown kind {case.kind!r}")
        unknown = sorted(case.raw.keys() - CASE_WORDS)
        if unknown:
            raise CaseFailure(*(f"{word} is not understood" for word in unknown))
        kind.run(case, run)
    except CaseFailure as error:
        failure = error.lines
    except Exception as error:  # noqa: BLE001 - supervision point: a broken case must not end the run
        failure = [f"{type(error).__name__}: {error}"]
        if os.environ.get("QUARTERDECK_CASES_TRACEBACK"):
            traceback.print_exception(error, file=sys.stderr)
    report.add(case, time.monotonic() - start, failure)
