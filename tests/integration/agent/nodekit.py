"""A cluster whose only node is this machine, driven by kubectl; everything it starts ends with it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.harness.wire import Answer, Connection, load_kubeconfig

__all__ = ["KUBECTL", "Json", "LocalCluster", "Space", "local_cluster", "shims_in"]

KUBECTL: Final = shutil.which("kubectl")
Json = dict[str, Any]
_START_SECONDS: Final = 120.0
_PATIENCE: Final = 60.0


def shims_in(folder: Path) -> list[int]:
    """Processes that stand beside a container of a node."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"quarterdeck.cluster.agent.shim" in words and str(folder).encode() in words:
                found.append(int(entry.name))
    return found


class LocalCluster:
    """``quarterdeck up --local-node`` in a process of its own."""

    def __init__(
        self,
        folder: Path,
        *,
        arguments: tuple[str, ...] = (),
        config: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder: Final = folder
        self.kubeconfig: Final = folder / "kubeconfig"
        self._log: Final = folder / "log"
        self._arguments: Final = arguments
        self._environment: Final = {
            **os.environ,
            **(environment or {}),
            "XDG_STATE_HOME": str(folder),
            "HOME": str(folder),
        }
        self._config: Final = folder / "config.yaml"
        self._config.write_text(yaml.safe_dump(dict(config or {})))
        self._connection: Connection | None = None

    def start(self) -> None:
        """Start it and wait until it is ready."""
        root = ["--allow-root"] if os.geteuid() == 0 else []
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "quarterdeck.cli", "up", "--local-node", "--node-name", "box"),
                    *("--port", "0", "--kubeconfig", str(self.kubeconfig), "--config", str(self._config)),
                    *("--operators", "none", *root, *self._arguments),
                ],
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self.kubeconfig.exists() or "current-context" not in self.kubeconfig.read_text():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it in an orderly way."""
        self._disconnect()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            assert self._process.wait(60) == 0, self.log()[-3000:]
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def hang_up(self) -> None:
        """What all of them are told when a terminal is closed; returns when they have ended."""
        self._disconnect()
        os.killpg(self._process.pid, signal.SIGHUP)
        self._process.wait(60)

    def kill(self) -> None:
        """End the server, its controllers and the agent at once, without a word."""
        self._disconnect()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.kubeconfig.unlink(missing_ok=True)

    def agent(self) -> int:
        """The pid of the agent."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes()
                    parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                except OSError:
                    continue
                if b"quarterdeck.cli.localnode.process" in words and parent == self._process.pid:
                    return int(entry.name)
        return 0

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def call(self, method: str, path: str, document: Json | None = None) -> Answer:
        """What tests need without being about it: kubectl would take a hundred times as long."""
        self._connection = self._connection or load_kubeconfig(self.kubeconfig).connect()
        body = None if document is None else json.dumps(document).encode()
        return self._connection.request(method, path, body=body, headers={"Content-Type": "application/json"})

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def run(
        self,
        *words: str,
        input: str = "",
        timeout: float = _PATIENCE,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl."""
        assert KUBECTL is not None
        # a program that ends at once need not tidy up: a fifth of its time
        own = {"KUBECONFIG": str(self.kubeconfig), "GOGC": "off"}
        return subprocess.run(
            [KUBECTL, *words],
            env={**self._environment, **own, **(environment or {})},
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def kubectl(self, *words: str, input: str = "") -> str:
        """What kubectl prints; it must succeed."""
        done = self.run(*words, input=input)
        assert done.returncode == 0, f"{words}: {done.stderr}\n{self.log()[-2000:]}"
        return done.stdout

    @contextmanager
    def space(self, name: str) -> Iterator[Space]:
        """A namespace for one test."""
        own = f"/api/v1/namespaces/{name}"
        assert self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
        for _ in range(200):  # pods need the account that a controller makes
            if self.call("GET", f"{own}/serviceaccounts/default").status == 200:
                break
            time.sleep(0.05)
        try:
            yield Space(self, name)
        finally:
            self.call("DELETE", f"{own}/pods?gracePeriodSeconds=1")
            self.call("DELETE", own)


class Space:
    """One namespace."""

    def __init__(self, cluster: LocalCluster, name: str) -> None:
        self.cluster: Final = cluster
        self.name: Final = name

    def kubectl(self, *words: str, input: str = "") -> str:
        return self.cluster.kubectl(words[0], "-n", self.name, *words[1:], input=input)

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.cluster.run(words[0], "-n", self.name, *words[1:], **options)

    def apply(self, *documents: Json) -> None:
        self.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(documents))

    def pod(self, name: str, script: str = "", *, policy: str = "Never", **fields: Any) -> None:
        """Make a pod; ``script`` is what its only container runs, unless there are others."""
        container = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", script],
            **fields.pop("container", {}),
        }
        spec = {
            "restartPolicy": policy,
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
            **fields,
        }
        metadata = {"name": name, "labels": {"app": name}}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def get(self, name: str, kind: str = "pod") -> Json:
        found: Json = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return found

    def until(self, name: str, test: Callable[[Json], Any], *, seconds: float = _PATIENCE) -> Json:
        """The pod as soon as it passes a test."""
        deadline = time.monotonic() + seconds
        while True:
            answer = self.cluster.call("GET", f"/api/v1/namespaces/{self.name}/pods/{name}")
            assert answer.status == 200, answer.text()
            pod: Json = answer.json()
            if test(pod):
                return pod
            assert time.monotonic() < deadline, (
                f"{json.dumps(pod['status'], indent=1)}\n{self.cluster.log()[-3000:]}"
            )
            time.sleep(0.1)

    def phase(self, name: str, phase: str) -> Json:
        return self.until(name, lambda pod: pod["status"].get("phase") == phase)

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reasons and messages of a pod's events."""
        found = json.loads(
            self.kubectl("get", "events", "-o", "json", f"--field-selector=involvedObject.name={name}")
        )
        return [(each["reason"], each["message"]) for each in found["items"]]

    def logs(self, name: str, *words: str) -> str:
        return self.kubectl("logs", name, *words)


@contextmanager
def local_cluster(folder: Path, **options: Any) -> Iterator[LocalCluster]:
    """A running cluster; nothing of it is left at the end."""
    cluster = LocalCluster(folder, **options)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
        assert not shims_in(folder), "containers outlived their cluster"
