"""A cluster on a data directory, by the command, and what is in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.harness.wire import Connection, load_kubeconfig

Json = dict[str, Any]

PODS = "/api/v1/pods"
KEPT = (
    PODS,
    "/api/v1/nodes",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/jobs",
    "/apis/deckhouse.io/v1/nodegroups",
    "/apis/grove.io/v1alpha1/podcliques",
    "/apis/grove.io/v1alpha1/podcliquescalinggroups",
    "/apis/grove.io/v1alpha1/podcliquesets",
    "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
    "/apis/plexaubnet.io/v1alpha1/subnetclaims",
    "/apis/plexaubnet.io/v1alpha1/subnetpoolclaims",
    "/apis/plexaubnet.io/v1alpha1/subnetpools",
    "/apis/plexaubnet.io/v1alpha1/subnets",
    "/apis/scheduling.run.ai/v2/queues",
    "/apis/scheduling.run.ai/v2alpha2/podgroups",
    "/apis/scheduler.grove.io/v1alpha1/podgangs",
    "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes",
    "/apis/trainer.kubeflow.org/v1alpha1/trainjobs",
)
"""Lists whose objects are a user's, or are made for them."""


class Up:
    """`quarterdeck up` on a data directory; ``source`` is the folder of another version's code."""

    def __init__(self, folder: Path, *, source: Path | None = None) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._log = folder / "log"
        options = ["--port", "0", "--nodes", "2", "--node-capacity", "nvidia.com/gpu=8"]
        options += ["--data-dir", str(folder / "data"), "--kubeconfig", str(self.kubeconfig)]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "quarterdeck.cli", "up", *options, "--log-level", "INFO"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=dict(os.environ) | ({"PYTHONPATH": str(source)} if source is not None else {}),
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready: "), self.log
        self.connection: Connection = load_kubeconfig(self.kubeconfig).connect(timeout=60.0)

    @property
    def log(self) -> str:
        """What it logged so far."""
        return self._log.read_text()

    def get(self, path: str) -> Json:
        """The answer to a GET."""
        answer = self.connection.request("GET", path)
        assert answer.status == 200, answer.body
        found: Json = json.loads(answer.body)
        return found

    def items(self, path: str) -> dict[str, Json]:
        """The objects of a list, by their UID."""
        return {each["metadata"]["uid"]: each for each in self.get(path)["items"]}

    def objects(self) -> dict[str, dict[str, Json]]:
        """All lists that are kept."""
        return {path: self.items(path) for path in KEPT}

    def calm(self, *, looks: int = 8) -> dict[str, dict[str, Json]]:
        """All lists, once nothing in them changed for two seconds."""
        deadline, alike = time.monotonic() + 180, 0
        found: dict[str, dict[str, Json]] = {}
        while alike < looks:
            assert time.monotonic() < deadline, self.log
            time.sleep(0.25)
            seen = self.objects()
            alike = alike + 1 if seen == found else 0
            found = seen
        return found

    def stop(self) -> None:
        """Stop it, as Ctrl-C does."""
        self.connection.close()
        self.process.terminate()
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0, self.log
