"""Keeps the status of every NodeGroup.

A group is looked at when its spec or annotations change, when one of its nodes or machines does, and every
ten minutes. Its own status writes do not wake it. The status is written only if it differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from quarterdeck.api import DynamicObject, Key, Writable
from quarterdeck.api.k8s import Node, Secret
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.index import NODES_BY_GROUP
from quarterdeck.operators.nodegroup.logic.status import Notice, compute
from quarterdeck.operators.nodegroup.metrics import NodeGroupMetrics
from quarterdeck.operators.nodegroup.types import NodeGroup
from quarterdeck.operators.nodegroup.types.machine import (
    CapiMachine,
    CapiMachineDeployment,
    McmMachine,
    McmMachineDeployment,
)
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext, mapped
from quarterdeck.runtime.controller.predicate import annotations_changed, generation_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import KindSource, Source
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result
from quarterdeck.runtime.reconcile.statuswrite import write_status

from .observation import CachedReader, instance_class_kind, mcm_group, observe

PERIOD: Final = 600.0
"""Seconds between two looks at a group that nothing happens to."""
_SECRETS: Final = frozenset(
    {
        (names.MODULE_NAMESPACE, names.CHECKSUMS_SECRET),
        (names.SYSTEM_NAMESPACE, names.CLOUD_PROVIDER_SECRET),
        (names.SYSTEM_NAMESPACE, names.CLUSTER_CONFIGURATION_SECRET),
    }
)


_READ_CLASSES: Final = Rule(
    groups=(names.GROUP,),
    resources=(
        *(f"{kind.lower()}es" for kind in names.INSTANCE_CLASS_KINDS),
        f"{names.MACHINE_TYPES_KIND.lower()}s",
    ),
    verbs=("get", "list", "watch"),
)
_RELEVANT: Final = generation_changed | annotations_changed
"""Changes of a group that matter: not those of its status."""


class StatusReconciler(Reconciler[NodeGroup]):
    """Computes the status and writes it if it differs."""

    def __init__(self, metrics: NodeGroupMetrics | None = None) -> None:
        self._metrics: Final = metrics
        self._watched: Final[set[str]] = set()
        self.watch: Callable[[Source], object] = lambda _: None
        """Attaches a source to the controller: which instance class to watch is known only later."""

    async def reconcile(self, ctx: Context[NodeGroup]) -> Result | None:
        """Look at one group."""
        group = ctx.obj.to_dict()
        facts = await observe(CachedReader(ctx), group, ctx.now())
        self._watch_class(facts.class_kind)
        outcome = compute(facts)
        await write_status(ctx.client, ctx.obj, group.get("status") or {}, outcome.status)
        if outcome.notice is not None:
            _tell(ctx, outcome.notice)
        if self._metrics is not None:
            self._metrics.observe(ctx.key.name, outcome.status)
        return Requeue(after=PERIOD, reason="periodic")

    def _watch_class(self, kind: str) -> None:
        if kind in names.INSTANCE_CLASS_KINDS and kind not in self._watched:
            self._watched.add(kind)
            self.watch(KindSource(instance_class_kind(kind), mapped(_groups_of_class), optional=True))

    async def deleted(self, ctx: DeleteContext) -> None:
        """Stop counting a group that is gone."""
        if self._metrics is not None:
            self._metrics.forget(ctx.key.name)


def status_controller(metrics: NodeGroupMetrics | None = None) -> Controller[NodeGroup]:
    """The controller, for ``manager.add``."""
    reconciler = StatusReconciler(metrics)
    controller = (
        Builder(name="nodegroup-status")
        .for_(NodeGroup, predicates=[_RELEVANT])
        .watches(Node, to=_group_of_node)
        .indexes(Node, NODES_BY_GROUP)
        .watches(Secret, to=_every_group)
        .watches(McmMachine, to=_group_of_mcm_machine, optional=True)
        .watches(CapiMachine, to=_group_by_label, optional=True)
        .watches(McmMachineDeployment, to=_group_by_label, optional=True)
        .watches(CapiMachineDeployment, to=_group_by_label, optional=True)
        .rbac(_READ_CLASSES)
        .options(field_manager=names.FIELD_MANAGER)
        .build(reconciler)
    )
    reconciler.watch = controller.watch
    return controller


def _tell(ctx: Context[NodeGroup], notice: Notice) -> None:
    ctx.event("Warning" if notice.is_warning else "Normal", notice.reason, notice.message)


def _group_of_node(_: MapContext, node: Node) -> Iterable[Key]:
    group = node.metadata.labels.get(names.GROUP_LABEL)
    return (Key("", group),) if group else ()


def _group_by_label(_: MapContext, obj: Writable) -> Iterable[Key]:
    group = obj.metadata.labels.get(names.NODE_GROUP_LABEL)
    return (Key("", group),) if group else ()


def _group_of_mcm_machine(_: MapContext, machine: McmMachine) -> Iterable[Key]:
    group = mcm_group(machine)
    return (Key("", group),) if isinstance(group, str) and group else ()


async def _groups_of_class(context: MapContext, instance_class: DynamicObject) -> Iterable[Key]:
    groups = await context.cache.list(NodeGroup)
    return [group.key for group in groups if _refers_to(group, instance_class)]


def _refers_to(group: NodeGroup, instance_class: DynamicObject) -> bool:
    instances = group.spec.cloud_instances
    if not instances:
        return False
    reference = instances.class_reference
    return reference.name == instance_class.metadata.name and reference.kind == instance_class.kind


async def _every_group(context: MapContext, secret: Secret) -> Iterable[Key]:
    if (secret.metadata.namespace, secret.metadata.name) not in _SECRETS:
        return ()
    return [group.key for group in await context.cache.list(NodeGroup)]
