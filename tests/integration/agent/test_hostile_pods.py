"""Containers that mean no good, or do not know better: contained, said, and gone at the end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import Quantity

from .nodekit import Space, shims_in
from .test_pod_life import READY, condition, state

V1 = Path("/sys/fs/cgroup/memory").is_dir()
LIMITED = os.geteuid() == 0 and (V1 or Path("/sys/fs/cgroup/cgroup.controllers").exists())
limits = pytest.mark.skipif(not LIMITED, reason="no control groups to be had")


def processes_named(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_processes_that_leave_their_parents_end_with_the_pod(space: Space) -> None:
    word = "hostile-daemon-31415"
    daemon = f"exec -a {word} sleep 300"
    script = (
        f"for i in 1 2 3; do setsid bash -c '(bash -c \"{daemon}\" &) &'; done;"
        "trap '' TERM; while :; do sleep 0.1; done"
    )
    space.pod("forks", script, container={"command": ["bash", "-c", script]})
    space.until("forks", lambda pod: condition(pod, READY) == "True")
    space.kubectl("delete", "pod", "forks", "--grace-period=1", "--timeout=30s")
    assert processes_named(word) == []
    assert shims_in(space.cluster.folder / "pods") == []


def test_a_program_that_ends_takes_its_children_along(space: Space) -> None:
    word = "hostile-child-27182"
    script = f"bash -c 'exec -a {word} sleep 300' & sleep 0.3; exit 0"
    space.pod("parent", script, container={"command": ["bash", "-c", script]})
    space.phase("parent", "Succeeded")
    assert processes_named(word) == []


@limits
def test_a_container_beyond_its_memory_is_killed_and_said_so(space: Space) -> None:
    greedy = "x = []\nwhile True: x.append(bytearray(8 << 20))"
    container = {"command": ["python3", "-c", greedy], "resources": {"limits": {"memory": "64Mi"}}}
    space.pod("greedy", container=container)
    ended = state(space.phase("greedy", "Failed"))["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


@limits
def test_limits_change_while_a_container_runs(space: Space) -> None:
    def resources(**amounts: str) -> dict[str, Any]:
        return {"requests": amounts, "limits": amounts}

    def resize(**amounts: str) -> None:
        patch = {"spec": {"containers": [{"name": "main", "resources": resources(**amounts)}]}}
        space.kubectl("patch", "pod", "grows", "--subresource=resize", "-p", json.dumps(patch))

    def quota(uid: str, run: int) -> str:
        places = (
            f"quarterdeck-*/{uid}-main-{run}/cpu.max",
            f"cpu/quarterdeck-*/{uid}-main-{run}/cpu.cfs_quota_us",
        )
        found = next(each for place in places for each in Path("/sys/fs/cgroup").glob(place))
        return found.read_text().split()[0]

    container = {
        "resources": resources(cpu="100m", memory="64Mi"),
        "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
    }
    space.pod("grows", "while :; do sleep 0.2; done", policy="Always", container=container)
    pod = space.until("grows", lambda pod: "running" in state(pod))
    assert quota(pod["metadata"]["uid"], 0) == "10000"
    resize(cpu="200m")
    pod = space.until("grows", lambda pod: _status(pod)["resources"]["limits"]["cpu"] == "200m")
    assert (quota(pod["metadata"]["uid"], 0), _status(pod)["restartCount"]) == ("20000", 0)
    resize(memory="96Mi")
    pod = space.until("grows", lambda pod: _status(pod)["restartCount"] == 1 and "running" in state(pod))
    assert _status(pod)["resources"]["limits"] == {"cpu": "200m", "memory": "96Mi"}


def test_a_pod_has_no_more_than_the_node_has_left(space: Space) -> None:
    node = json.loads(space.kubectl("get", "node", "box", "-o", "json"))
    fifth = str(Quantity(node["status"]["allocatable"]["memory"]).value // 5)
    most = str(int(fifth) * 3)

    def asking(memory: str) -> dict[str, Any]:
        return {"container": {"resources": {"requests": {"memory": memory}}}, "nodeName": "box"}

    space.pod("first", "sleep 1000", **asking(most))
    space.phase("first", "Running")
    space.pod("second", "sleep 1000", **asking(fifth))
    space.phase("second", "Running")
    space.pod("third", "sleep 1000", **asking(most))
    refused = space.phase("third", "Failed")["status"]
    assert refused["reason"] == "OutOfmemory"
    assert refused["message"].startswith("Pod was rejected: Node didn't have enough resource: memory, ")
    patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": most}}}]}}
    space.kubectl("patch", "pod", "second", "--subresource=resize", "-p", json.dumps(patch))
    pod = space.until("second", lambda pod: condition(pod, "PodResizePending"))
    assert Quantity(_status(pod)["allocatedResources"]["memory"]) == fifth
    space.kubectl("delete", "pod", "first", "--grace-period=1")
    pod = space.until("second", lambda pod: Quantity(_status(pod)["allocatedResources"]["memory"]) == most)
    space.until("second", lambda pod: not condition(pod, "PodResizePending"))
    assert [each for each, _ in space.events("second") if each.startswith("Resize")] == [
        "ResizeDeferred",
        "ResizeStarted",
        "ResizeCompleted",
    ]


def _status(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["status"]["containerStatuses"][0]
    return found


@limits
def test_a_container_that_forks_without_end_harms_itself_alone(space: Space) -> None:
    bomb = """
