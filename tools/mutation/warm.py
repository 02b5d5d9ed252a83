"""A pytest plugin: the tests are collected once, and every change is tried in a fork of that process.

It is loaded by ``tools/mutants.py`` with ``-p mutation.warm``; ``MUTATION_PIPES=READ,WRITE`` names two open
descriptors. A question is a line of JSON, ``{"path", "source", "tests", "seconds"}``: the file, its changed
text, the tests to run until one fails, and how long that may take. The answer is another, ``{"verdict",
"test"}``: ``noticed`` and by which test, ``survived``, ``hung``, or ``cold`` for a change that a fork cannot
make.

In the fork the code of the functions that differ is replaced. What runs at import (constants, defaults of
parameters, class bodies) has run already: such a change is answered with ``cold``.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from collections import defaultdict
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NoReturn, TypeAlias

import pytest

Place: TypeAlias = tuple[str, int, str]
NOTICED: Final = 1
COLD: Final = 2
_VERDICTS: Final = {0: "survived", COLD: "cold"}


class Functions:
    """The functions of the package that exist, by the place of their code."""

    def __init__(self, root: str) -> None:
        gc.unfreeze()  # what the test suite froze is not listed
        self._known: dict[Place, list[FunctionType]] = defaultdict(list)
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(root):
                self._known[_place(each.__code__)].append(each)
        gc.freeze()

    def replace(self, before: CodeType, after: CodeType, *, is_made_anew: bool = False) -> bool:
        """Give all functions the code of a changed file; no if what differs has run already.

        ``is_made_anew``: functions of this code come into being when one runs that has its new code.
        """
        if not _differs(before, after):
            return True
        functions = self._known.get(_place(before), ())
        for function in functions:
            try:
                function.__code__ = after
            except ValueError:  # it closes over another number of variables
                return False
        is_made_anew = is_made_anew or bool(functions)
        if _own(before) != _own(after) and not is_made_anew:
            return False
        pairs = zip(_inner(before), _inner(after), strict=False)
        return all(self.replace(one, other, is_made_anew=is_made_anew) for one, other in pairs)


def _differs(before: CodeType, after: CodeType) -> bool:
    """Whether two pieces of code do something else, or what they define does."""
    pairs = zip(_inner(before), _inner(after), strict=False)
    return _own(before) != _own(after) or any(_differs(one, other) for one, other in pairs)


def _inner(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _own(code: CodeType) -> tuple[object, ...]:
    constants = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_firstlineno, code.co_qualname


class Server:
    """Answers questions instead of running the tests."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader: Final = os.fdopen(reader, "r")
        self._writer: Final = os.fdopen(writer, "w")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        functions = Functions(str(Path.cwd() / "src"))
        for line in self._reader:
            print(self._try(json.loads(line), items, functions), file=self._writer, flush=True)
        self._reader.close()
        self._writer.close()
        return True

    def _try(self, question: dict[str, Any], items: dict[str, pytest.Item], functions: Functions) -> str:
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            _run(question, [items[name] for name in question["tests"] if name in items], functions, tell)
        os.close(tell)
        verdict = self._wait(child, question["seconds"])
        with os.fdopen(told) as failed:
            return json.dumps({"verdict": verdict, "test": failed.read()})

    def _wait(self, child: int, seconds: float) -> str:
        ends = time.monotonic() + seconds
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done or time.monotonic() > ends:
                break
            time.sleep(0.01)
        _end_group(child)
        if not done:
            os.waitpid(child, 0)
            return "hung"
        return _VERDICTS.get(os.waitstatus_to_exitcode(status), "noticed")


def _end_group(leader: int) -> None:
    """Whatever the tests started ends with them."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


class _Failures:
    has_failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.has_failed = self.has_failed or report.failed


def _run(question: dict[str, Any], items: list[pytest.Item], functions: Functions, tell: int) -> NoReturn:
    """In the fork: make the change, run the tests, tell which of them failed, and leave."""
    code = NOTICED
    try:
        os.setsid()
        path = question["path"]
        before = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        after = compile(question["source"], path, "exec", dont_inherit=True)
        code = _judge(items, tell) if functions.replace(before, after) and items else COLD
    finally:
        os._exit(code)


def _judge(items: list[pytest.Item], tell: int) -> int:
    failures = _Failures()
    items[0].config.pluginmanager.register(failures)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures.has_failed:
            os.write(tell, item.nodeid.encode())
            return NOTICED
    return 0


def pytest_configure(config: pytest.Config) -> None:
    if pipes := os.environ.get("MUTATION_PIPES"):
        reader, writer = map(int, pipes.split(","))
        config.pluginmanager.register(Server(reader, writer))
