"""A pytest plugin: which tests reach which functions, and only those that are wanted.

It is loaded into the pytest processes of ``tools/mutants.py`` with ``-p mutation.reach``, and the environment
says what it does:

    MUTATION_RECORD=FILE   write {"tests": {test: [seconds, passed]}, "reach": {file: {line: [test, ...]}}}
    MUTATION_TESTS=FILE    run only the tests named in the file, one per line

A function is known by its file and the line its code starts on, as the interpreter has it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import pytest

SOURCE: Final = f"{os.sep}src{os.sep}quarterdeck{os.sep}"


class Recorder:
    """Listens to calls. Codes are kept by identity: to hash one, the interpreter reads all of it."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._seen: dict[int, CodeType] = {}
        self._reach: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        self._tests: dict[str, tuple[float, bool]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        # every test starts anew: what it reaches is what is run from its set-up to its tear-down
        self._seen = {}
        sys.settrace(self._called)
        threading.settrace(self._called)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            for code in self._seen.values():
                if SOURCE in code.co_filename:
                    self._reach[code.co_filename][code.co_firstlineno].append(item.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tests[report.nodeid] = (0.0, False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds, passed = self._tests.get(report.nodeid, (0.0, True))
        self._tests[report.nodeid] = (seconds + report.duration, passed and not report.failed)

    def pytest_sessionfinish(self) -> None:
        self._output.write_text(json.dumps({"tests": self._tests, "reach": self._reach}))

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        self._seen[id(frame.f_code)] = frame.f_code


class Selection:
    """Leaves the wanted tests, in the order in which they are wanted."""

    def __init__(self, wanted: list[str]) -> None:
        self._place = {test: place for place, test in enumerate(wanted)}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if item.nodeid not in self._place]
        kept = [item for item in items if item.nodeid in self._place]
        items[:] = sorted(kept, key=lambda item: self._place[item.nodeid])
        config.hook.pytest_deselected(items=left_out)


def pytest_configure(config: pytest.Config) -> None:
    if output := os.environ.get("MUTATION_RECORD"):
        config.pluginmanager.register(Recorder(Path(output)))
    if wanted := os.environ.get("MUTATION_TESTS"):
        config.pluginmanager.register(Selection(Path(wanted).read_text().splitlines()))
