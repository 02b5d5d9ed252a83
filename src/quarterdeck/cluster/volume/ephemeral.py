"""Claims of pods that bring their own: made with the pod, owned by it, gone with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key, ObjectMeta, OwnerReference, controller_of
from quarterdeck.api.k8s import PersistentVolumeClaim, Pod
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import AlreadyExists, ForeignObject, NotFound, ReconcileError
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "ephemeral-volume-controller"
_MARK: Final = b'"ephemeral":'


async def _make_claims(ctx: Context[Pod]) -> Result | None:
    pod = ctx.obj
    if pod.metadata.is_deleting:
        return None
    for volume in pod.spec.volumes:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
        if not template:
            continue
        name = f"{pod.metadata.name}-{volume.name}"
        try:
            known = await ctx.get(PersistentVolumeClaim, name, ctx.key.namespace)
        except NotFound:
            known = None
        if known is not None:
            _check(ctx, pod, known)
            continue
        owner = OwnerReference(
            api_version="v1",
            kind="Pod",
            name=pod.metadata.name,
            uid=pod.metadata.uid,
            controller=True,
            block_owner_deletion=True,
        )
        metadata = ObjectMeta(
            name=name,
            namespace=ctx.key.namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            owner_references=(owner,),
        )
        try:
            await ctx.create(PersistentVolumeClaim(metadata=metadata, spec=template.spec))
        except (AlreadyExists, ForeignObject):
            _check(ctx, pod, await ctx.get(PersistentVolumeClaim, name, ctx.key.namespace, live=True))
    return None


def _check(ctx: Context[Pod], pod: Pod, claim: PersistentVolumeClaim) -> None:
    owner = controller_of(claim.metadata.owner_references)
    if owner is None or owner.uid != pod.metadata.uid:
        where = ctx.key.namespace
        text = (
            f"PVC {where}/{claim.metadata.name} was not created for pod {where}/{pod.metadata.name} "
            "(pod is not owner)"
        )
        ctx.event("Warning", "FailedBinding", f"ephemeral volume: {text}")
        raise ReconcileError(text)


def _brings_claims(event: ObjectEvent[Any]) -> bool:
    return _MARK in event.entry.raw


def _owner(_: MapContext, claim: PersistentVolumeClaim) -> Iterable[Key]:
    owner = controller_of(claim.metadata.owner_references)
    if owner is None or owner.kind != "Pod":
        return ()
    return (Key(claim.metadata.namespace, owner.name),)


_NEW: Final = Predicate(
    "brings_claims", create=_brings_claims, update=lambda _: False, delete=lambda _: False
)
_GONE: Final = Predicate("gone", create=lambda _: False, update=lambda _: False)


def ephemeral_volume_controller() -> Controller[Pod]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=NAME)
        .for_(Pod, predicates=[_NEW])
        .watches(PersistentVolumeClaim, to=_owner, predicates=[_GONE])
        .rbac(Rule(groups=("",), resources=("persistentvolumeclaims",), verbs=("create", "get")))
        .options(field_manager=FIELD_MANAGER)
        .build(_make_claims)
    )
