"""Carries out bind requests: puts pods on the nodes the scheduler chose, with their volumes.

An attempt that the server refuses is undone and told; as long as the request has attempts left it is
repeated, after 2, 4, 8 … seconds. A request without attempts left is the scheduler's to delete.
"""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import ObjectMeta, Time, value_or
from quarterdeck.api.k8s import Binding, ObjectReference, Pod
from quarterdeck.client import MergePatch, StrategicMergePatch
from quarterdeck.errors import ApiError, NotFound, QuarterdeckError
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.bindrequest import is_about, is_given_up
from quarterdeck.operators.kai.logic.podcondition import condition_patch
from quarterdeck.operators.kai.logic.sharedgpu import group_labels
from quarterdeck.operators.kai.metrics import KaiMetrics
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.operators.kai.types import BindRequest
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import generation_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

from .claimbinder import RULES as CLAIM_RULES
from .claimbinder import ClaimError, release_resource_claims, reserve_resource_claims
from .reservation import RULES as RESERVATION_RULES
from .reservation import ReservationError, forget_devices, reserve_devices
from .volumebinder import RULES as VOLUME_RULES
from .volumebinder import VolumeError, prepare_volumes, release_claims

DEVICE_POLL: Final = 2.0
"""Seconds between two looks at a reservation pod that has no device yet."""
VOLUME_POLL: Final = 2.0
"""Seconds between two looks at claims that are being bound."""

_log: Final = get_logger(__name__)
_RULES: Final = (
    Rule(groups=("",), resources=("pods",), verbs=("get", "list", "patch", "watch")),
    Rule(groups=("",), resources=("pods/binding",), verbs=("create",)),
    Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
)


