"""`quarterdeck up` is killed in the middle of its work, again and again: nothing doubled, nothing lost."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import (
    ControllerRevision,
    DaemonSet,
    Deployment,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    ResourceClaim,
    StatefulSet,
)
from quarterdeck.client import Client, Config, MergePatch
from quarterdeck.testing import eventually

KILLS = 4
REPLICAS = 60
NUMBERED = 6
CLAIMING = 4
"""Pods with a device each; there are six devices."""
PODS = REPLICAS + CLAIMING + NUMBERED + 3


def _start(directory: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "quarterdeck.cli", "up", "--nodes", "3", "--operators", "none"]
    command += ["--node-capacity", "nvidia.com/gpu=2"]
    command += ["--port", "0", "--data-dir", str(directory / "data")]
    command += ["--kubeconfig", str(directory / "kubeconfig")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready: ")
    return process


def _kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    if process.stdout is not None:
        process.stdout.close()


def _made(kind: str, name: str, *, pod: dict[str, Any] | None = None, **spec: Any) -> DynamicObject:
    labels = {"app": name}
    containers = {"containers": [{"name": "c", "image": "one"}]}
    template = {"metadata": {"labels": labels}, "spec": {**containers, **(pod or {})}}
    whole = {"selector": {"matchLabels": labels}, "template": template, **spec}
    metadata = {"name": name, "namespace": "default"}
    return DynamicObject({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": whole})


async def _begin(client: Client) -> None:
    await client.create(_made("Deployment", "many", replicas=REPLICAS))
    disk = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "disk"}, "spec": disk}]
    numbered = _made(
        "StatefulSet", "numbered", replicas=NUMBERED, serviceName="x", volumeClaimTemplates=claims
    )
    await client.create(numbered)
    await client.create(_device_template())
    await client.create(_claiming())
    await client.create(_made("DaemonSet", "everywhere"))


def _device_template() -> DynamicObject:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    return DynamicObject(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpu", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
    )


def _claiming() -> DynamicObject:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return _made("Deployment", "claiming", replicas=CLAIMING, pod={"resourceClaims": claims})


async def _change(client: Client, image: str) -> None:
    """Begin to replace every pod."""
    spec = {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}
    every = (
        (Deployment, "many"),
        (Deployment, "claiming"),
        (StatefulSet, "numbered"),
        (DaemonSet, "everywhere"),
    )
    for kind, name in every:
        await client.patch(await client.get(kind, name, "default"), MergePatch({"spec": spec}))


async def _is_under_way(client: Client) -> bool:
    """Whether some pods are made, but not all."""
    found = (await client.list(Pod, namespace="default")).items
    return len(found) > 0


async def _is_settled(client: Client) -> bool:
    """True, or an assertion that says what is not as it should be."""
    sets: list[tuple[Deployment | StatefulSet, int]] = [
        (await client.get(Deployment, "many", "default"), REPLICAS),
        (await client.get(Deployment, "claiming", "default"), CLAIMING),
        (await client.get(StatefulSet, "numbered", "default"), NUMBERED),
    ]
    for each, count in sets:
        name, status = each.metadata.name, each.status
        assert (name, status.observed_generation) == (name, each.metadata.generation)
        numbers = (status.updated_replicas, status.replicas, status.available_replicas)
        assert (name, *numbers) == (name, count, count, count)
    everywhere = await client.get(DaemonSet, "everywhere", "default")
    assert everywhere.status.observed_generation == everywhere.metadata.generation
    assert (everywhere.status.updated_number_scheduled, everywhere.status.number_available) == (3, 3)
    pods = (await client.list(Pod, namespace="default")).items
    assert len(pods) == PODS, sorted((each.metadata.name, each.status.phase) for each in pods)
    claims = (await client.list(ResourceClaim, namespace="default")).items
    assert len(claims) == CLAIMING, sorted(each.metadata.name for each in claims)
    return True


async def _story(directory: Path) -> None:
    for kill in range(KILLS):
        process = _start(directory)
        try:
            async with Client.connect(Config.load(str(directory / "kubeconfig"))) as client:
                if kill == 0:
                    await _begin(client)
                else:
                    await _change(client, f"image-{kill}")
                await eventually(lambda: _is_under_way(client), timeout=60)
        finally:
            _kill(process)
    process = _start(directory)
    try:
        async with Client.connect(Config.load(str(directory / "kubeconfig"))) as client:
            await eventually(lambda: _is_settled(client), timeout=180, interval=0.5)
            await _check(client)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


async def _check(client: Client) -> None:
    pods = (await client.list(Pod, namespace="default")).items
    assert {each.spec.containers[0].image for each in pods} == {f"image-{KILLS - 1}"}
    numbered = sorted(each.metadata.name for each in pods if each.metadata.labels["app"] == "numbered")
    assert numbered == sorted(f"numbered-{number}" for number in range(NUMBERED))
    await _check_volumes(client)
    await _check_devices(client, {each.metadata.uid: each for each in pods})
    nodes = sorted(each.spec.node_name for each in pods if each.metadata.labels["app"] == "everywhere")
    assert nodes == ["node-0", "node-1", "node-2"]
    sets = (await client.list(ReplicaSet, namespace="default")).items
    for name, count in (("many", REPLICAS), ("claiming", CLAIMING)):
        mine = [each for each in sets if each.metadata.labels["app"] == name]
        sizes = sorted(each.spec.replicas or 0 for each in mine)
        assert sizes[-1] == count
        assert not any(sizes[:-1])
        assert len({each.metadata.labels["pod-template-hash"] for each in mine}) == len(mine)
    revisions = (await client.list(ControllerRevision, namespace="default")).items
    numbers = [(each.metadata.owner_references[0].name, each.revision) for each in revisions]
    assert len(numbers) == len(set(numbers))


async def _check_volumes(client: Client) -> None:
    """Each pod of the StatefulSet has its claim, and each claim a volume of its own."""
    claims = (await client.list(PersistentVolumeClaim, namespace="default")).items
    assert sorted(each.metadata.name for each in claims) == sorted(
        f"disk-numbered-{number}" for number in range(NUMBERED)
    )
    assert {each.status.phase for each in claims} == {"Bound"}
    volumes = (await client.list(PersistentVolume)).items
    assert {each.metadata.name for each in volumes} == {each.spec.volume_name for each in claims}
    assert len(volumes) == NUMBERED


async def _check_devices(client: Client, pods: dict[str, Pod]) -> None:
    """Each pod that claims a device has one of its own, on its node, and nobody who is gone has any."""
    given = []
    for claim in (await client.list(ResourceClaim, namespace="default")).items:
        [user] = claim.status.reserved_for
        pod = pods.pop(user.uid)
        assert pod.metadata.labels["app"] == "claiming"
        assert claim.status.allocation
        [device] = claim.status.allocation.devices.results
        assert device.pool == pod.spec.node_name
        given.append((device.pool, device.device))
    assert len(given) == len(set(given)) == CLAIMING


def test_kills_in_the_middle_double_nothing_and_lose_nothing(tmp_path: Path) -> None:
    asyncio.run(_story(tmp_path))
