"""A cluster in the background: the same command again, without this terminal."""

from __future__ import annotations

import itertools
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from quarterdeck.cli.error import CommandError

from .instance import log_path

_PATIENCE_BEFORE_PROGRESS = 2.0


def start_detached(arguments: Sequence[str], name: str) -> int:
    """Start ``quarterdeck`` with these arguments in a session of its own; returns when it is ready."""
    log = log_path(name)
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with log.open("w") as output:
        process = subprocess.Popen(  # noqa: S603 - this program, with the user's own arguments
            [sys.executable, "-m", "quarterdeck.cli", *arguments, "--name", name, "--log-file", str(log)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
    line = _first_line(process)
    if not line.startswith("ready: "):
        process.wait()
        raise CommandError(_last_line(log) or f"the cluster did not start; its log is {log}")
    print(line, end="")
    assert process.stdout is not None
    for _ in range(2):  # how to get in, and where to look
        print(process.stdout.readline().decode(), end="")
    print(f"stop it with: quarterdeck down {name}")
    return 0


def _first_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    started = time.monotonic()
    is_terminal = sys.stderr.isatty()
    for sign in itertools.cycle("|/-\\"):
        readable, _, _ = select.select([process.stdout], [], [], 0.2)
        if readable:
            break
        if is_terminal and time.monotonic() - started > _PATIENCE_BEFORE_PROGRESS:
            print(f"\rstarting {sign}", end="", file=sys.stderr, flush=True)
    if is_terminal:
        print("\r", end="", file=sys.stderr)
    return process.stdout.readline().decode()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1].removeprefix("quarterdeck: ") if lines else ""