class Binder(Reconciler[BindRequest]):
    """Binds one pod at a time."""

    def __init__(self, recorder: Recorder, metrics: KaiMetrics, settings: KaiSettings) -> None:
        self._recorder: Final = recorder
        self._metrics: Final = metrics
        self._volume_timeout: Final = settings.volume_bind_timeout
        self._reservation: Final = settings.gpu_reservation

    async def reconcile(self, ctx: Context[BindRequest]) -> Result | None:
        """Look at one request."""
        request = ctx.obj
        if request.metadata.is_deleting or request.status.phase == names.SUCCEEDED or is_given_up(request):
            return None
        try:
            pod = await ctx.get(Pod, request.spec.pod_name, ctx.key.namespace)
        except NotFound:
            return None  # the request goes with its pod
        if not is_about(request, pod):
            return None
        if pod.spec.node_name:
            await self._write_status(ctx, {"phase": names.SUCCEEDED, "reason": None})
            return None
        try:
            if not await prepare_volumes(ctx, pod):
                return await self._wait_for_volumes(ctx, pod)
            if self._shares_gpus(request) and not await self._reserve(ctx, pod):
                return Requeue(after=DEVICE_POLL, reason="waiting-for-device")
            await reserve_resource_claims(ctx, pod)
            await self._bind(ctx, pod)
        except (ApiError, VolumeError, ClaimError, ReservationError) as error:
            return await self._fail(ctx, pod, error)
        await self._succeed(ctx, pod)
        return None

    def _shares_gpus(self, request: BindRequest) -> bool:
        return self._reservation is not None and bool(request.spec.selected_gpu_groups)

    async def _reserve(self, ctx: Context[BindRequest], pod: Pod) -> bool:
        assert self._reservation is not None
        return await reserve_devices(ctx, pod, self._reservation)

    async def _wait_for_volumes(self, ctx: Context[BindRequest], pod: Pod) -> Result | None:
        """Look again until the claims are bound; for ever is too long."""
        created = ctx.obj.metadata.creation_timestamp
        if created and ctx.now().timestamp() - created.timestamp() > self._volume_timeout:
            await release_claims(ctx, pod)
            waited = f"{self._volume_timeout:g} seconds"
            return await self._fail(ctx, pod, VolumeError(f"volumes were not bound within {waited}"))
        return Requeue(after=VOLUME_POLL, reason="waiting-for-volumes")

    async def _bind(self, ctx: Context[BindRequest], pod: Pod) -> None:
        await ctx.patch(pod, MergePatch({"metadata": _marks(ctx.obj)}))
        metadata = pod.metadata
        binding = Binding(
            # with its UID: a pod of the same name that came later must not get this node
            metadata=ObjectMeta(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid),
            target=ObjectReference(kind="Node", name=ctx.obj.spec.selected_node),
        )
        await ctx.client.subresource("binding").create(pod, binding)

    async def _succeed(self, ctx: Context[BindRequest], pod: Pod) -> None:
        self._metrics.bind_attempt(has_succeeded=True)
        await self._write_status(ctx, {"phase": names.SUCCEEDED, "reason": None})
        note = f"Pod bound successfully to node {ctx.obj.spec.selected_node}"
        await self._tell(ctx, pod, is_bound=True, note=note, now=ctx.now())

    async def _fail(self, ctx: Context[BindRequest], pod: Pod, error: QuarterdeckError) -> Result | None:
        self._metrics.bind_attempt(has_succeeded=False)
        request = ctx.obj
        limit = value_or(request.spec.backoff_limit, 0)
        attempts = request.status.failed_attempts + 1
        if isinstance(error, VolumeError | ClaimError):  # the same node would not do a second time either
            attempts = max(attempts, limit)
        if attempts >= limit:
            await self._give_up(ctx, pod)
        await self._write_status(
            ctx, {"phase": names.FAILED, "reason": str(error), "failedAttempts": attempts}
        )
        try:
            await ctx.patch(pod, MergePatch({"metadata": _undone(_marks(request))}))
        except NotFound:
            return None
        note = f"Failed to bind pod {pod.key} to node {request.spec.selected_node}: {error}"
        await self._tell(ctx, pod, is_bound=False, note=note, now=ctx.now())
        if attempts >= limit:
            return None
        return Requeue(after=float(2**attempts), reason="binding-failed")

    async def _give_up(self, ctx: Context[BindRequest], pod: Pod) -> None:
        """Leave devices to others; what does not succeed now is undone when the pod is gone."""
        try:
            await release_resource_claims(ctx, pod)
            if self._shares_gpus(ctx.obj):
                await forget_devices(ctx, pod)
        except (ApiError, ClaimError) as error:
            _log.warning("devices not released", error, pod=str(pod.key))

    async def _tell(
        self, ctx: Context[BindRequest], pod: Pod, *, is_bound: bool, note: str, now: Time
    ) -> None:
        reason = names.BOUND if is_bound else names.BINDING_ERROR
        self._recorder.event(pod, "Normal" if is_bound else "Warning", reason, "Binding", note)
        patch = condition_patch(pod, names.POD_BOUND, is_true=is_bound, reason=reason, message=note, now=now)
        if patch is not None:
            try:
                await ctx.client.status.patch(pod, StrategicMergePatch(patch))
            except NotFound:
                return

    async def _write_status(self, ctx: Context[BindRequest], status: dict[str, Any]) -> None:
        try:
            await ctx.client.status.patch(ctx.obj, MergePatch({"status": status}))
        except NotFound:
            return


def _marks(request: BindRequest) -> dict[str, dict[str, str]]:
    """What the pod is told about its place: the kind of its GPUs, and which ones it shares."""
    spec = request.spec
    labels = group_labels(tuple(spec.selected_gpu_groups))
    marks = {"annotations": {names.RECEIVED_TYPE_ANNOTATION: spec.received_resource_type}}
    return {**marks, "labels": labels} if labels else marks


def _undone(marks: dict[str, dict[str, str]]) -> dict[str, dict[str, None]]:
    return {field: dict.fromkeys(values) for field, values in marks.items()}


def binder_controller(
    settings: KaiSettings, recorder: Recorder, metrics: KaiMetrics
) -> Controller[BindRequest]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=names.BINDER)
        .for_(BindRequest, predicates=[generation_changed])
        .rbac(*_RULES, *VOLUME_RULES, *CLAIM_RULES, *(RESERVATION_RULES if settings.gpu_reservation else ()))
        .options(
            max_concurrent_reconciles=settings.binder_workers,
            field_manager=names.FIELD_MANAGER,
        )
        .build(Binder(recorder, metrics, settings))
    )
