"""How many pods there should be: as those that control them say."""

from __future__ import annotations

from collections.abc import Iterable

from quarterdeck.api import GroupVersionKind, OwnerReference, Resource, controller_of, value_or
from quarterdeck.api.k8s import (
    Deployment,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    ScaleSubresource,
    StatefulSet,
)
from quarterdeck.cluster.podset.podview import PodView
from quarterdeck.errors import NotFound, ReconcileError
from quarterdeck.runtime.reconcile.context import Context

Expected = tuple[int, list[str]]
"""The number of pods, and the names of those that nobody controls."""

_KINDS: tuple[type[Resource], ...] = (ReplicationController, ReplicaSet, StatefulSet)


async def expected_scale(ctx: Context[PodDisruptionBudget], pods: Iterable[PodView]) -> Expected:
    """Ask the controllers of pods, each once; raises ``ReconcileError`` for one that cannot say."""
    scales: dict[str, int] = {}
    asked: dict[str, str] = {}
    unmanaged: list[str] = []
    for pod in pods:
        owner = controller_of(pod.entry.owner_references)
        if owner is None:
            unmanaged.append(pod.name)
            continue
        if owner.uid in asked:
            continue
        found = await _scale_of(ctx, owner, pod.entry.namespace)
        if found is None:
            raise ReconcileError(f'found no controllers for pod "{pod.name}"')
        uid, number = found
        asked[owner.uid] = uid
        scales[uid] = number
    return sum(scales.values()), unmanaged


async def _scale_of(
    ctx: Context[PodDisruptionBudget], owner: OwnerReference, namespace: str
) -> tuple[str, int] | None:
    """UID and size of what controls a pod: the Deployment above a ReplicaSet, or anything with a scale."""
    group = owner.api_version.rpartition("/")[0]
    for kind in _KINDS:
        if (kind.type_info.group, kind.type_info.kind) == (group, owner.kind):
            entry = ctx.cache.informer(kind).get(namespace, owner.name)
            if entry is None or entry.uid != owner.uid:
                break
            obj = ctx.cache.informer(kind).decoder(kind)(entry)
            above = controller_of(entry.owner_references) if kind is ReplicaSet else None
            if above is not None and above.kind == "Deployment":
                return _deployment(ctx, above, namespace)
            return entry.uid, value_or(obj.spec.replicas, 1)
    return await _by_subresource(ctx, owner, namespace)


def _deployment(
    ctx: Context[PodDisruptionBudget], owner: OwnerReference, namespace: str
) -> tuple[str, int] | None:
    informer = ctx.cache.informer(Deployment)
    entry = informer.get(namespace, owner.name)
    if entry is None or entry.uid != owner.uid:
        return None
    return entry.uid, value_or(informer.decoder(Deployment)(entry).spec.replicas, 1)


async def _by_subresource(
    ctx: Context[PodDisruptionBudget], owner: OwnerReference, namespace: str
) -> tuple[str, int] | None:
    gvk = GroupVersionKind.parse(owner.api_version, owner.kind)
    try:
        scale = await ctx.client.subresource("scale").get(
            gvk, owner.name, namespace, returns=ScaleSubresource
        )
    except NotFound:
        mapping = await ctx.client.mapper.mapping(gvk)
        if "scale" not in mapping.subresources:
            resource = mapping.gvr.resource + (f".{gvk.group}" if gvk.group else "")
            raise ReconcileError(f"{resource} does not implement the scale subresource") from None
        return None
    if scale.metadata.uid != owner.uid:
        return None
    return owner.uid, value_or(scale.spec.replicas, 0)
