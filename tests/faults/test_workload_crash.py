"""`quarterdeck up` is killed in the middle of its work, again and again: nothing doubled, nothing lost."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import ControllerRevision, DaemonSet, Deployment, Pod, ReplicaSet, StatefulSet
from quarterdeck.client import Client, Config, MergePatch
from quarterdeck.errors import QuarterdeckError
from quarterdeck.testing import eventually

KILLS = 4
REPLICAS = 60


def _start(directory: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "quarterdeck.cli", "up", "--nodes", "3", "--operators", "none"]
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


def _made(kind: str, name: str, **spec: Any) -> DynamicObject:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "one"}]}}
    whole = {"selector": {"matchLabels": labels}, "template": template, **spec}
    metadata = {"name": name, "namespace": "default"}
    return DynamicObject({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": whole})


async def _begin(client: Client) -> None:
    await client.create(_made("Deployment", "many", replicas=REPLICAS))
    await client.create(_made("StatefulSet", "numbered", replicas=12, serviceName="x"))
    await client.create(_made("DaemonSet", "everywhere"))


async def _change(client: Client, image: str) -> None:
    """Begin to replace every pod."""
    spec = {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}
    for kind, name in ((Deployment, "many"), (StatefulSet, "numbered"), (DaemonSet, "everywhere")):
        await client.patch(await client.get(kind, name, "default"), MergePatch({"spec": spec}))


async def _is_under_way(client: Client) -> bool:
    """Whether some pods are made, but not all."""
    found = (await client.list(Pod, namespace="default")).items
    return len(found) > 0


async def _is_settled(client: Client) -> bool:
    try:
        many = await client.get(Deployment, "many", "default")
        numbered = await client.get(StatefulSet, "numbered", "default")
        everywhere = await client.get(DaemonSet, "everywhere", "default")
    except QuarterdeckError:
        return False
    state = many.status, numbered.status, everywhere.status
    seen = [
        each.status.observed_generation == each.metadata.generation for each in (many, numbered, everywhere)
    ]
    return (
        all(seen)
        and (state[0].updated_replicas, state[0].replicas, state[0].available_replicas) == (REPLICAS,) * 3
        and (state[1].updated_replicas, state[1].replicas, state[1].available_replicas) == (12,) * 3
        and (state[2].updated_number_scheduled, state[2].number_available) == (3, 3)
        and len((await client.list(Pod, namespace="default")).items) == REPLICAS + 12 + 3
    )


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
    assert numbered == sorted(f"numbered-{number}" for number in range(12))
    nodes = sorted(each.spec.node_name for each in pods if each.metadata.labels["app"] == "everywhere")
    assert nodes == ["node-0", "node-1", "node-2"]
    sets = (await client.list(ReplicaSet, namespace="default")).items
    sizes = sorted(each.spec.replicas or 0 for each in sets)
    assert sizes[-1] == REPLICAS
    assert not any(sizes[:-1])
    assert len({each.metadata.labels["pod-template-hash"] for each in sets}) == len(sets)
    revisions = (await client.list(ControllerRevision, namespace="default")).items
    numbers = [(each.metadata.owner_references[0].name, each.revision) for each in revisions]
    assert len(numbers) == len(set(numbers))


def test_kills_in_the_middle_double_nothing_and_lose_nothing(tmp_path: Path) -> None:
    asyncio.run(_story(tmp_path))
