"""A new release takes over what the one before made: nothing restarts, nothing is written without need.

A cluster is stopped and started again on its data, as it is at an upgrade: the second start reads the
objects, installs its definitions and reconciles. Pods must be the same afterwards, and specs unchanged.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.harness.wire import Connection, load_kubeconfig

COMMAND = [sys.executable, "-m", "quarterdeck.cli"]
ROOT = Path(__file__).parents[2]
Json = dict[str, Any]
KEPT = (
    "/apis/grove.io/v1alpha1/podcliquesets",
    "/apis/grove.io/v1alpha1/podcliques",
    "/apis/plexaubnet.io/v1alpha1/subnetclaims",
    "/apis/plexaubnet.io/v1alpha1/subnets",
    "/apis/deckhouse.io/v1/nodegroups",
    "/apis/scheduling.run.ai/v2/queues",
)


class Up:
    """A cluster on a data directory."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        options = ["--port", "0", "--nodes", "2", "--data-dir", str(folder / "data")]
        command = [*COMMAND, "up", *options, "--kubeconfig", str(self.kubeconfig)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready: "), self.process.communicate()
        self.connection: Connection = load_kubeconfig(self.kubeconfig).connect(timeout=60.0)

    def items(self, path: str) -> dict[str, Json]:
        answer = self.connection.request("GET", path)
        assert answer.status == 200, answer.body
        return {each["metadata"]["uid"]: each for each in json.loads(answer.body)["items"]}

    def stop(self) -> None:
        self.connection.close()
        self.process.terminate()
        _, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors

    def settled_pods(self) -> dict[str, Json]:
        """The pods once all of them run and none is new for a while."""
        deadline, calm = time.monotonic() + 180, 0
        found: dict[str, Json] = {}
        while calm < 8:
            assert time.monotonic() < deadline, found
            time.sleep(0.25)
            seen = self.items("/api/v1/pods")
            runs = bool(seen) and all(each["status"].get("phase") == "Running" for each in seen.values())
            calm = calm + 1 if runs and seen.keys() == found.keys() else 0
            found = seen
        return found


def test_objects_and_pods_of_the_release_before_are_taken_over_as_they_are(tmp_path: Path) -> None:
    before = Up(tmp_path)
    for name in ("grove", "ipam", "nodegroup"):
        folder = ROOT / "examples" / name
        command = ["kubectl", "--kubeconfig", str(before.kubeconfig), "apply", "-f", str(folder)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    pods = before.settled_pods()
    kept = {path: before.items(path) for path in KEPT}
    before.stop()

    after = Up(tmp_path)
    try:
        assert after.settled_pods().keys() == pods.keys()
        for path, objects in kept.items():
            found = after.items(path)
            assert found.keys() == objects.keys(), path
            for uid, each in objects.items():
                assert found[uid]["metadata"].get("generation") == each["metadata"].get("generation"), path
                assert found[uid].get("spec") == each.get("spec")
        for uid, pod in pods.items():
            now = after.items("/api/v1/pods")[uid]
            assert now["spec"] == pod["spec"]
            assert now["status"]["startTime"] == pod["status"]["startTime"]
    finally:
        after.stop()
