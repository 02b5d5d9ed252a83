"""The node's agent killed at random moments under load: no container twice, none forgotten, logs whole."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.integration.agent.nodekit import KUBECTL, LocalCluster, local_cluster, shims_in

PODS = 24
LINES = 40
KILLS = 6

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on PATH")


def pods(cluster: LocalCluster) -> list[dict]:  # type: ignore[type-arg]
    found: list[dict] = json.loads(cluster.kubectl("get", "pods", "-o", "json"))["items"]  # type: ignore[type-arg]
    return found


def kill_agent(cluster: LocalCluster) -> None:
    agent = cluster.agent()
    if agent:
        os.kill(agent, signal.SIGKILL)


def test_containers_outlive_their_agent(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    marks = tmp_path / "marks"
    marks.mkdir()
    script = (
        'echo "$HOSTNAME" >> /marks/starts;'
        f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line $i; sleep 0.05; done; echo end"
    )
    documents = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p-{number}"},
            "spec": {
                "restartPolicy": "Never",
                "volumes": [{"name": "marks", "hostPath": {"path": str(marks)}}],
                "containers": [
                    {
                        "name": "main",
                        "image": "none",
                        "command": ["sh", "-c", script],
                        "volumeMounts": [{"name": "marks", "mountPath": "/marks"}],
                    }
                ],
            },
        }
        for number in range(PODS)
    ]
    with local_cluster(tmp_path) as cluster:
        for _ in range(100):
            if cluster.run("get", "serviceaccount", "default").returncode == 0:
                break
            time.sleep(0.1)
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        cluster.kubectl("apply", "-f", "-", input=text)
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.1, 2.5))
            kill_agent(cluster)
        deadline = time.monotonic() + 180
        while any(each["status"].get("phase") != "Succeeded" for each in pods(cluster)):
            assert time.monotonic() < deadline, cluster.log()[-3000:]
            bad = [
                each["metadata"]["name"] for each in pods(cluster) if each["status"].get("phase") == "Failed"
            ]
            assert not bad, cluster.kubectl("get", "pods", "-o", "yaml")[-4000:]
            time.sleep(0.5)
        starts = (marks / "starts").read_text().split()
        assert sorted(starts) == sorted(f"p-{number}" for number in range(PODS))
        while cluster.run("logs", "p-0").returncode:  # the last one killed may not be back yet
            assert time.monotonic() < deadline, cluster.log()[-3000:]
            time.sleep(0.1)
        for number in range(PODS):
            lines = cluster.kubectl("logs", f"p-{number}").splitlines()
            assert lines == [*(f"line {each}" for each in range(1, LINES + 1)), "end"], number
        cluster.kubectl("delete", "pods", "--all", "--timeout=60s")
        folder = tmp_path / "quarterdeck" / "nodes" / "0" / "pods"
        assert list(folder.iterdir()) == []
    assert not shims_in(tmp_path)


def test_pods_of_a_cluster_that_was_killed_are_found_by_the_next(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, arguments=("--data-dir", str(tmp_path / "data")))
    cluster.start()
    try:
        for _ in range(100):
            if cluster.run("get", "serviceaccount", "default").returncode == 0:
                break
            time.sleep(0.1)
        cluster.kubectl(
            "run",
            "lasting",
            "--image=none",
            "--restart=Never",
            "--command",
            "--",
            "sh",
            "-c",
            "echo up; sleep 600",
        )
        cluster.kubectl("wait", "--for=condition=Ready", "pod/lasting", "--timeout=60s")
        before = shims_in(tmp_path)
        cluster.kill()
        time.sleep(1)
        assert shims_in(tmp_path) == before
        cluster.start()
        cluster.kubectl("wait", "--for=condition=Ready", "pod/lasting", "--timeout=60s")
        assert shims_in(tmp_path) == before
        assert cluster.kubectl("logs", "lasting").strip() == "up"
        cluster.kubectl("delete", "pod", "lasting", "--grace-period=1")
        assert shims_in(tmp_path) == []
    finally:
        cluster.stop()
    assert not shims_in(tmp_path)
