"""The persistent volume binder: claims and volumes find each other, and volumes nobody needs are given up.

The volume is written before the claim, so that whoever is interrupted finds its way: a volume that names a
claim belongs to it. Keys are those of claims, and those of volumes, which have no namespace.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from quarterdeck.api import UNSET, Key, Resource
from quarterdeck.api.k8s import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.storageprotection import claims_of
from quarterdeck.cluster.volume import names
from quarterdeck.cluster.volume.match import (
    best_volume,
    bound_to_claim,
    claim_class,
    default_class,
    has_class,
    is_meant_for,
    mismatch,
    modes_differ,
)
from quarterdeck.errors import NotFound
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "persistentvolume-binder-controller"
EVENT_SOURCE: Final = "persistentvolume-controller"
_WORKERS: Final = 8
_GIVEN_UP: Final = ("Released", "Failed")
_EXTERNAL: Final = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and "
    "correctly registered."
)


class _Binder(Reconciler[Resource]):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder: Final = recorder

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """One claim, or one volume."""
        try:
            if ctx.key.namespace:
                await self._claim(ctx, await ctx.get(PersistentVolumeClaim, ctx.key.name, ctx.key.namespace))
            else:
                await self._volume(ctx, await ctx.get(PersistentVolume, ctx.key.name))
        except NotFound:
            return None
        return None

    async def _claim(self, ctx: Context[Resource], claim: PersistentVolumeClaim) -> None:
        if names.BIND_COMPLETED in claim.metadata.annotations:
            await self._bound_claim(ctx, claim)
        elif claim.spec.volume_name:
            await self._choosy_claim(ctx, claim)
        else:
            await self._unbound_claim(ctx, claim)

    async def _unbound_claim(self, ctx: Context[Resource], claim: PersistentVolumeClaim) -> None:
        classes = await ctx.list(StorageClass)
        chosen = next((each for each in classes if each.metadata.name == claim_class(claim)), None)
        waits = chosen is not None and chosen.volume_binding_mode == names.WAITS
        volume = best_volume(claim, await ctx.list(PersistentVolume), waits=waits)
        if volume is not None:
            await self._bind(ctx, volume, claim)
            return
        default = default_class(classes) if not has_class(claim) else None
        if default is not None:
            spec = claim.spec.evolve(storage_class_name=default.metadata.name)
            await ctx.client.update(claim.evolve(spec=spec))
            return
        if waits and names.SELECTED_NODE not in claim.metadata.annotations:
            self._tell(claim, "Normal", *_waiting(ctx.cache, claim))
        elif claim_class(claim):
            await self._ask_provisioner(ctx, claim, chosen)
            return
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            self._tell(claim, "Normal", "FailedBinding", text)
        await self._set_claim(ctx, claim, "Pending", None)

    async def _ask_provisioner(
        self, ctx: Context[Resource], claim: PersistentVolumeClaim, chosen: StorageClass | None
    ) -> None:
        if chosen is None:
            text = f'storageclass.storage.k8s.io "{claim_class(claim)}" not found'
            self._tell(claim, "Warning", "ProvisioningFailed", text)
            return
        if chosen.provisioner.startswith(names.IN_TREE):
            self._tell(claim, "Warning", "ProvisioningFailed", "no volume plugin matched")
            return
        mark = {names.OLD_PROVISIONER: chosen.provisioner, names.PROVISIONER: chosen.provisioner}
        if claim.metadata.annotations.get(names.PROVISIONER) != chosen.provisioner:
            annotations = {**claim.metadata.annotations, **mark}
            claim = await ctx.client.update(
                claim.evolve(metadata=claim.metadata.evolve(annotations=annotations))
            )
        self._tell(claim, "Normal", "ExternalProvisioning", _EXTERNAL.format(chosen.provisioner))

    async def _choosy_claim(self, ctx: Context[Resource], claim: PersistentVolumeClaim) -> None:
        """A claim that names its volume."""
        volume = await _find(ctx, claim.spec.volume_name)
        if volume is None:
            await self._set_claim(ctx, claim, "Pending", None)
        elif not volume.spec.claim_ref:
            why = mismatch(volume, claim)
            if not why:
                await self._bind(ctx, volume, claim)
                return
            text = f'Cannot bind to requested volume "{volume.metadata.name}": {why}'
            self._tell(claim, "Warning", "VolumeMismatch", text)
            await self._set_claim(ctx, claim, "Pending", None)
        elif is_meant_for(volume, claim):
            await self._bind(ctx, volume, claim)
        else:
            text = f'volume "{volume.metadata.name}" already bound to a different claim.'
            self._tell(claim, "Warning", "FailedBinding", text)
            if names.BOUND_BY_CONTROLLER not in claim.metadata.annotations:
                await self._set_claim(ctx, claim, "Pending", None)

    async def _bound_claim(self, ctx: Context[Resource], claim: PersistentVolumeClaim) -> None:
        if not claim.spec.volume_name:
            text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            await self._lose(ctx, claim, "ClaimLost", text)
            return
        volume = await _find(ctx, claim.spec.volume_name)
        if volume is None:
            text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            await self._lose(ctx, claim, "ClaimLost", text)
        elif not volume.spec.claim_ref or volume.spec.claim_ref.uid == claim.metadata.uid:
            await self._bind(ctx, volume, claim)
        else:
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(ctx, claim, "ClaimMisbound", text)

    async def _lose(
        self, ctx: Context[Resource], claim: PersistentVolumeClaim, reason: str, text: str
    ) -> None:
        if claim.status.phase != "Lost":
            await self._set_claim(ctx, claim, "Lost", None)
            self._tell(claim, "Warning", reason, text)

    async def _bind(
        self, ctx: Context[Resource], volume: PersistentVolume, claim: PersistentVolumeClaim
    ) -> None:
        bound = bound_to_claim(volume, claim)
        if bound is not volume:
            volume = await ctx.client.update(bound)
        volume = await self._set_volume(ctx, volume, "Bound")
        annotations = dict(claim.metadata.annotations)
        if claim.spec.volume_name != volume.metadata.name:
            annotations.setdefault(names.BOUND_BY_CONTROLLER, "yes")
        annotations.setdefault(names.BIND_COMPLETED, "yes")
        if annotations != claim.metadata.annotations or claim.spec.volume_name != volume.metadata.name:
            claim = await ctx.client.update(
                claim.evolve(
                    metadata=claim.metadata.evolve(annotations=annotations),
                    spec=claim.spec.evolve(volume_name=volume.metadata.name),
                )
            )
        await self._set_claim(ctx, claim, "Bound", volume)

    async def _volume(self, ctx: Context[Resource], volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if not reference or not reference.uid:
            await self._set_volume(ctx, volume, "Available")
            return
        claim = await _claim_of(ctx, volume)
        if claim is None:
            await self._give_up(ctx, volume)
        elif not claim.spec.volume_name:
            if modes_differ(claim, volume):
                self._tell_of_modes(volume, claim)
            else:
                await self._claim(ctx, claim)
        elif claim.spec.volume_name == volume.metadata.name:
            await self._set_volume(ctx, volume, "Bound")
        elif (
            names.PROVISIONED_BY in volume.metadata.annotations
            and volume.spec.persistent_volume_reclaim_policy == "Delete"
        ):
            await self._give_up(ctx, volume)
        else:
            await self._unbind(ctx, volume)

    def _tell_of_modes(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        text = (
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim "
            f'"{claim.metadata.name}" due to incompatible volumeMode.'
        )
        self._recorder.event(volume, "Warning", "VolumeMismatch", "Bind", text)
        text = (
            f'Cannot bind PersistentVolume "{volume.metadata.name}" to requested PersistentVolumeClaim '
            "due to incompatible volumeMode."
        )
        self._tell(claim, "Warning", "VolumeMismatch", text)

    async def _give_up(self, ctx: Context[Resource], volume: PersistentVolume) -> None:
        """The claim is gone. What was provisioned from outside is deleted from there."""
        if volume.status.phase not in _GIVEN_UP:
            volume = await self._set_volume(ctx, volume, "Released")
        policy = volume.spec.persistent_volume_reclaim_policy
        provisioner = volume.metadata.annotations.get(names.PROVISIONED_BY, "")
        is_external = bool(volume.spec.csi) or (provisioner and not provisioner.startswith(names.IN_TREE))
        if policy in ("", "Retain") or (policy == "Delete" and is_external):
            return
        if volume.status.phase == "Failed":
            return
        if policy == "Delete":
            reason = "VolumeFailedDelete"
            name = volume.metadata.name
            text = f'error getting deleter volume plugin for volume "{name}": no volume plugin matched'
        else:
            reason, text = "VolumeFailedRecycle", "No recycler plugin found for the volume!"
        volume = await self._set_volume(ctx, volume, "Failed", text)
        self._recorder.event(volume, "Warning", reason, "Reclaim", text)

    async def _unbind(self, ctx: Context[Resource], volume: PersistentVolume) -> None:
        """The claim got another volume; one that an administrator reserved for it stays so."""
        annotations = dict(volume.metadata.annotations)
        reference = volume.spec.claim_ref
        assert reference
        if annotations.pop(names.BOUND_BY_CONTROLLER, None) is not None:
            spec = volume.spec.evolve(claim_ref=UNSET)
        else:
            spec = volume.spec.evolve(claim_ref=reference.evolve(uid=""))
        changed = volume.evolve(metadata=volume.metadata.evolve(annotations=annotations), spec=spec)
        await self._set_volume(ctx, await ctx.client.update(changed), "Available")

    async def _set_volume(
        self, ctx: Context[Resource], volume: PersistentVolume, phase: str, message: str = ""
    ) -> PersistentVolume:
        if volume.status.phase == phase:
            return volume
        status = volume.status.evolve(phase=phase, message=message)
        return await ctx.client.status.update(volume.evolve(status=status))

    async def _set_claim(
        self,
        ctx: Context[Resource],
        claim: PersistentVolumeClaim,
        phase: str,
        volume: PersistentVolume | None,
    ) -> None:
        known = claim.status
        if volume is None:
            wanted = known.evolve(
                phase=phase, access_modes=(), capacity={}, current_volume_attributes_class_name=UNSET
            )
        else:
            wanted = known.evolve(phase=phase, access_modes=volume.spec.access_modes)
            if known.phase != phase:  # later the claim may say what its file system has, which can be less
                wanted = wanted.evolve(capacity=volume.spec.capacity)
            if known.phase == "Pending" and phase == "Bound":
                wanted = wanted.evolve(
                    current_volume_attributes_class_name=volume.spec.volume_attributes_class_name
                )
        if wanted != known:
            await ctx.client.status.update(claim.evolve(status=wanted))

    def _tell(
        self, claim: PersistentVolumeClaim, type: Literal["Normal", "Warning"], reason: str, text: str
    ) -> None:
        self._recorder.event(claim, type, reason, "Bind", text)


async def _find(ctx: Context[Resource], name: str) -> PersistentVolume | None:
    try:
        return await ctx.get(PersistentVolume, name)
    except NotFound:
        return None


async def _claim_of(ctx: Context[Resource], volume: PersistentVolume) -> PersistentVolumeClaim | None:
    """The claim that a volume names; nobody's volume is given up because the cache is behind."""
    reference = volume.spec.claim_ref
    assert reference
    for live in (False, True):
        try:
            claim = await ctx.get(PersistentVolumeClaim, reference.name, reference.namespace, live=live)
        except NotFound:
            continue
        if claim.metadata.uid == reference.uid:
            return claim
    return None


