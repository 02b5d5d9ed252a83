"""Reserves devices for pods that share GPUs: before they are bound, and as long as they run.

A reservation pod has a name of its own for each shared GPU, so making it again changes nothing. The keeper
removes those that nobody uses any more, and pods whose reservation is gone: their device may be somebody
else's by now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api import DynamicObject, Key, ObjectMeta, controller_of, owner_reference, value_or
from quarterdeck.api.k8s import ConfigMap, Pod
from quarterdeck.client import metadata_of
from quarterdeck.errors import AlreadyExists, ForeignObject, NotFound, QuarterdeckError, SchemaError
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.index import PODS_BY_GPU_GROUP, REQUESTS_BY_GPU_GROUP
from quarterdeck.operators.kai.logic.bindrequest import is_given_up
from quarterdeck.operators.kai.logic.sharedgpu import (
    OLD_PORTION,
    PORTION,
    VISIBLE_DEVICES,
    config_maps_of,
    environment_of,
    is_reservation,
    reservation_name,
    reservation_pod,
)
from quarterdeck.operators.kai.settings import ReservationSettings
from quarterdeck.operators.kai.types import BindRequest
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import object_matches
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.ownership import is_ours
from quarterdeck.scheduler.intake import gpu_groups_of

RULES: Final = (
    Rule(groups=("",), resources=("pods",), verbs=("create", "delete", "get")),
    Rule(groups=("",), resources=("configmaps",), verbs=("create", "delete", "get", "patch")),
)


class ReservationError(QuarterdeckError):
    """A device was not to be had, or the pod cannot be told which one it is."""


async def reserve_devices(ctx: Context[BindRequest], pod: Pod, settings: ReservationSettings) -> bool:
    """Reserve the shared GPUs of a pod and tell it which they are; whether all of them are known yet."""
    spec = ctx.obj.spec
    devices = []
    for group in spec.selected_gpu_groups:
        found = await _device(ctx, settings, group, pod)
        if found:
            devices.append(found)
    if len(devices) < len(spec.selected_gpu_groups):
        return False
    try:
        maps = config_maps_of(pod.to_dict())
    except SchemaError as error:
        raise ReservationError(str(error)) from error
    portion = value_or(spec.received_gpu, None)
    visible, part = environment_of(settings, devices, portion.portion if portion is not None else "")
    data: dict[str, dict[str, str]] = {
        maps.capabilities: {PORTION: part, OLD_PORTION: part},
        maps.environment: {},
    }
    data[maps.device_in][VISIBLE_DEVICES] = visible
    for name, values in data.items():
        made = ConfigMap(
            metadata=ObjectMeta(
                name=name, namespace=pod.metadata.namespace, owner_references=(owner_reference(pod),)
            ),
            data=values,
        )
        try:
            await ctx.apply(made, field_manager=names.FIELD_MANAGER)
        except ForeignObject as error:
            raise ReservationError(str(error)) from error
    return True


async def _device(ctx: Context[BindRequest], settings: ReservationSettings, group: str, pod: Pod) -> str:
    """The device of a shared GPU for a pod; empty as long as its reservation pod has none."""
    node = ctx.obj.spec.selected_node
    name = reservation_name(node, group)
    try:
        found = await ctx.client.get(Pod, name, settings.namespace)
    except NotFound:
        tolerations = pod.to_dict()["spec"].get("tolerations") or ()
        wanted = DynamicObject(reservation_pod(settings, node, group, tolerations))
        try:
            await ctx.client.create(wanted)
        except AlreadyExists:
            return ""
        except NotFound as error:
            problem = f"namespace {settings.namespace} for reservation pods does not exist: create it"
            raise ReservationError(problem) from error
        return ""
    if not is_reservation(found.to_dict()):
        owner = controller_of(found.metadata.owner_references)
        whose = f"is controlled by {owner.kind} {owner.name}" if owner is not None else "is nobody's"
        raise ReservationError(
            f"pod {settings.namespace}/{name} has the name of a reservation pod, but is none and {whose}"
        )
    if found.metadata.is_deleting:
        return ""
    device = found.metadata.annotations.get(names.RESERVED_DEVICE_ANNOTATION, "")
    created = found.metadata.creation_timestamp
    if not device and created and ctx.now().timestamp() - created.timestamp() > settings.timeout:
        await ctx.client.delete(found, grace_period=0, uid=found.metadata.uid)
        raise ReservationError(
            f"reservation pod {settings.namespace}/{name} got no device within {settings.timeout:g} seconds"
        )
    return device


async def forget_devices(ctx: Context[BindRequest], pod: Pod) -> None:
    """Take back what a pod was told that is not bound after all; the keeper sees to the reservation."""
    try:
        maps = config_maps_of(pod.to_dict())
    except SchemaError:
        return
    for name in (maps.capabilities, maps.environment):
        try:
            told = await ctx.client.get(metadata_of(ConfigMap), name, pod.metadata.namespace)
            if is_ours([owner_reference(pod)], told.metadata.owner_references):
                await ctx.client.delete(ConfigMap, name, pod.metadata.namespace, uid=told.metadata.uid)
        except NotFound:
            continue


class ReservationKeeper(Reconciler[Pod]):
    """Looks at reservation pods and at those that share GPUs."""

    def __init__(self, settings: ReservationSettings, recorder: Recorder) -> None:
        self._settings: Final = settings
        self._recorder: Final = recorder

    async def reconcile(self, ctx: Context[Pod]) -> None:
        """Look at one pod."""
        pod = ctx.obj
        if pod.metadata.is_deleting:
            return
        if not is_reservation(pod.to_dict()):
            await self._check_user(ctx, pod)
        elif not any([await _is_used(ctx, group) for group in gpu_groups_of(pod.metadata.labels)]):
            await _remove(ctx, pod, grace_period=0)

    async def _check_user(self, ctx: Context[Pod], pod: Pod) -> None:
        """A pod that runs without the reservation that it was bound with has to go."""
        is_told = names.SHARED_GPU_CONFIG_MAP_ANNOTATION in pod.metadata.annotations
        if not is_told or pod.status.phase != names.RUNNING:
            return
        for group in gpu_groups_of(pod.metadata.labels):
            name = reservation_name(pod.spec.node_name, group)
            try:
                await ctx.get(Pod, name, self._settings.namespace)
            except NotFound:
                note = f"The reservation of GPU group {group} is gone; {pod.key} cannot stay on it"
                self._recorder.event(pod, "Warning", "ReservationLost", "Evicting", note)
                await _remove(ctx, pod)
                return


async def _remove(ctx: Context[Pod], pod: Pod, *, grace_period: int | None = None) -> None:
    try:
        if grace_period is None:
            await ctx.client.delete(pod, uid=pod.metadata.uid)
        else:
            await ctx.client.delete(pod, uid=pod.metadata.uid, grace_period=grace_period)
    except NotFound:
        return


async def _is_used(ctx: Context[Pod], group: str) -> bool:
    """Whether a pod shares the GPU or is about to: it has a request before it has the label."""
    pods = [each for each in ctx.index(Pod, PODS_BY_GPU_GROUP(group)) if not is_reservation(each.to_dict())]
    for request in ctx.index(BindRequest, REQUESTS_BY_GPU_GROUP(group)):
        if is_given_up(request):
            continue
        try:
            pods.append(await ctx.get(Pod, request.spec.pod_name, request.metadata.namespace))
        except NotFound:
            continue
    return any(each.status.phase in ("", names.PENDING, names.RUNNING) for each in pods)


def _shares_gpus(pod: Pod) -> bool:
    return bool(gpu_groups_of(pod.metadata.labels))


def reservation_keeper(settings: ReservationSettings, recorder: Recorder) -> Controller[Pod]:
    """The controller, for ``manager.add``."""

    def reservations(_: MapContext, pod: Pod) -> Iterable[Key]:
        node = pod.spec.node_name
        return [
            Key(settings.namespace, reservation_name(node, group))
            for group in gpu_groups_of(pod.metadata.labels)
        ]

    def requested(_: MapContext, request: BindRequest) -> Iterable[Key]:
        return [
            Key(settings.namespace, reservation_name(request.spec.selected_node, group))
            for group in request.spec.selected_gpu_groups
        ]

    def users(context: MapContext, pod: Pod) -> Iterable[Key]:
        if not is_reservation(pod.to_dict()):
            return ()
        return [
            each.key
            for group in gpu_groups_of(pod.metadata.labels)
            for each in context.cache.lookup(Pod, PODS_BY_GPU_GROUP(group))
        ]

    shares = object_matches(_shares_gpus, "shares_gpus")
    return (
        Builder(name=names.RESERVATION)
        .for_(Pod, predicates=[shares])
        .watches(Pod, to=reservations, predicates=[shares])
        .watches(Pod, to=users, predicates=[shares])
        .watches(BindRequest, to=requested)
        .indexes(Pod, PODS_BY_GPU_GROUP)
        .indexes(BindRequest, REQUESTS_BY_GPU_GROUP)
        .rbac(Rule(groups=("",), resources=("pods",), verbs=("delete",)))
        .options(field_manager=names.FIELD_MANAGER)
        .build(ReservationKeeper(settings, recorder))
    )
