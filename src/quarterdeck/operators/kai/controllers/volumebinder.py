"""Gives the claims of a pod their volumes on the node that was chosen, before the pod is bound.

As kube-scheduler does it: an unused volume that the node reaches is set aside for the claim, or the claim is
told for which node its volume is to be made. The rest is the work of the volume controller and of the
provisioner; the pod is bound when all its claims are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api import from_dict
from quarterdeck.api.k8s import (
    Node,
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from quarterdeck.api.nodeselector import selects_node
from quarterdeck.client import MergePatch
from quarterdeck.errors import Conflict, NotFound, QuarterdeckError
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.volume import can_provision, claims_of, is_bound, suitable_volumes
from quarterdeck.operators.kai.types import BindRequest
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.scheduler.intake import node_info

Document = Mapping[str, Any]

RULES: Final = (
    Rule(groups=("",), resources=("nodes",), verbs=("get", "list", "watch")),
    Rule(
        groups=("",),
        resources=("persistentvolumeclaims", "persistentvolumes"),
        verbs=("get", "list", "patch", "watch"),
    ),
    Rule(groups=("storage.k8s.io",), resources=("storageclasses",), verbs=("get", "list", "watch")),
)


class VolumeError(QuarterdeckError):
    """A claim cannot get a volume on the node that was chosen; another node must be."""


async def prepare_volumes(ctx: Context[BindRequest], pod: Pod) -> bool:
    """See to the claims of a pod; whether all of them are bound. Raises ``VolumeError`` if one cannot be."""
    is_ready = True
    for name in claims_of(pod.to_dict()):
        try:
            claim = await ctx.get(PersistentVolumeClaim, name, ctx.key.namespace)
        except NotFound as error:
            raise VolumeError(f"persistentvolumeclaim {name} not found: create it") from error
        if not is_bound(claim.to_dict()):
            is_ready = False
            await _seek_volume(ctx, claim)
    return is_ready


async def _seek_volume(ctx: Context[BindRequest], claim: PersistentVolumeClaim) -> None:
    if claim.spec.volume_name:
        return  # the volume controller is about to finish it
    node, document = ctx.obj.spec.selected_node, claim.to_dict()
    chosen = claim.metadata.annotations.get(names.SELECTED_NODE_ANNOTATION)
    if chosen == node:
        return
    if chosen:
        raise VolumeError(
            f"a volume for persistentvolumeclaim {claim.key} is being made for node {chosen}, not {node}"
        )
    found = await _volume_at(ctx, document, node)
    if found is not None:
        await _set_aside(ctx, found, claim)
        return
    kind = await _storage_class(ctx, claim)
    if not can_provision(kind):
        raise VolumeError(f"node {node} didn't find available persistent volumes to bind for {claim.key}")
    patch = {"metadata": {"annotations": {names.SELECTED_NODE_ANNOTATION: node}}}
    await ctx.patch(claim, MergePatch(patch))


async def _volume_at(ctx: Context[BindRequest], claim: Document, node: str) -> PersistentVolume | None:
    """The best unused volume for a claim that a node reaches."""
    info = node_info((await ctx.get(Node, node)).to_dict())
    volumes = {each.metadata.name: each for each in await ctx.list(PersistentVolume)}
    for each in suitable_volumes(claim, [volume.to_dict() for volume in volumes.values()]):
        required = (each["spec"].get("nodeAffinity") or {}).get("required")
        if required is None or selects_node(from_dict(required, NodeSelector), info.name, info.labels):
            return volumes[each["metadata"]["name"]]
    return None


async def _set_aside(
    ctx: Context[BindRequest], volume: PersistentVolume, claim: PersistentVolumeClaim
) -> None:
    """Point a volume at its claim, unless somebody else did meanwhile."""
    metadata = claim.metadata
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
    }
    patch = {
        "metadata": {
            "resourceVersion": volume.metadata.resource_version,
            "annotations": {names.BOUND_BY_CONTROLLER_ANNOTATION: "yes"},
        },
        "spec": {"claimRef": reference},
    }
    try:
        await ctx.patch(volume, MergePatch(patch))
    except Conflict as error:
        raise VolumeError(f"persistentvolume {volume.metadata.name} was taken by somebody else") from error


async def _storage_class(ctx: Context[BindRequest], claim: PersistentVolumeClaim) -> Document:
    name = claim.spec.storage_class_name or ""
    try:
        return (await ctx.get(StorageClass, name)).to_dict()
    except NotFound:
        return {}


async def release_claims(ctx: Context[BindRequest], pod: Pod) -> None:
    """Take back the choice of a node from claims for which no volume was made there."""
    for name in claims_of(pod.to_dict()):
        try:
            claim = await ctx.get(PersistentVolumeClaim, name, ctx.key.namespace)
            chosen = claim.metadata.annotations.get(names.SELECTED_NODE_ANNOTATION)
            if not claim.spec.volume_name and chosen == ctx.obj.spec.selected_node:
                patch = {"metadata": {"annotations": {names.SELECTED_NODE_ANNOTATION: None}}}
                await ctx.patch(claim, MergePatch(patch))
        except NotFound:
            continue
