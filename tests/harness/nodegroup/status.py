"""Running one reconciliation of a NodeGroup for the `status` cases.

The objects are on the server under test and the status is written there. Only one thing is pretended: the
server sets creation times itself, so nodes are read with those that the case gives them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from quarterdeck.api import DynamicObject, GroupVersionKind, Resource, Time
from quarterdeck.api.k8s import Node
from quarterdeck.client import Client, Config
from quarterdeck.errors import NotFound
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.controllers.observation import observe
from quarterdeck.operators.nodegroup.logic.status import compute
from quarterdeck.operators.nodegroup.types import NodeGroup
from quarterdeck.runtime.reconcile.statuswrite import write_status
from tests.harness.case import CaseFailure

if TYPE_CHECKING:
    from .server import NodeGroupServer

Json = dict[str, Any]
R = TypeVar("R", bound=Resource)


def reconciled_status(server: NodeGroupServer, group: Json, objects: list[Json], now: str) -> Json:
    """The status of `group` after one reconciliation at `now`."""
    created = server.create(group)
    if created.status != 201:
        raise CaseFailure(f"creating the group answered {created.status}: {created.text()}")
    try:
        if group.get("status"):
            server.put_status(group)
        asyncio.run(_reconcile(server, group["metadata"]["name"], objects, now))
        found: Json = server.read(group).get("status") or {}
        return found
    finally:
        server.delete(group)


async def _reconcile(server: NodeGroupServer, name: str, objects: list[Json], now: str) -> None:
    async with Client.connect(Config.load(kubeconfig=server.kubeconfig)) as client:
        obj = await client.get(NodeGroup, name)
        group = obj.to_dict()
        outcome = compute(await observe(_DatedReader(client, objects), group, Time(now)))
        await write_status(client, obj, group.get("status") or {}, outcome.status)


class _DatedReader:
    """A client whose objects were created when the case says."""

    def __init__(self, client: Client, objects: list[Json]) -> None:
        self._client = client
        self._dates = {
            (item["kind"], item["metadata"]["name"]): Time(item["metadata"]["creationTimestamp"])
            for item in objects
            if item["metadata"].get("creationTimestamp")
        }

    async def get(self, kind: type[R], name: str, namespace: str = "") -> R:
        return await self._client.get(kind, name, namespace)

    async def get_dynamic(self, kind: GroupVersionKind, name: str) -> DynamicObject:
        return await self._client.get(kind, name)

    async def list(
        self, kind: type[R], *, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Sequence[R]:
        try:
            found = await self._client.list(kind, namespace=namespace, labels=labels)
        except NotFound:  # the kind is not served
            return ()
        return [self._dated(item) for item in found]

    async def nodes(self, group: str) -> Sequence[Node]:
        return await self.list(Node, labels={names.GROUP_LABEL: group})

    def _dated(self, item: R) -> R:
        date = self._dates.get((item.kind, item.metadata.name))
        return item.evolve(metadata=item.metadata.evolve(creation_timestamp=date)) if date else item