def _waiting(cache: Cache, claim: PersistentVolumeClaim) -> tuple[str, str]:
    """What a claim waits for whose class waits for pods."""
    informer = cache.informer(Pod)
    pods = map(informer.decoder(Pod).once, informer.entries(claim.metadata.namespace))
    waiting = [
        pod.metadata.name for pod in pods if not pod.spec.node_name and claim.metadata.name in claims_of(pod)
    ]
    if not waiting:
        return "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
    what = f"pods {','.join(waiting)}" if len(waiting) > 1 else f"pod {waiting[0]}"
    return "WaitForPodScheduled", f"waiting for {what} to be scheduled"


class _ClaimsOfVolumes:
    """The volume itself, the claim it names, and all that wait if it may be had."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        volume = PersistentVolume.from_bytes(event.entry.raw)
        reference = volume.spec.claim_ref
        yield event.entry.key
        if reference:
            yield Key(reference.namespace, reference.name)
        elif volume.status.phase == "Available" or event.new is None:
            yield from _unbound(context)
        if event.new is None:
            for claim in _claims(context.cache):
                if claim.spec.volume_name == volume.metadata.name:
                    yield claim.key


def _claims(cache: Cache) -> Iterable[PersistentVolumeClaim]:
    informer = cache.informer(PersistentVolumeClaim)
    return map(informer.decoder(PersistentVolumeClaim), informer.entries())


def _unbound(context: MapContext) -> Iterable[Key]:
    return [
        claim.key
        for claim in _claims(context.cache)
        if names.BIND_COMPLETED not in claim.metadata.annotations
    ]


def _claims_that_wait(context: MapContext, _: StorageClass) -> Iterable[Key]:
    return _unbound(context)


def _volume_of_claim(_: MapContext, claim: PersistentVolumeClaim) -> Iterable[Key]:
    name = claim.spec.volume_name
    return (claim.key, Key("", name)) if name else (claim.key,)


_NOT_GONE: Final = Predicate("not_gone", delete=lambda _: False)


def volume_binder_controller(recorder: Recorder) -> Controller[Resource]:
    """The controller, for ``manager.add``; ``recorder`` takes events about claims and volumes."""
    return (
        Builder[Resource](name=NAME)
        .watches(PersistentVolumeClaim, to=_volume_of_claim)
        .watches(PersistentVolume, to=_ClaimsOfVolumes())
        .watches(StorageClass, to=_claims_that_wait, predicates=[_NOT_GONE])
        .rbac(
            Rule(groups=("",), resources=("persistentvolumes",), verbs=("update",)),
            Rule(groups=("",), resources=("persistentvolumes/status",), verbs=("update",)),
            Rule(groups=("",), resources=("persistentvolumeclaims",), verbs=("get", "update")),
            Rule(groups=("",), resources=("persistentvolumeclaims/status",), verbs=("update",)),
        )
        .options(max_concurrent_reconciles=_WORKERS, field_manager=FIELD_MANAGER)
        .build(_Binder(recorder))
    )
