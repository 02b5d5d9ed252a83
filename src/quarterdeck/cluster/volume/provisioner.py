"""The simulated provisioner: volumes that exist on paper only, for classes that name it.

It does what a CSI driver's sidecars do: makes a volume for a claim that is handed to it, lets it grow, and
deletes it when it is released. It can give the cluster a default class when it starts.
"""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Key, ObjectMeta, Resource
from quarterdeck.api.k8s import PersistentVolume, PersistentVolumeClaim, StorageClass
from quarterdeck.api.k8s.volume import CSIPersistentVolumeSource, PersistentVolumeSpec
from quarterdeck.cluster.volume import names
from quarterdeck.cluster.volume.expand import wants_more
from quarterdeck.cluster.volume.match import claim_class, requested, size_of
from quarterdeck.errors import AlreadyExists, NotFound, ignore_already_exists, ignore_not_found
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import FunctionSource, SourceContext
from quarterdeck.runtime.event.subject import reference_to
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "simulated-provisioner"
_CLASS: Final = Key("class", "default")
_WORKERS: Final = 8


class _Provisioner(Reconciler[Resource]):
    def __init__(self, recorder: Recorder, default_class: str) -> None:
        self._recorder: Final = recorder
        self._default_class: Final = default_class

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """One claim, one volume, or the class."""
        try:
            if ctx.key == _CLASS:
                await self._make_class(ctx)
            elif ctx.key.namespace:
                await self._serve(ctx, await ctx.get(PersistentVolumeClaim, ctx.key.name, ctx.key.namespace))
            else:
                await _reclaim(ctx, await ctx.get(PersistentVolume, ctx.key.name))
        except NotFound:
            return None
        return None

    async def _make_class(self, ctx: Context[Resource]) -> None:
        """The default class, where there is no class at all: who has some knows what they want."""
        if (await ctx.client.list(StorageClass)).items:
            return
        metadata = ObjectMeta(name=self._default_class, annotations={names.DEFAULT_CLASS: "true"})
        with ignore_already_exists():
            await ctx.create(
                StorageClass(
                    metadata=metadata,
                    provisioner=names.SIMULATED_PROVISIONER,
                    reclaim_policy="Delete",
                    volume_binding_mode="Immediate",
                    allow_volume_expansion=True,
                )
            )

    async def _serve(self, ctx: Context[Resource], claim: PersistentVolumeClaim) -> None:
        if claim.metadata.is_deleting:
            return
        if claim.spec.volume_name:
            await self._grow(ctx, claim)
        elif claim.metadata.annotations.get(names.PROVISIONER) == names.SIMULATED_PROVISIONER:
            await self._provision(ctx, claim)

    async def _provision(self, ctx: Context[Resource], claim: PersistentVolumeClaim) -> None:
        chosen = await ctx.get(StorageClass, claim_class(claim))
        if (
            chosen.volume_binding_mode == names.WAITS
            and names.SELECTED_NODE not in claim.metadata.annotations
        ):
            return
        volume = volume_for(claim, chosen)
        where = f"{claim.metadata.namespace}/{claim.metadata.name}"
        text = f'External provisioner is provisioning volume for claim "{where}"'
        try:
            await ctx.create(volume)
        except AlreadyExists:
            return
        self._recorder.event(claim, "Normal", "Provisioning", "Provision", text)
        text = f"Successfully provisioned volume {volume.metadata.name}"
        self._recorder.event(claim, "Normal", "ProvisioningSucceeded", "Provision", text)

    async def _grow(self, ctx: Context[Resource], claim: PersistentVolumeClaim) -> None:
        if claim.status.phase != "Bound" or not wants_more(claim):
            return
        volume = await ctx.get(PersistentVolume, claim.spec.volume_name)
        if not _is_simulated(volume):
            return
        wanted = {**volume.spec.capacity, names.STORAGE: requested(claim)}
        if size_of(volume) < requested(claim):
            volume = await ctx.client.update(volume.evolve(spec=volume.spec.evolve(capacity=wanted)))
        status = claim.status.evolve(capacity={names.STORAGE: requested(claim)})
        await ctx.client.status.update(claim.evolve(status=status))
        text = f"Resize volume {volume.metadata.name} succeeded"
        self._recorder.event(claim, "Normal", "VolumeResizeSuccessful", "Resize", text)


def volume_for(claim: PersistentVolumeClaim, chosen: StorageClass) -> PersistentVolume:
    """The volume that a claim of a class gets."""
    name = f"pvc-{claim.metadata.uid}"
    policy = chosen.reclaim_policy
    return PersistentVolume(
        metadata=ObjectMeta(name=name, annotations={names.PROVISIONED_BY: names.SIMULATED_PROVISIONER}),
        spec=PersistentVolumeSpec(
            capacity={names.STORAGE: requested(claim)},
            access_modes=claim.spec.access_modes,
            claim_ref=reference_to(claim),
            persistent_volume_reclaim_policy=policy if isinstance(policy, str) else "Delete",
            storage_class_name=chosen.metadata.name,
            mount_options=chosen.mount_options,
            volume_mode=claim.spec.volume_mode,
            volume_attributes_class_name=claim.spec.volume_attributes_class_name,
            csi=CSIPersistentVolumeSource(driver=names.SIMULATED_PROVISIONER, volume_handle=name),
        ),
    )


async def _reclaim(ctx: Context[Resource], volume: PersistentVolume) -> None:
    is_over = volume.status.phase == "Released" and not volume.metadata.is_deleting
    if is_over and _is_simulated(volume) and volume.spec.persistent_volume_reclaim_policy == "Delete":
        with ignore_not_found():
            await ctx.delete(volume)


def _is_simulated(volume: PersistentVolume) -> bool:
    return volume.metadata.annotations.get(names.PROVISIONED_BY) == names.SIMULATED_PROVISIONER


def _mentions_us(event: ObjectEvent[Any]) -> bool:
    return names.SIMULATED_PROVISIONER.encode() in event.entry.raw


_OURS: Final = Predicate("ours", create=_mentions_us, update=_mentions_us, delete=lambda _: False)
_NEVER: Final = Predicate("never", create=lambda _: False, update=lambda _: False, delete=lambda _: False)


def simulated_provisioner(recorder: Recorder, *, default_class: str = "") -> Controller[Resource]:
    """The controller, for ``manager.add``; a ``default_class`` is made if the cluster has no class."""

    async def begin(context: SourceContext) -> None:
        if default_class and not context.cluster:
            context.enqueue(_CLASS, 0)
        context.synced()

    return (
        Builder[Resource](name=NAME)
        .source(FunctionSource(begin, name="class"))
        .watches(PersistentVolumeClaim, predicates=[_OURS])
        .watches(PersistentVolume, predicates=[_OURS])
        .watches(StorageClass, predicates=[_NEVER])
        .rbac(
            Rule(groups=("",), resources=("persistentvolumes",), verbs=("create", "delete", "update")),
            Rule(groups=("",), resources=("persistentvolumeclaims/status",), verbs=("update",)),
            Rule(groups=("storage.k8s.io",), resources=("storageclasses",), verbs=("create", "list")),
        )
        .options(max_concurrent_reconciles=_WORKERS, field_manager=NAME)
        .build(_Provisioner(recorder, default_class))
    )
