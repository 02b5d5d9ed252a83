"""An operator as a process, and kubectl in front of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from kube.server import RealServer
from parity.runner import Kubectl

Json = dict[str, Any]
START_TIMEOUT = 60.0
STOP_TIMEOUT = 30.0
PATIENCE = 240.0
COMMAND = [sys.executable, "-m", "quarterdeck.cli"]
OLD = "nodegroups.v1alpha1.deckhouse.io"
MIDDLE = "nodegroups.v1alpha2.deckhouse.io"
CONVERSION_DATA = "node.deckhouse.io/conversion-data"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def embedded_cluster(operator: str = "nodegroup", nodes: int = 0) -> Iterator[Path]:
    """`quarterdeck up` with one operator; gives its kubeconfig."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-") as directory:
        kubeconfig = Path(directory, "kubeconfig")
        command = [*COMMAND, "up", "--port", "0", "--operators", operator, "--kubeconfig", str(kubeconfig)]
        command += ["--nodes", str(nodes)] if nodes else []
        with running(command, kubeconfig.exists):
            yield kubeconfig


@contextmanager
def real_cluster(operator: str = "nodegroup") -> Iterator[Path]:
    """A real kube-apiserver that calls `quarterdeck run` over TLS, by URL, with the CA it put there."""
    port, health = free_port(), free_port()
    with RealServer(fsync=False) as server:
        command = [
            *COMMAND, "run", "--kubeconfig", str(server.kubeconfig), "--operators", operator, "--install",
            "--webhook-host", "127.0.0.1", "--webhook-port", str(port),
            "--webhook-url", f"https://127.0.0.1:{port}",
            "--health-address", f"127.0.0.1:{health}", "--metrics-address", "0", "--no-leader-election",
        ]  # fmt: skip
        with running(command, lambda: is_ready(f"http://127.0.0.1:{health}/readyz")):
            yield server.kubeconfig


@contextmanager
def running(command: list[str], is_ready: Callable[[], bool]) -> Iterator[None]:
    """A program while it runs and is ready; it must end with code 0 on SIGTERM."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def said() -> str:
            log.seek(0)
            return log.read().decode(errors="replace")[-3000:]

        try:
            deadline = time.monotonic() + START_TIMEOUT
            while not is_ready():
                assert process.poll() is None, f"ended with code {process.returncode}: {said()}"
                assert time.monotonic() < deadline, f"not ready: {said()}"
                time.sleep(0.05)
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP_TIMEOUT) == 0, said()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def until(holds: Callable[[], object], complaint: str) -> None:
    """Wait for something; the first looks come soon, later ones are rarer: most of them start a program."""
    end, pause = time.monotonic() + PATIENCE, 0.1
    while not holds():
        assert time.monotonic() < end, complaint
        time.sleep(pause)
        pause = min(1.0, pause * 1.5)


class Hand:
    """One kubectl on one cluster."""

    def __init__(self, kubectl: Kubectl, kubeconfig: Path, directory: Path) -> None:
        self._program = kubectl.path
        self._directory = directory
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(directory),
            "KUBECONFIG": str(kubeconfig),
            "KUBECACHEDIR": str(directory / ".cache"),
            "KUBE_EDITOR": "true",
            "TMPDIR": str(directory),
            "LANG": "C",
            "NO_PROXY": "*",
            "GOGC": "off",  # a program that ends at once need not tidy up: a fifth of its time
        }

    def run(self, *words: str, manifest: Any = None, editor: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command; a manifest is given as standard input."""
        return subprocess.run(
            [self._program, *words],
            input=yaml.safe_dump(manifest) if manifest is not None else "",
            env={**self._environment, **({"KUBE_EDITOR": editor} if editor else {})},
            cwd=self._directory,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def __call__(self, *words: str, manifest: Any = None, editor: str = "") -> str:
        """What a command that succeeds prints."""
        done = self.run(*words, manifest=manifest, editor=editor)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def read(self, resource: str, name: str) -> Json:
        """An object as the server gives it in the version of `resource`."""
        found: Json = json.loads(self("get", resource, name, "-o", "json"))
        return found

    def apply(self, manifest: Json) -> str:
        return self("apply", "-f", "-", manifest=manifest)
