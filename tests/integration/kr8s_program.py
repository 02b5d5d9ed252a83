"""Uses kr8s as a program would: ``kr8s_program.py objects|watch|scale|custom`` with KUBECONFIG set.

Started by ``test_clients``; an assertion that fails ends it with exit code 1.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import kr8s.asyncio
from kr8s.asyncio.objects import ConfigMap, Deployment, new_class

PATIENCE = 60.0


async def objects(api: Any) -> None:
    """Create, read, list, patch, label and delete."""
    assert (await api.version())["major"] == "1"
    body = {"metadata": {"name": "kr8s", "labels": {"made-by": "kr8s"}}, "data": {"a": "1"}}
    first = await ConfigMap({"apiVersion": "v1", "kind": "ConfigMap", **body}, api=api)
    await first.create()
    assert await first.exists()
    await first.patch({"data": {"b": "2"}})
    await first.label(patched="yes")
    await first.annotate({"example.com/note": "x"})
    again = await ConfigMap.get("kr8s", api=api)
    assert again.data == {"a": "1", "b": "2"}
    assert again.labels["patched"] == "yes"
    assert again.annotations["example.com/note"] == "x"
    assert [each.name async for each in api.get("configmaps", label_selector={"made-by": "kr8s"})] == ["kr8s"]
    assert [each.name async for each in api.get("cm", field_selector="metadata.name=kr8s")] == ["kr8s"]
    await first.delete()
    await first.wait("delete")
    assert not await first.exists()


async def watch(api: Any) -> None:
    """Each change arrives on the open stream; the next one is made when it has."""
    body = {"metadata": {"name": "watched", "labels": {"w": "1"}}}
    watched = await ConfigMap({"apiVersion": "v1", "kind": "ConfigMap", **body}, api=api)
    await watched.create()
    seen = []
    async for kind, each in api.watch("configmaps", label_selector="w=1"):
        seen.append((kind, each.name))
        if kind == "ADDED":
            await watched.patch({"data": {"a": "1"}})
        elif kind == "MODIFIED":
            await watched.delete()
        else:
            break
    assert seen == [("ADDED", "watched"), ("MODIFIED", "watched"), ("DELETED", "watched")]


async def scale(api: Any) -> None:
    """A Deployment's scale, and waiting for a condition that somebody else sets."""
    container = {"name": "c", "image": "x"}
    template = {"metadata": {"labels": {"app": "kr8s"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "kr8s"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kr8s"}, "spec": spec}
    deployment = await Deployment(body, api=api)
    await deployment.create()
    assert deployment.replicas == 1
    condition = {"type": "Available", "status": "True", "reason": "Tested", "message": "by hand"}
    status = {"observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "conditions": [condition]}
    await deployment.patch({"status": status}, subresource="status")
    await deployment.scale(3)
    assert deployment.replicas == 3
    await deployment.wait("condition=Available")
    await deployment.delete(propagation_policy="Background")


async def custom(api: Any) -> None:
    """A custom resource with status and scale."""
    gadget = new_class("Gadget", version="clients.example.com/v1", namespaced=True, scalable=True)
    body = {"metadata": {"name": "kr8s"}, "spec": {"size": "S"}}
    first = await gadget({"apiVersion": "clients.example.com/v1", "kind": "Gadget", **body}, api=api)
    await first.create()
    assert first.spec.replicas == 1
    await first.patch({"status": {"phase": "Ready", "replicas": 4}}, subresource="status")
    await first.scale(4)
    found = [each async for each in api.get("gadgets.clients.example.com", "kr8s")]
    assert [each.status.phase for each in found] == ["Ready"]
    assert (await gadget.get("kr8s", api=api)).spec.replicas == 4
    await first.delete()


async def main(name: str) -> None:
    check = {"objects": objects, "watch": watch, "scale": scale, "custom": custom}[name]
    api = await kr8s.asyncio.api()
    async with asyncio.timeout(PATIENCE):
        await check(api)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
