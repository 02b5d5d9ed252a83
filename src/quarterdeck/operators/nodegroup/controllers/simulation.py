"""Plays the cloud on an embedded cluster: CloudEphemeral groups get Node objects.

Only nodes that this controller made are ever removed. They are owned by their group, by UID, so that deleting
a group deletes its nodes; a name that somebody else's Node has is left to it, with a condition that says so.
Static groups with a selector take in nodes that belong to nobody. Not for clusters with a real cloud: it is
added by ``quarterdeck up`` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from quarterdeck.api import Key
from quarterdeck.api.k8s import Node, Secret
from quarterdeck.client import MergePatch
from quarterdeck.errors import AlreadyExists, ForeignObject, NotFound
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.logic.clusterstate import StateError, known_zones
from quarterdeck.operators.nodegroup.logic.simulation import SimulatedNode, adopts, node_document, plan_nodes
from quarterdeck.operators.nodegroup.logic.status import with_name_taken
from quarterdeck.operators.nodegroup.types import NodeGroup
from quarterdeck.runtime.cache import controlled_by, controller_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import generation_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result, Wait, until_free
from quarterdeck.runtime.reconcile.statuswrite import write_status


class NodeSimulator(Reconciler[NodeGroup]):
    """Creates, removes and adopts nodes of one group."""

    async def reconcile(self, ctx: Context[NodeGroup]) -> Result | None:
        """Bring the nodes of a group into its range."""
        if ctx.obj.metadata.is_deleting:
            return None
        group = ctx.obj.to_dict()
        await self._adopt(ctx, group)
        own = {
            node.metadata.name: node
            for node in ctx.index(Node, controlled_by(ctx.obj))
            if not node.metadata.is_deleting
        }
        for node in own.values():
            if node.metadata.labels.get(names.GROUP_LABEL) != ctx.key.name:
                await ctx.patch(node, _label_of(ctx))
        present = [
            SimulatedNode(node.metadata.labels.get(names.ZONE_LABEL, ""), name) for name, node in own.items()
        ]
        plan = plan_nodes(group, present, await _provider_zones(ctx))
        for one in plan.remove:
            with suppress(NotFound):
                await ctx.delete(own[one.name])
        taken: ForeignObject | None = None
        for one in plan.create:
            try:
                with suppress(AlreadyExists):
                    await ctx.create(Node.from_dict(node_document(group, one)), owner=ctx.obj)
            except ForeignObject as error:
                taken = error
        problem = str(taken) if taken is not None else ""
        status = group.get("status") or {}
        await write_status(ctx.client, ctx.obj, status, with_name_taken(status, problem, str(ctx.now())))
        if taken is None:
            return None
        ctx.event("Warning", names.NODE_NAME_TAKEN, problem)
        return Wait(until_free(taken, Node), reason="name-taken")

    async def _adopt(self, ctx: Context[NodeGroup], group: Mapping[str, Any]) -> None:
        if not (group["spec"].get("staticInstances") or {}).get("labelSelector"):
            return
        for node in await ctx.list(Node):
            if adopts(group, node.metadata.labels):
                await ctx.patch(node, _label_of(ctx))


def _label_of(ctx: Context[NodeGroup]) -> MergePatch:
    return MergePatch({"metadata": {"labels": {names.GROUP_LABEL: ctx.key.name}}})


async def _provider_zones(ctx: Context[NodeGroup]) -> Sequence[str]:
    try:
        secret = await ctx.get(Secret, names.PROVIDER_SECRET, names.SYSTEM_NAMESPACE)
        return known_zones(secret.data.get(names.DISCOVERY_DATA_KEY, b""))
    except (NotFound, StateError):
        return ()


def simulation_controller() -> Controller[NodeGroup]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name="nodegroup-simulation")
        .for_(NodeGroup, predicates=[generation_changed])
        .owns(Node)
        .watches(Node, to=_groups_of_node)
        .indexes(Node, controller_uid)
        .watches(Secret, to=_every_group)
        .rbac(Rule(groups=("",), resources=("nodes",), verbs=("create", "delete", "patch")))
        .options(field_manager=names.FIELD_MANAGER)
        .build(NodeSimulator())
    )


async def _groups_of_node(context: MapContext, node: Node) -> Iterable[Key]:
    group = node.metadata.labels.get(names.GROUP_LABEL)
    if group:
        return (Key("", group),)
    groups = await context.cache.list(NodeGroup)
    return [one.key for one in groups if adopts(one.to_dict(), node.metadata.labels)]


async def _every_group(context: MapContext, secret: Secret) -> Iterable[Key]:
    if (secret.metadata.namespace, secret.metadata.name) != (names.SYSTEM_NAMESPACE, names.PROVIDER_SECRET):
        return ()
    return [group.key for group in await context.cache.list(NodeGroup)]
