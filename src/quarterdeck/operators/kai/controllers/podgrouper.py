"""Puts pods into PodGroups.

Every pod of our scheduler is looked at when it appears and when its metadata changes, and again when the
PodGang that it names changes, or its PodGroup is gone or edited. Its owners say what group it belongs to; the
group is made or brought up to date, and the pod is marked with it. A PodGroup of somebody else is left
alone. What goes wrong is told in an event on the pod and tried again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind, Key
from quarterdeck.api.k8s import Pod, PriorityClass
from quarterdeck.client import MergePatch, StrategicMergePatch
from quarterdeck.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    ForeignObject,
    NoKindMatch,
    NotFound,
    QuarterdeckError,
    ignore_not_found,
)
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.index import PODS_BY_GANG, PODS_BY_GROUP
from quarterdeck.operators.kai.logic.grouping import (
    GrouperRegistry,
    GroupingError,
    GroupPlan,
    KindDefault,
    Reference,
    Workload,
    changed_pod_group,
    default_registry,
    group_name,
    new_pod_group,
    parse_kind_defaults,
    pod_patch,
)
from quarterdeck.operators.kai.logic.grouping.grove import POD_GANG
from quarterdeck.operators.kai.logic.podcondition import condition_patch
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.operators.kai.types import PodGroup
from quarterdeck.runtime.cache import owned_by, owner_uid
from quarterdeck.runtime.cache.store import Change
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import (
    Predicate,
    annotations_changed,
    generation_changed,
    labels_changed,
    never,
    object_matches,
    update_if,
)
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.ownership import require_ours
from quarterdeck.runtime.reconcile.result import Requeue, Result

from .owner import RememberingReader, owners_of

BACKOFF_BASE: Final = 1.0
BACKOFF_CAP: Final = 60.0
CONFLICT_DELAY: Final = 0.05
DEFAULTS_KEY: Final = "types"
_CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")

_RULES: Final = (
    Rule(groups=(POD_GANG.group,), resources=("podgangs",), verbs=("get", "list", "watch")),
    Rule(groups=("",), resources=("pods", "pods/status"), verbs=("patch",)),
    Rule(groups=(names.GROUP,), resources=("podgroups",), verbs=("create", "get", "list", "update", "watch")),
)
_owners_changed: Final = update_if(
    lambda old, new: old.owner_references != new.owner_references, "owners_changed"
)
_CHANGED_BY_OTHERS: Final = (
    generation_changed | labels_changed | annotations_changed | _owners_changed
) & Predicate("not_new", create=never)
"""What is new, the grouper has made; what runs in a group is the scheduler's business."""


