"""Events go an hour after their last write."""

from __future__ import annotations

import asyncio
from typing import Any

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import CoreEvent
from quarterdeck.api.k8s.reference import ObjectReference
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.event import event_ttl_controller
from quarterdeck.runtime import Manager
from quarterdeck.testing import TestCluster

from .clusterkit import exists, make_namespace


def event(name: str, namespace: str) -> CoreEvent:
    subject = ObjectReference(kind="Pod", name="p", namespace=namespace)
    return CoreEvent(metadata=ObjectMeta(name=name, namespace=namespace), involved_object=subject)


async def test_an_event_is_gone_after_an_hour(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    await client.create(event("e", ns))
    await asyncio.sleep(3590)
    assert await exists(client, CoreEvent, "e", ns)
    await asyncio.sleep(20)
    assert not await exists(client, CoreEvent, "e", ns)


async def test_an_event_that_is_written_again_lives_on(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    made = await client.create(event("e", ns))
    await asyncio.sleep(3000)
    await client.patch(made, MergePatch({"count": 2}))
    await asyncio.sleep(3000)
    assert await exists(client, CoreEvent, "e", ns)
    await asyncio.sleep(700)
    assert not await exists(client, CoreEvent, "e", ns)


async def test_events_from_before_the_start_go_in_time(
    cluster: TestCluster, client: Client, manager: Manager
) -> None:
    ns = await make_namespace(client)
    await client.create(event("e", ns))
    await asyncio.sleep(50)
    manager.add(event_ttl_controller(60))
    await cluster.start(manager)
    await asyncio.sleep(5)
    assert await exists(client, CoreEvent, "e", ns)
    await asyncio.sleep(10)
    assert not await exists(client, CoreEvent, "e", ns)
