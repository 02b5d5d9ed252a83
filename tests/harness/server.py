"""Starting the embedded server for a run that names no kubeconfig."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from .wire import Target, WireError, load_kubeconfig

_START_TIMEOUT: Final = 120.0
_STOP_TIMEOUT: Final = 10.0


class EmbeddedServer:
    """A server process of this run; `stop` ends it and removes its files."""

    def __init__(
        self, process: subprocess.Popen[bytes], directory: tempfile.TemporaryDirectory[str], kubeconfig: Path
    ) -> None:
        self._process = process
        self._directory = directory
        self.kubeconfig = kubeconfig

    @property
    def pid(self) -> int:
        """Of the process; that of the controllers is its child."""
        return self._process.pid

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._directory.cleanup()


def start_embedded(operators: str = "none") -> EmbeddedServer:
    """Start `quarterdeck up` on a free port and wait until it is ready.

    Mostly without operators: the cases of an operator bring it along, with settings of their own. Without the
    admission plugin ServiceAccount, as the real server of the cases: no case has a token in its pods.
    Raises RuntimeError with the end of the server's output when it does not come up in two minutes.
    """
    directory = tempfile.TemporaryDirectory(prefix="quarterdeck-cases-")
    kubeconfig = Path(directory.name) / "kubeconfig"
    log = Path(directory.name) / "server.log"
    command = [sys.executable, "-m", "quarterdeck.cli", "up", "--port", "0", "--operators", operators]
    command += ["--disable-admission-plugins", "ServiceAccount"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--kubeconfig", str(kubeconfig)], stdout=output, stderr=subprocess.STDOUT
        )
    server = EmbeddedServer(process, directory, kubeconfig)
    deadline = time.monotonic() + _START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        if kubeconfig.exists() and _is_ready(kubeconfig):
            return server
        time.sleep(0.05)
    tail = log.read_text(errors="replace")[-2000:]
    server.stop()
    raise RuntimeError(f"the embedded server did not become ready:\n{tail}")


def _is_ready(kubeconfig: Path) -> bool:
    try:
        target: Target = load_kubeconfig(kubeconfig)
        connection = target.connect(timeout=5.0)
        try:
            return connection.request("GET", "/readyz").status == 200
        finally:
            connection.close()
    except (WireError, ValueError, KeyError, TypeError):  # a half-written kubeconfig is not ready yet
        return False
