"""The Node of this machine, and what becomes of it when somebody deletes it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Lease, Node
from quarterdeck.client import Client
from quarterdeck.cluster.agent.machine.pressure import NodePressure
from quarterdeck.cluster.agent.machine.registration import NodeRegistration


@pytest.mark.parametrize("is_made_again", [False, True], ids=["deleted", "replaced"])
async def test_a_node_that_was_deleted_is_told_of_again(
    client: Client, tmp_path: Path, is_made_again: bool
) -> None:
    pressure = NodePressure(
        {}, 0.0, read=dict, uses=lambda _: [], evict=lambda *_: False, is_over=lambda _: True
    )
    registration = NodeRegistration(
        client,
        "box",
        tmp_path,
        host="127.0.0.1",
        runtimes=("process",),
        taint=False,
        images=lambda: (),
        pressure=pressure,
    )
    running = asyncio.create_task(registration.run())
    await asyncio.sleep(15)
    old = await client.get(Node, "box")
    await client.delete(old)
    if is_made_again:
        await client.create(Node(metadata=ObjectMeta(name="box")))
    await asyncio.sleep(15)
    running.cancel()
    new = await client.get(Node, "box")
    assert new.metadata.uid != old.metadata.uid
    assert new.metadata.labels["quarterdeck.dev/runtime"] == "process"
    assert {each.type: each.status for each in new.status.conditions}["Ready"] == "True"
    lease = await client.get(Lease, "box", "kube-node-lease")
    assert [each.uid for each in lease.metadata.owner_references] == [new.metadata.uid]
    assert registration.node is not None
    assert registration.node.metadata.uid == new.metadata.uid
