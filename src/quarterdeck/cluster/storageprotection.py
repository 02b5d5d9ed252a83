"""Claims and volumes that are in use outlive their deletion.

The finalizer ``kubernetes.io/pvc-protection`` goes when no scheduled pod mounts the claim,
``kubernetes.io/pv-protection`` when no claim is bound to the volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from quarterdeck.api import Key
from quarterdeck.api.k8s import PersistentVolume, PersistentVolumeClaim, Pod
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

_CLAIM_NAME: Final = "persistentvolumeclaim-protection-controller"
_CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
_VOLUME_NAME: Final = "persistentvolume-protection-controller"
_VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"
_GONE: Final = Predicate("gone", create=lambda _: False, update=lambda _: False)


def claims_of(pod: Pod) -> Iterator[str]:
    """Names of the claims a pod mounts; those of its ephemeral volumes are named after both."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral:
            yield f"{pod.metadata.name}-{volume.name}"


async def _protect_claim(ctx: Context[PersistentVolumeClaim]) -> Result | None:
    async with ctx.finalizer(_CLAIM_FINALIZER) as scope:
        if scope.is_deleting and await _is_mounted(ctx):
            scope.keep()
    return None


async def _is_mounted(ctx: Context[PersistentVolumeClaim]) -> bool:
    """Asked of the server, because a pod may have been scheduled a moment ago.

    A pod that has no node yet does not count: it will not start with a claim in deletion.
    """
    pods = await ctx.client.list(Pod, namespace=ctx.key.namespace)
    return any(pod.spec.node_name and ctx.key.name in claims_of(pod) for pod in pods)


async def _protect_volume(ctx: Context[PersistentVolume]) -> Result | None:
    async with ctx.finalizer(_VOLUME_FINALIZER) as scope:
        if scope.is_deleting and ctx.obj.status.phase == "Bound":
            scope.keep()
    return None


def _mounted_claims(_: MapContext, pod: Pod) -> Iterable[Key]:
    return [Key(pod.metadata.namespace, name) for name in claims_of(pod)]


def claim_protection_controller() -> Controller[PersistentVolumeClaim]:
    """The controller of claims, for ``manager.add``."""
    return (
        Builder(PersistentVolumeClaim, name=_CLAIM_NAME)
        .watches(Pod, to=_mounted_claims, predicates=[_GONE])
        .rbac(Rule(groups=("",), resources=("persistentvolumeclaims",), verbs=("patch",)))
        .options(field_manager=FIELD_MANAGER)
        .build(_protect_claim)
    )


def volume_protection_controller() -> Controller[PersistentVolume]:
    """The controller of volumes, for ``manager.add``."""
    return (
        Builder(PersistentVolume, name=_VOLUME_NAME)
        .rbac(Rule(groups=("",), resources=("persistentvolumes",), verbs=("patch",)))
        .options(field_manager=FIELD_MANAGER)
        .build(_protect_volume)
    )
