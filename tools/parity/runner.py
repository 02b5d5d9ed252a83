"""Executes the script with one kubectl against one server, step by step, and keeps normalised outcomes."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .normal import normalise, raw
from .script import FILES, Step, Watch, insert

STEP_TIMEOUT: Final = 30.0
WATCH_TIMEOUT: Final = 8.0
#: how long a command without output gets before the commands beside it start
HEAD_START: Final = 0.4
#: how many commands that only read run at the same time
READERS: Final = 4


@dataclass(frozen=True)
class Outcome:
    """What a step did, normalised. code: the exit code; -1 not finished in time."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass(frozen=True)
class Kubectl:
    """A kubectl program; version is its ``major.minor``."""

    path: Path
    version: str


def probe(path: Path) -> Kubectl:
    """Ask a program for its version."""
    text = subprocess.run(
        [path, "version", "--client"], capture_output=True, text=True, check=True, timeout=STEP_TIMEOUT
    ).stdout
    found = re.search(r"v(\d+\.\d+)\.", text)
    if not found:
        raise ValueError(f"{path} does not look like kubectl: {text[:100]!r}")
    return Kubectl(path, found[1])


def find_kubectls(built: Path | None = None) -> list[Kubectl]:
    """The kubectl on PATH and the one ``make kube`` builds, one for each version."""
    paths = [Path(program)] if (program := shutil.which("kubectl")) else []
    if built is not None and built.exists():
        paths.append(built)
    found = {}
    for path in paths:
        # A program of that name that is something else, or broken, is none.
        with contextlib.suppress(subprocess.SubprocessError, OSError, ValueError):
            kubectl = probe(path)
            found[kubectl.version] = kubectl
    return list(found.values())


class Runner:
    """One run of a script: a working directory of its own, and values saved by earlier steps."""

    def __init__(self, kubectl: Kubectl, kubeconfig: Path, directory: Path) -> None:
        self._kubectl = kubectl
        self._directory = directory
        self._saved: dict[str, str] = {}
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(directory),
            "KUBECONFIG": str(kubeconfig),
            "KUBECACHEDIR": str(directory / ".cache"),
            "TMPDIR": "/tmp",
            "LANG": "C",
            "TZ": "UTC",
            "NO_PROXY": "*",
            # A program that ends at once need not tidy up: a fifth of its time.
            "GOGC": "off",
            # A step that edits says how; others must not open an editor and wait for a human.
            "KUBE_EDITOR": "true",
        }
        shutil.copytree(FILES, directory, dirs_exist_ok=True)

    def run(self, step: Step) -> Outcome:
        """Execute one step; never raises for what kubectl or the server does."""
        if step.watch is not None:
            code, out, err = self._watch(step, step.watch)
        elif step.proxy:
            code, out, err = self._proxy(step)
        else:
            deadline = time.monotonic() + step.until
            code, out, err = self._call(step)
            while code != step.code and time.monotonic() < deadline:
                time.sleep(HEAD_START)
                code, out, err = self._call(step)
        if step.save:
            self._saved[step.save] = out.strip()

        def clean(text: str) -> str:
            return normalise(
                text, form=step.form, sort=step.sort, drop=step.drop, directory=str(self._directory)
            )

        return Outcome(code, clean(out), clean(err))

    def _start(self, step: Step) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self._kubectl.path, *step.args(self._saved)],
            stdin=subprocess.DEVNULL if step.input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._directory,
            env={**self._environment, **step.env},
            start_new_session=True,
        )

    def _call(self, step: Step) -> tuple[int, str, str]:
        process = self._start(step)
        data = None if step.input is None else insert(step.input, self._saved).encode()
        try:
            out, err = process.communicate(data, timeout=STEP_TIMEOUT)
        except subprocess.TimeoutExpired:
            # kubectl's own children (an editor, diff) hold the pipes too.
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return -1, out.decode(errors="replace"), err.decode(errors="replace")
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def _watch(self, step: Step, watch: Watch) -> tuple[int, str, str]:
        process = self._start(step)
        assert process.stdout is not None
        lines = _Lines(process.stdout.fileno())
        if watch.ready:
            lines.read(watch.ready, WATCH_TIMEOUT)
        else:
            time.sleep(HEAD_START)
        errors = ""
        for command in watch.during:
            args = [insert(arg, self._saved) for arg in shlex.split(command)]
            done = subprocess.run(
                [self._kubectl.path, *args],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                cwd=self._directory,
                env=self._environment,
                timeout=STEP_TIMEOUT,
                check=False,
            )
            errors += done.stderr
        # Without a number of lines the command must end by itself.
        lines.read(watch.lines or 1 << 30, WATCH_TIMEOUT)
        ended = not watch.lines
        if ended:
            try:
                process.wait(WATCH_TIMEOUT)
            except subprocess.TimeoutExpired:
                ended = False
        process.terminate()
        _, err = process.communicate(timeout=STEP_TIMEOUT)
        code = process.returncode if ended else (0 if lines.count >= watch.lines > 0 else -1)
        return code, lines.text, errors + err.decode(errors="replace")

    def _proxy(self, step: Step) -> tuple[int, str, str]:
        process = self._start(step)
        assert process.stdout is not None
        lines = _Lines(process.stdout.fileno())
        lines.read(1, WATCH_TIMEOUT)
        text = lines.text
        code = -1
        if found := re.search(r"127\.0\.0\.1:\d+", text):
            text += "".join(f"{path}: {_fetch(f'http://{found[0]}{path}')}\n" for path in step.proxy)
            code = 0
        process.terminate()
        _, err = process.communicate(timeout=STEP_TIMEOUT)
        return code, text, err.decode(errors="replace")


def run_script(steps: Iterable[Step], kubectl: Kubectl, kubeconfig: Path) -> dict[str, Outcome]:
    """All steps in order on a fresh server: step id -> outcome. Neighbours that only read run at once."""
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="parity-") as directory:
        runner = Runner(kubectl, kubeconfig, Path(directory))
        chosen = [step for step in steps if step.is_for(kubectl.version)]
        with ThreadPoolExecutor(max_workers=READERS) as pool:
            for is_reading, group in itertools.groupby(chosen, key=lambda step: step.is_reading):
                members = list(group)
                results = (pool.map if is_reading else map)(runner.run, members)
                outcomes |= {step.id: outcome for step, outcome in zip(members, results, strict=True)}
    return outcomes


class _Lines:
    """Reads lines from a pipe with a deadline, without a thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._data = b""

    @property
    def count(self) -> int:
        return self._data.count(b"\n")

    @property
    def text(self) -> str:
        return self._data.decode(errors="replace")

    def read(self, lines: int, timeout: float) -> None:
        """Read until that many lines are there in all, the pipe ends or the time is up."""
        deadline = time.monotonic() + timeout
        while self.count < lines and (left := deadline - time.monotonic()) > 0:
            if select.select([self._descriptor], [], [], left)[0]:
                chunk = os.read(self._descriptor, 1 << 16)
                if not chunk:
                    return
                self._data += chunk


def _fetch(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=STEP_TIMEOUT) as answer:
            return f"{answer.status} {raw(answer.read().decode(errors='replace'))}"
    except urllib.error.HTTPError as error:
        return f"{error.code} {raw(error.read().decode(errors='replace'))}"
    except OSError as error:
        return f"failed: {error}"
