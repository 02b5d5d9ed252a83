"""Change single operators at random and see whether a unit test notices.

    python tools/mutants.py [ROOM ...] [--seconds 600] [--seed 1] [--count N] [--at FILE[:LINE]]

A room is a folder below ``src/quarterdeck``, such as ``runtime`` or ``operators/grove/logic``; without one
it is ``runtime``, ``scheduler`` and the ``logic`` of every operator. Its tests are those in the folder of the
same name below ``tests/unit``, or the nearest folder above; ``--tests`` names others.

First the tests of a room run once, and it is noted which of them reach which function. Then, until the time
of the room is over, one place in it is changed (``<`` to ``<=``, ``and`` to ``or``, ``+`` to ``-``, a number
by one, a ``not`` dropped, a result turned into ``None``), and the tests that reach it run until one fails,
the quick ones first, at most a minute of them. If none fails, the change survived. A run that takes ten times
as long as it should counts as noticed. The tests are collected once, and each change is tried in a fork; a
change to what runs at import is tried in a process of its own.

The seed decides which places, in which order; a longer run tries more of the same. Everything happens in
copies of the tree that are removed at the end. The last lines say the share per room:

    room                     changed  noticed   share   hung  not reached

``noticed`` includes ``hung``; ``not reached`` are places that no test of the room runs.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NoReturn, cast

TOOLS: Final = Path(__file__).resolve().parent
ROOT: Final = TOOLS.parent
sys.path.insert(0, str(TOOLS))

from mutation.change import Change, changes  # noqa: E402

SOURCE: Final = Path("src/quarterdeck")
RECORDING_SECONDS: Final = 1800
"""The tests of a room, once, with every call noted."""
TESTING_SECONDS: Final = 60
"""How long the tests of one change may take together; the quick ones are taken."""
PATIENCE: Final = 10
"""How many times its usual duration a run may take."""
START_SECONDS: Final = 120
"""What a run may take beyond its tests, on a busy machine: the interpreter, imports, collection."""

Verdict = Literal["noticed", "hung", "survived", "not reached"]


@dataclass
class Tests:
    """What the tests of a room reach, and how long each takes."""

    seconds: dict[str, float]
    reach: dict[Path, dict[int, list[str]]]

    def reaching(self, path: Path, function: int | None) -> list[str]:
        """The tests that run a function of a file, the quick ones first.

        What stands outside of functions runs on import: any test of the file may notice, and where it has no
        function, any test at all.
        """
        lines = self.reach.get(path, {})
        if function is not None:
            lines = {function: lines.get(function, [])}
        found = {test for tests in lines.values() for test in tests}
        if function is None and not found:
            found = set(self.seconds)
        return sorted(found, key=self.seconds.__getitem__)

    def quick(self, tests: Sequence[str]) -> list[str]:
        """The first of these, as many as fit into the time that one change may take."""
        together = itertools.accumulate(self.seconds[test] for test in tests)
        fitting = sum(1 for seconds in together if seconds <= TESTING_SECONDS)
        return [*tests[: max(fitting, 1)]]


@dataclass
class Result:
    """How the changes of one room fared."""

    room: str
    verdicts: Counter[Verdict] = field(default_factory=Counter)

    def __str__(self) -> str:
        total = self.verdicts.total()
        noticed = self.verdicts["noticed"] + self.verdicts["hung"]
        share = f"{100 * noticed / total:.0f} %" if total else "-"
        rest = f"{self.verdicts['hung']:6} {self.verdicts['not reached']:12}"
        return f"{self.room:28} {total:8} {noticed:8} {share:>7} {rest}"


class Copy:
    """A copy of the tree in which files are changed and tests run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        for name in listed.stdout.decode().split("\0"):
            if name and (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        self._tick = int(time.time())

    def write(self, path: Path, source: bytes) -> None:
        """Replace a file; each text gets a time of its own, so that no compiled file passes for it."""
        self._tick += 1
        (self.root / path).write_bytes(source)
        os.utime(self.root / path, (self._tick, self._tick))

    def pytest(self, *words: str, timeout: float, **settings: str) -> int | None:
        """The exit code, or ``None`` for a run that had to be ended."""
        process = self.start(["-p", "mutation.reach", *words], settings)
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end(process)

    def start(
        self, words: Sequence[str], settings: Mapping[str, str], inherited: Sequence[int] = ()
    ) -> subprocess.Popen[bytes]:
        """A run of pytest in the copy."""
        places = [str(self.root / "src"), str(self.root / "tools")]
        environment = {
            **os.environ,
            **settings,
            "PYTHONPATH": os.pathsep.join(places),
            "PYTHONPYCACHEPREFIX": str(self.root / "compiled"),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what did not change is compiled once
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:xdist", *words],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=inherited,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Whatever the tests started belongs to the session of the run and ends with it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Warm:
    """The tests of a room, collected once in a process that tries each change in a fork."""

    def __init__(self, copy: Copy, folders: Sequence[str]) -> None:
        self._root: Final = copy.root
        asked, self._questions = os.pipe()
        self._answers, told = os.pipe()
        self._process: Final = copy.start(
            ["-p", "mutation.warm", "--continue-on-collection-errors", *folders],
            {"MUTATION_PIPES": f"{asked},{told}"},
            inherited=(asked, told),
        )
        os.close(asked)
        os.close(told)
        self._reader: Final = os.fdopen(self._answers, "rb")
        self._passes: Final[dict[str, bool]] = {}
        """Whether a test that has failed in a fork passes in one unchanged."""

    def judge(self, path: Path, source: bytes, tests: Sequence[str], seconds: float) -> Verdict | None:
        """Whether one of these tests notices a file's new text; ``None`` if a fork cannot tell."""
        verdict, test = self._ask(path, source, tests, seconds)
        if verdict == "noticed" and not self._is_right(path, test, seconds):
            return None
        return cast("Verdict", verdict) if verdict in ("noticed", "hung", "survived") else None

    def _is_right(self, path: Path, test: str, seconds: float) -> bool:
        if test and test not in self._passes:
            unchanged = (self._root / path).read_bytes()
            self._passes[test] = self._ask(path, unchanged, [test], seconds)[0] == "survived"
        return self._passes.get(test, True)

    def _ask(self, path: Path, source: bytes, tests: Sequence[str], seconds: float) -> tuple[str, str]:
        question = {"path": str(self._root / path), "source": source.decode(), "tests": tests}
        line = json.dumps({**question, "seconds": seconds}) + "\n"
        try:
            with memoryview(line.encode()) as left:
                while left:
                    left = left[os.write(self._questions, left) :]
        except BrokenPipeError:
            return "cold", ""
        answer = json.loads(self._reader.readline() or b'{"verdict": "cold", "test": ""}')
        return answer["verdict"], answer["test"]

    def close(self) -> None:
        """End the process."""
        os.close(self._questions)
        self._reader.close()
        end(self._process)


def record(copy: Copy, folders: Sequence[str]) -> Tests:
    """Run the tests once; those that fail unchanged, or cannot be read, are named and left out."""
    output = copy.root / "reach.json"
    words = ("--continue-on-collection-errors", *folders)
    code = copy.pytest(*words, timeout=RECORDING_SECONDS, MUTATION_RECORD=str(output))
    if code is None or not output.exists():
        raise SystemExit(f"the tests in {', '.join(folders)} do not come to an end unchanged")
    found = json.loads(output.read_text())
    output.unlink()
    failing = {test for test, (_, passed) in found["tests"].items() if not passed}
    for test in sorted(failing):
        print(f"  left out, fails unchanged: {test}", flush=True)
    if len(failing) == len(found["tests"]):
        raise SystemExit(f"no test in {', '.join(folders)} passes unchanged")
    reach = {
        Path(name).relative_to(copy.root): {
            int(line): [test for test in tests if test not in failing] for line, tests in lines.items()
        }
        for name, lines in found["reach"].items()
        if Path(name).is_relative_to(copy.root)
    }
    seconds = {test: took for test, (took, _) in found["tests"].items() if test not in failing}
    print(f"  {len(seconds)} tests, {sum(seconds.values()):.0f} s", flush=True)
    return Tests(seconds, reach)


def judge(copy: Copy, warm: Warm, tests: Tests, path: Path, change: Change) -> Verdict:
    """Whether a test notices the change."""
    source = (copy.root / path).read_bytes()
    wanted = tests.reaching(path, _function(source, change.line))
    if not wanted:
        return "not reached"
    selected = tests.quick(wanted)
    timeout = START_SECONDS + PATIENCE * sum(tests.seconds[test] for test in selected)
    verdict = warm.judge(path, change.applied(source), selected, timeout)
    if verdict is not None:
        return verdict
    names = copy.root / "wanted.txt"
    names.write_text("\n".join(selected))
    files = sorted({test.partition("::")[0] for test in selected})
    copy.write(path, change.applied(source))
    try:
        code = copy.pytest("--exitfirst", *files, timeout=timeout, MUTATION_TESTS=str(names))
    finally:
        copy.write(path, source)
    return "hung" if code is None else "noticed" if code else "survived"


def _function(source: bytes, line: int) -> int | None:
    """Where the code of the innermost function around a line starts; ``None`` outside of functions."""
    starts = [
        min((node.lineno, *(each.lineno for each in node.decorator_list)))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(starts, default=None)


def candidates(root: Path, room: str, at: str, seed: int) -> Iterator[tuple[Path, Change]]:
    """The changes of a room in the order of the seed."""
    name, _, line = at.partition(":")
    found = [
        (path.relative_to(root), change)
        for path in sorted((root / SOURCE / room).rglob("*.py"))
        if not name or path.match(name)
        for change in changes(path.read_bytes())
        if not line or change.line == int(line)
    ]
    random.Random(seed).shuffle(found)
    yield from found


def run_room(room: str, options: argparse.Namespace, seconds: float) -> Result:
    result = Result(room)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copy = Copy(Path(scratch).resolve())
        folders = options.tests or [str(_nearest_tests(room))]
        print(f"{room}: tests of {', '.join(folders)}", flush=True)
        tests = record(copy, folders)
        ends = time.monotonic() + seconds
        with contextlib.closing(Warm(copy, folders)) as warm:
            for path, change in candidates(copy.root, room, options.at, options.seed):
                if time.monotonic() >= ends or result.verdicts.total() >= options.count:
                    break
                verdict = judge(copy, warm, tests, path, change)
                result.verdicts[verdict] += 1
                place = f"{path.relative_to(SOURCE)}:{change.line}"
                print(f"  {result.verdicts.total():4} {verdict:12} {place}  {change}", flush=True)
    return result


def _nearest_tests(room: str) -> Path:
    folder = Path("tests/unit") / room
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return folder


def default_rooms() -> list[str]:
    logic = sorted((ROOT / SOURCE / "operators").glob("*/logic"))
    return ["runtime", "scheduler", *(str(path.relative_to(ROOT / SOURCE)) for path in logic)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help="a folder below src/quarterdeck")
    parser.add_argument("--seconds", type=float, default=600, help="for all rooms together, after recording")
    parser.add_argument("--seed", type=int, default=1, help="which places are changed")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="at most so many changes per room")
    parser.add_argument("--at", default="", help="only changes in files of this name, or on one line of them")
    parser.add_argument("--tests", nargs="+", help="folders or files of tests instead of the room's own")
    options = parser.parse_args()
    rooms = [room.strip("/") for room in options.rooms] or default_rooms()
    for room in rooms:
        if not (ROOT / SOURCE / room).is_dir():
            parser.error(f"there is no folder {SOURCE / room}")
    signal.signal(signal.SIGTERM, _interrupted)
    results = []
    try:
        for room in rooms:
            results.append(run_room(room, options, options.seconds / len(rooms)))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(f"\n{'room':28} {'changed':>8} {'noticed':>8} {'share':>7} {'hung':>6} {'not reached':>12}")
    for result in results:
        print(result)
    return 0


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