class PodGrouper(Reconciler[Pod]):
    """Finds the group of a pod and puts the pod into it."""

    def __init__(self, reader: RememberingReader, settings: KaiSettings, registry: GrouperRegistry) -> None:
        self._reader: Final = reader
        self._settings: Final = settings
        self._registry: Final = registry
        self._waiting: Final[dict[Key, set[Key]]] = {}
        """Pods by PodGroups that are somebody else's."""

    async def reconcile(self, ctx: Context[Pod]) -> Result | None:
        """Look at one pod."""
        if not self.concerns(ctx.obj):
            return None
        try:
            await self._group(ctx)
        except Conflict as error:
            raise Requeue(after=CONFLICT_DELAY, reason="conflict") from error
        except QuarterdeckError as error:
            if ctx.obj.metadata.is_deleting and isinstance(error, GroupingError):
                return None  # owners often go first
            ctx.event("Warning", names.POD_GROUPER_WARNING, str(error))
            raise
        return None

    async def deleted(self, ctx: DeleteContext) -> None:
        """A pod is gone."""
        self._let_go(ctx.key)

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        """A PodGroup is gone or edited: a pod that brings it back, and those that could not have the name."""
        found = context.cache.lookup(Pod, PODS_BY_GROUP(event.key.name, event.key.namespace))
        pods = (pod.key for pod in found if self.concerns(pod) and not pod.metadata.is_deleting)
        # Any pod puts an edit right. If the group is gone, the first may have reasons not to make it.
        is_gone = event.change is Change.DELETED
        return {*itertools.islice(pods, None if is_gone else 1), *self._waiting.get(event.key, ())}

    def _let_go(self, pod: Key) -> None:
        for group in [group for group, pods in self._waiting.items() if pod in pods]:
            self._waiting[group].discard(pod)
            if not self._waiting[group]:
                del self._waiting[group]

    def concerns(self, pod: Pod) -> bool:
        """Whether a pod is to be grouped: it is ours, and nobody else has put it into a group."""
        if pod.spec.scheduler_name != self._settings.scheduler_name:
            return False
        annotations = pod.metadata.annotations
        if annotations.get(names.SKIP_GROUPER_ANNOTATION) == "true":
            return False
        group = annotations.get(names.POD_GROUP_ANNOTATION)
        own = group_name(pod.metadata.name, pod.metadata.uid)  # of a pod without owners, once it is grouped
        return group in (None, own) or bool(pod.metadata.owner_references)

    async def _group(self, ctx: Context[Pod]) -> None:
        pod = ctx.obj
        plan = await self._plan(ctx)
        self._let_go(ctx.key)
        try:
            await self._write_group(ctx, plan)
        except ForeignObject as error:
            self._waiting.setdefault(Key(plan.namespace, plan.name), set()).add(ctx.key)
            await self._tell_taken(ctx, is_taken=True, message=str(error))
            raise
        if any((each.type, each.status) == (names.NAME_TAKEN, "True") for each in pod.status.conditions):
            await self._tell_taken(ctx, is_taken=False, message="the PodGroup is the pod's own")
        patch = pod_patch(pod, plan)
        if patch:
            try:
                await ctx.patch(pod, MergePatch(patch))
            except NotFound:
                return

    @staticmethod
    async def _tell_taken(ctx: Context[Pod], *, is_taken: bool, message: str) -> None:
        """Say on the pod whether its PodGroup's name is somebody else's."""
        reason = names.FOREIGN_OBJECT if is_taken else names.OWN_OBJECT
        patch = condition_patch(
            ctx.obj, names.NAME_TAKEN, is_true=is_taken, reason=reason, message=message, now=ctx.now()
        )
        if patch is not None:
            with ignore_not_found():
                ctx.replace(await ctx.client.status.patch(ctx.obj, StrategicMergePatch(patch)))

    async def _plan(self, ctx: Context[Pod]) -> GroupPlan:
        pod = ctx.obj
        workload = Workload(
            pod=pod,
            owners=await owners_of(pod, self._reader),
            priority_classes=frozenset([each.metadata.name for each in await ctx.list(PriorityClass)]),
            kind_defaults=await self._kind_defaults(ctx),
            node_pool_label=self._settings.node_pool_label,
        )
        grouper, workload = self._registry.resolve(workload)
        if grouper.related is not None:
            related = await self._read(ctx, grouper.related(workload))
            workload = msgspec.structs.replace(workload, related=related)
        labels = grouper.companions(workload) if grouper.companions is not None else {}
        if labels:
            companions = await ctx.list(Pod, namespace=pod.metadata.namespace, labels=labels)
            workload = msgspec.structs.replace(workload, companions=tuple(companions))
        if grouper.needs_groups and workload.owners:
            groups = ctx.index(PodGroup, owned_by(workload.top_owner))
            workload = msgspec.structs.replace(workload, groups=tuple(groups))
        return grouper.plan(workload)

    async def _read(self, ctx: Context[Pod], reference: Reference) -> DynamicObject:
        """An object that a grouper wants."""
        if reference.is_watched:
            return await _read_watched(ctx, reference)
        kind, namespace = reference.kind, ctx.obj.metadata.namespace
        try:
            return await self._reader.get(kind, reference.name, namespace)
        except (ApiError, NoKindMatch) as error:
            what = f"{kind.kind} {namespace}/{reference.name}"
            raise GroupingError(f"failed to get {what}. Err: {error}") from error

    async def _kind_defaults(self, ctx: Context[Pod]) -> tuple[KindDefault, ...]:
        namespace, _, name = self._settings.default_priorities_config_map.partition("/")
        if not name:
            return ()
        try:
            found = await self._reader.get(_CONFIG_MAP, name, namespace)
            return parse_kind_defaults(found.at("data", DEFAULTS_KEY, default=""))
        except (ApiError, ValueError) as error:
            ctx.log.warning("no default priorities", error)
            return ()

    async def _write_group(self, ctx: Context[Pod], plan: GroupPlan) -> None:
        wanted = new_pod_group(plan)
        try:
            known = await ctx.get(PodGroup, plan.name, plan.namespace)
        except NotFound:
            try:
                await ctx.create(wanted)
                return
            except AlreadyExists:  # another pod of the group was first, and the cache is behind
                known = await ctx.get(PodGroup, plan.name, plan.namespace)
        require_ours(wanted, known)
        changed = changed_pod_group(known, plan)
        if changed is not None:
            await ctx.update(changed)