import os, time
for _ in range(6000):
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except OSError:
        print("no more")
        break
"""
    space.pod("bomb", container={"command": ["python3", "-IS", "-c", bomb]})
    space.phase("bomb", "Succeeded")
    assert space.logs("bomb") == "no more\n"


def test_a_flood_of_output_does_not_fill_the_disk(space: Space) -> None:
    space.pod("flood", "head -c 80000000 /dev/zero | tr '\\0' 'x' | fold -w 200")
    space.phase("flood", "Succeeded")
    uid = space.get("flood")["metadata"]["uid"]
    folder = next(space.cluster.folder.glob(f"**/pods/{uid}/c-main/0"))
    sizes = [each.stat().st_size for each in folder.glob("log*")]
    assert len(sizes) == 5
    assert sum(sizes) < 55 * 1024 * 1024


def test_a_pod_that_fills_its_disk_is_evicted(space: Space) -> None:
    volumes = [{"name": "small", "emptyDir": {"sizeLimit": "1Mi"}}]
    mounts = {"volumeMounts": [{"name": "small", "mountPath": "/small"}]}
    space.pod("fills", "head -c 5000000 /dev/zero > /small/x; sleep 300", volumes=volumes, container=mounts)
    limited = {"resources": {"limits": {"ephemeral-storage": "2Mi"}}}
    space.pod("litters", "head -c 5000000 /dev/zero > /tmp/x; sleep 300", container=limited)
    for name, words in (
        ("fills", 'Usage of EmptyDir volume "small" exceeds the limit "1Mi".'),
        ("litters", "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi."),
    ):
        pod = space.phase(name, "Failed")
        assert (pod["status"]["reason"], pod["status"]["message"].strip()) == ("Evicted", words)
        kept = next(space.cluster.folder.glob(f"**/pods/{pod['metadata']['uid']}"))
        assert sum(each.stat().st_size for each in kept.rglob("*") if each.is_file()) < 1_000_000


def test_keys_of_the_cluster_are_out_of_sight(space: Space) -> None:
    folder = space.cluster.folder / "quarterdeck"
    space.pod(
        "curious",
        f"ls -A {folder} | wc -l; ls -A {space.cluster.folder}/.kube 2>&1 | wc -l; ls /tmp/quarterdeck-*",
    )
    space.until("curious", lambda pod: "terminated" in state(pod))
    lines = space.logs("curious").splitlines()
    assert lines[0] == "0" or "No such file" in lines[0]
    assert any("No such file" in line for line in lines[1:])
