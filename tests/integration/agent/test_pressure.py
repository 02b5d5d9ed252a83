"""A node that is short of something: which it says, whom it takes, and who has to go.

What must be left of the memory is set to all of it, so that there is always too little.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .nodekit import KUBECTL, Space, local_cluster
from .test_pod_life import condition

SHORT = {"node": {"eviction": {"memory.available": "100%"}, "pressure_seconds": 5}}
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on PATH")


def asking(memory: str) -> dict[str, Any]:
    return {"resources": {"requests": {"memory": memory}}}


def test_a_node_that_is_short_of_memory_ends_who_has_too_much(tmp_path: Path) -> None:
    with local_cluster(tmp_path, config=SHORT) as cluster, cluster.space("short") as space:
        node = json.loads(cluster.kubectl("get", "node", "box", "-o", "json"))
        assert condition(node, "MemoryPressure") == "True"
        assert condition(node, "DiskPressure") == "False"
        greedy = "import time; x = bytearray(64 << 20); time.sleep(1000)"
        command = {"command": ["python3", "-c", greedy]}
        space.pod("greedy", container={**asking("1Mi"), **command}, nodeName="box")
        space.pod("modest", "sleep 1000", container=asking("64Mi"), nodeName="box")
        space.pod("more", "sleep 1000", nodeName="box")
        refused = space.phase("more", "Failed")["status"]
        assert refused["reason"] == "Evicted"
        assert refused["message"].strip() == "Pod was rejected: The node had condition: [MemoryPressure]."
        told_first = _evicted_first(space)
        assert told_first["metadata"]["name"] == "greedy"
        assert told_first["status"]["reason"] == "Evicted"
        assert "Container main was using" in told_first["status"]["message"]
        assert condition(told_first, "DisruptionTarget") == "True"


def _evicted_first(space: Space) -> dict[str, Any]:
    """The pod that was the first to go; the other may follow, as there is never enough."""
    space.until("greedy", lambda pod: pod["status"]["phase"] == "Failed")
    pods = json.loads(space.kubectl("get", "pods", "-o", "json"))["items"]
    ended = [each for each in pods if condition(each, "DisruptionTarget") == "True"]

    def when(pod: dict[str, Any]) -> str:
        conditions = pod["status"]["conditions"]
        return str(next(c["lastTransitionTime"] for c in conditions if c["type"] == "DisruptionTarget"))

    return min(ended, key=when)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small disk")
def test_a_pod_that_uses_up_the_files_of_a_disk_has_to_go(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=4000", "tmpfs", str(disk)], check=True)
    try:
        config = {"node": {"eviction": {"nodefs.inodesFree": "1500"}, "pressure_seconds": 5}}
        with local_cluster(disk, config=config) as cluster, cluster.space("files") as space:
            many = "for i in $(seq 3500); do : > /data/$i || break; done; sleep 1000"
            space.pod("modest", "sleep 1000")
            space.phase("modest", "Running")
            space.pod(
                "greedy",
                many,
                container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                volumes=[{"name": "data", "emptyDir": {}}],
            )
            ended = space.phase("greedy", "Failed")["status"]
            assert ended["reason"] == "Evicted"
            assert ended["message"].startswith("The node was low on resource: inodes. ")
            node = json.loads(cluster.kubectl("get", "node", "box", "-o", "json"))
            assert condition(node, "DiskPressure") == "True"
            assert space.get("modest")["status"]["phase"] == "Running"
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
