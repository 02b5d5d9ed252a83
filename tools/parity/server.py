"""Starts the servers that are compared, each fresh and on 127.0.0.1."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kube.server import RealServer

START_TIMEOUT: Final = 30.0
STOP_TIMEOUT: Final = 10.0


class ServerError(Exception):
    """The embedded server did not start, or did not stop as it should."""


@dataclass(frozen=True)
class Embedded:
    """A running embedded server. pid: for measuring its memory."""

    kubeconfig: Path
    pid: int


@contextlib.contextmanager
def embedded(args: Sequence[str] = (), *, controllers: bool = False) -> Iterator[Embedded]:
    """A fresh embedded server as a user starts it; it must end with code 0 on SIGTERM.

    As the real one's, its pods have no service account.
    """
    cluster = ["up", "--operators", "", "--disable-admission-plugins", "ServiceAccount"]
    verb = cluster if controllers else ["apiserver"]
    program = Path(sys.executable).parent / "quarterdeck"
    with tempfile.TemporaryDirectory(prefix="quarterdeck-") as directory:
        kubeconfig = Path(directory) / "kubeconfig"
        log = Path(directory) / "log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [program, *verb, "--port", "0", "--kubeconfig", kubeconfig, *args],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            _wait_ready(process, kubeconfig, log)
            yield Embedded(kubeconfig, process.pid)
            if process.poll() is not None:
                raise ServerError(f"ended by itself with code {process.returncode}: {_tail(log)}")
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                raise ServerError(f"did not stop within {STOP_TIMEOUT:.0f} s: {_tail(log)}") from None
            if code:
                raise ServerError(f"stopped with code {code}: {_tail(log)}")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


@contextlib.contextmanager
def real(args: Sequence[str] = (), *, controllers: bool = False) -> Iterator[Path]:
    """A fresh kube-apiserver with etcd; gives the path of its kubeconfig."""
    with RealServer(fsync=False, controllers=controllers, apiserver_args=tuple(args)) as server:
        yield server.kubeconfig


def _wait_ready(process: subprocess.Popen[bytes], kubeconfig: Path, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not kubeconfig.exists():
        if process.poll() is not None:
            raise ServerError(f"quarterdeck apiserver ended with code {process.returncode}: {_tail(log)}")
        if time.monotonic() > deadline:
            raise ServerError(f"quarterdeck apiserver is not ready: {_tail(log)}")
        time.sleep(0.02)


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]