async def _read_watched(ctx: Context[Pod], reference: Reference) -> DynamicObject:
    """An object of a kind that is watched; asks the server before it says that there is none."""
    kind, name, namespace = reference.kind, reference.name, ctx.obj.metadata.namespace
    try:
        return await ctx.get(kind, name, namespace)
    except NotFound:
        try:
            return await ctx.get(kind, name, namespace, live=True)
        except (NotFound, NoKindMatch) as error:
            raise GroupingError(f"failed to get {kind.kind} {namespace}/{name}. Err: {error}") from error


def pod_grouper_controller(
    reader: RememberingReader, settings: KaiSettings, registry: GrouperRegistry | None = None
) -> Controller[Pod]:
    """The controller, for ``manager.add``."""
    registry = registry if registry is not None else default_registry()
    reconciler = PodGrouper(reader, settings, registry)
    relevant = [
        labels_changed | annotations_changed | _owners_changed,
        object_matches(reconciler.concerns, "grouped_here"),
    ]
    return (
        Builder(name=names.POD_GROUPER)
        .for_(Pod, predicates=relevant)
        .watches(POD_GANG, to=_pods_of_gang, optional=True)
        .watches(PodGroup, to=reconciler, predicates=[_CHANGED_BY_OTHERS])
        .indexes(Pod, PODS_BY_GANG)
        .indexes(Pod, PODS_BY_GROUP)
        .indexes(PodGroup, owner_uid)
        .rbac(*_owner_rules(registry), *_RULES, *_default_rules(settings))
        .options(
            max_concurrent_reconciles=settings.pod_grouper_workers,
            backoff_base=BACKOFF_BASE,
            backoff_cap=BACKOFF_CAP,
            field_manager=names.FIELD_MANAGER,
        )
        .build(reconciler)
    )


def _owner_rules(registry: GrouperRegistry) -> Iterable[Rule]:
    """The right to follow owners; one that may not be read counts as if it were not there."""
    for group, resources in registry.resources().items():
        yield Rule(groups=(group,), resources=resources, verbs=("get",))


def _default_rules(settings: KaiSettings) -> tuple[Rule, ...]:
    namespace, _, name = settings.default_priorities_config_map.partition("/")
    if not name:
        return ()
    resources, verbs = ("configmaps",), ("get",)
    return (
        Rule(groups=("",), resources=resources, verbs=verbs, resource_names=(name,), namespace=namespace),
    )


def _pods_of_gang(context: MapContext, gang: Any) -> Iterable[Key]:
    found = context.cache.lookup(Pod, PODS_BY_GANG(gang.metadata.name, gang.metadata.namespace))
    return [pod.key for pod in found]
