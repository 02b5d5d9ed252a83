"""Carries out what a scheduling cycle decided.

Bind requests are deleted before others are made; everything else happens side by side. A decision that the
server refuses is told, logged and counted, and the others go on: the next cycle decides afresh on what came
of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import singledispatchmethod
from typing import Any, Final, TypeVar

from quarterdeck.api import Key, ObjectMeta, Resource, Time, from_dict, owner_reference, to_dict
from quarterdeck.api.codec import decode_json
from quarterdeck.api.k8s import DeviceClass, Pod, ResourceClaim
from quarterdeck.api.label import check_label_value
from quarterdeck.client import Client, MergePatch, StrategicMergePatch
from quarterdeck.client.clock import Clock
from quarterdeck.errors import AlreadyExists, ApiError, ForeignObject, NotFound, TransportError
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.bindrequest import is_about, is_left_of
from quarterdeck.operators.kai.logic.condition import explanations, with_unschedulable
from quarterdeck.operators.kai.logic.podcondition import condition_patch
from quarterdeck.operators.kai.metrics import KaiMetrics
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.operators.kai.types import (
    BindRequest,
    BindRequestSpec,
    PodGroup,
    ReceivedGPU,
    ResourceClaimAllocation,
    SchedulingCondition,
)
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.loop.clock import time_now
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.ownership import require_ours
from quarterdeck.runtime.reconcile.statuswrite import write_status
from quarterdeck.scheduler import decision as core
from quarterdeck.scheduler.decision import Decision
from quarterdeck.scheduler.deviceintake import allocation_document
from quarterdeck.scheduler.intake import pod_info

from .ownwrites import OwnWrites
from .schedulingevent import SchedulingEvents

R = TypeVar("R", bound=Resource)
RULES: Final = (
    Rule(groups=("",), resources=("pods",), verbs=("delete", "get", "list", "watch")),
    Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
    Rule(
        groups=(names.GROUP,), resources=("bindrequests",), verbs=("create", "delete", "get", "list", "watch")
    ),
    Rule(groups=(names.GROUP,), resources=("podgroups",), verbs=("get", "list", "patch", "watch")),
    Rule(groups=(names.GROUP,), resources=("podgroups/status",), verbs=("patch",)),
)
_log: Final = get_logger(__name__)
_SHARED: Final = {"schedulingConditions": ("type", "nodePool")}
"""Each scheduler has entries of its own in this list of a group."""


class Committer:
    """Writes decisions to the cluster."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        events: SchedulingEvents,
        *,
        settings: KaiSettings,
        metrics: KaiMetrics,
        clock: Clock,
    ) -> None:
        self._client: Final = client
        self._cache: Final = cache
        self._events: Final = events
        self._settings: Final = settings
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._at_once: Final = asyncio.Semaphore(settings.commit_workers)
        self.writes: Final = OwnWrites(cache)

    async def carry_out(self, decisions: Sequence[Decision]) -> None:
        """Carry out all decisions of a cycle."""
        first = [each for each in decisions if isinstance(each, core.DeleteBindRequest)]
        rest = [each for each in decisions if not isinstance(each, core.DeleteBindRequest)]
        for some in (first, rest):
            async with asyncio.TaskGroup() as group:
                for decision in some:
                    group.create_task(self._try(decision))

    async def _try(self, decision: Decision) -> None:
        try:
            await self._do(decision)
        except NotFound:
            return  # what it was about is gone
        except (ApiError, TransportError) as error:
            self._failed("decision not carried out", error, decision=repr(decision))

    def _failed(self, what: str, error: Exception, **fields: object) -> None:
        self._metrics.failed_writes.inc()
        _log.warning(what, error, **fields)

    @singledispatchmethod
    async def _do(self, decision: Any) -> None:
        raise TypeError(f"a {type(decision).__name__} cannot be carried out")

    @_do.register
    async def _(self, decision: core.DeleteBindRequest) -> None:
        request = self._cached(BindRequest, decision.bind_request)
        if not request.metadata.owner_references or is_left_of(request, request.spec.pod_name):
            await self._delete(request)

    @_do.register
    async def _(self, decision: core.Bind) -> None:
        pod = self._cached(Pod, decision.pod)
        try:
            self.writes.wrote(await self._create(pod, self._request(pod, decision)))
        except (ApiError, TransportError, ForeignObject) as error:
            self._failed("bind request not created", error, pod=str(pod.key), node=decision.node)
            await self._tell_failed(pod, decision, error)
            return
        created = pod.metadata.creation_timestamp
        self._metrics.bound(self._clock.time() - created.timestamp() if created else 0.0)
        self._events.tell(
            pod,
            "Normal",
            "Scheduled",
            f"Successfully assigned pod {pod.key} to node {decision.node} "
            f"at node-pool {self._settings.pool_name}",
        )

    @_do.register
    async def _(self, decision: core.Pipeline) -> None:
        pod = self._cached(Pod, decision.pod)
        note = f"Pod {pod.key} was pipelined to node {decision.node}"
        self._events.repeat(pod, "Normal", "Pipelined", note)

    @_do.register
    async def _(self, decision: core.Evict) -> None:
        pod = self._cached(Pod, decision.pod)
        if self._settings.update_pod_eviction_condition:
            await self._set_condition(
                pod,
                names.DISRUPTION_TARGET,
                is_true=True,
                reason=names.PREEMPTION_BY_SCHEDULER,
                message=decision.message,
            )
        await self._delete(pod)
        self._metrics.evicted(decision.action)
        annotations = {
            "num-evicted-pods": str(decision.evicted_pods),
            "evictor-action-type": decision.action.value,
        }
        if decision.preemptor is not None:
            annotations["evictor-pod-group-name"] = decision.preemptor.name
            annotations["evictor-pod-group-namespace"] = decision.preemptor.namespace
        group = self._cached(PodGroup, decision.pod_group)
        self._events.tell(group, "Normal", "Evict", decision.message, annotations=annotations)

    @_do.register
    async def _(self, decision: core.SetLastStart) -> None:
        await self._annotate(decision.pod_group, names.LAST_START_ANNOTATION, decision.time)

    @_do.register
    async def _(self, decision: core.SetLastEviction) -> None:
        await self._annotate(decision.pod_group, names.LAST_EVICTION_ANNOTATION, decision.time)

    @_do.register
    async def _(self, decision: core.MarkStale) -> None:
        await self._annotate(decision.pod_group, names.STALE_ANNOTATION, decision.time)

    @_do.register
    async def _(self, decision: core.ClearStale) -> None:
        await self._annotate(decision.pod_group, names.STALE_ANNOTATION, None)

    @_do.register
    async def _(self, decision: core.ClearUnschedulable) -> None:
        group = self._cached(PodGroup, decision.pod_group)
        await self._replace_scheduling_conditions(group, ())

    @_do.register
    async def _(self, decision: core.StaleJob) -> None:
        group = self._cached(PodGroup, decision.pod_group)
        self._events.repeat(group, "Normal", "StaleJob", decision.message)

    @_do.register
    async def _(self, decision: core.NotReady) -> None:
        group = self._cached(PodGroup, decision.pod_group)
        self._events.repeat(group, "Normal", "NotReady", decision.message)

    @_do.register
    async def _(self, decision: core.Unschedulable) -> None:
        group = self._cached(PodGroup, decision.pod_group)
        self._events.repeat(group, "Normal", names.UNSCHEDULABLE, decision.message)
        if decision.writes_condition:
            await self._write_scheduling_condition(group, decision)
        async with asyncio.TaskGroup() as tasks:
            for key, message in decision.pods:
                tasks.create_task(self._tell_waiting(key, message, marks=decision.marks_pods))

    async def _tell_waiting(self, key: Key, message: str, *, marks: bool) -> None:
        """Tell a pod that does not fit."""
        try:
            pod = self._cached(Pod, key)
            self._events.repeat(pod, "Warning", names.UNSCHEDULABLE, message)
            if marks:
                await self._set_condition(
                    pod, names.POD_SCHEDULED, is_true=False, reason=names.UNSCHEDULABLE, message=message
                )
        except NotFound:
            return
        except (ApiError, TransportError) as error:
            self._failed("pod not marked", error, pod=str(key))

    def _cached(self, kind: type[R], key: Key) -> R:
        informer = self._cache.informer(kind)
        entry = informer.get(key.namespace, key.name)
        if entry is None:
            raise NotFound.in_cache(kind.type_info.kind, key.name)
        found: R = informer.decoder(kind)(entry)
        return found

    def _request(self, pod: Pod, decision: core.Bind) -> BindRequest:
        # a node's name may be longer than a label
        labels = {} if check_label_value(decision.node) else {names.SELECTED_NODE_LABEL: decision.node}
        if self._settings.node_pool:
            labels[self._settings.node_pool_label] = self._settings.node_pool
        return BindRequest(
            metadata=ObjectMeta(
                namespace=pod.metadata.namespace,
                name=pod.metadata.name,
                labels=labels,
                owner_references=(owner_reference(pod),),
            ),
            spec=BindRequestSpec(
                pod_name=pod.metadata.name,
                selected_node=decision.node,
                received_resource_type=_received_type(decision),
                received_gpu=ReceivedGPU(count=decision.gpu_count, portion=f"{decision.gpu_portion:.2f}"),
                selected_gpu_groups=decision.gpu_groups,
                resource_claim_allocations=tuple(self._allocations(pod, decision)),
                backoff_limit=self._settings.bind_backoff_limit,
            ),
        )

    def _allocations(self, pod: Pod, decision: core.Bind) -> Iterator[ResourceClaimAllocation]:
        """What the claims of a pod get, as their status will have it."""
        if not decision.claims:
            return
        classes = {
            entry.name: decode_json(entry.raw) for entry in self._cache.informer(DeviceClass).entries()
        }
        claims = {each.reference: each.claim for each in pod_info(pod.to_dict()).claims}
        for reference, allocation in decision.claims:
            key = Key(decision.pod.namespace, claims.get(reference, ""))
            claim = self._cached(ResourceClaim, key).to_dict()
            document = (claim.get("status") or {}).get("allocation")
            if document is None:
                document = allocation_document(allocation, claim, classes)
            yield from_dict({"name": reference, "allocation": document}, ResourceClaimAllocation)

    async def _create(self, pod: Pod, request: BindRequest) -> BindRequest:
        """Create a bind request; one that is left of an earlier pod of the name makes way."""
        async with self._at_once:
            try:
                return await self._client.create(request)
            except AlreadyExists:
                left = await self._client.get(BindRequest, pod.metadata.name, pod.metadata.namespace)
                if is_about(left, pod):
                    if left.spec.selected_node == request.spec.selected_node:
                        return left
                    raise
                if not is_left_of(left, pod.metadata.name):
                    require_ours(request, left)
                await self._client.delete(left, uid=left.metadata.uid)
                return await self._client.create(request)

    async def _delete(self, obj: Pod | BindRequest) -> None:
        async with self._at_once:
            await self._client.delete(obj, uid=obj.metadata.uid)
        self.writes.deleted(obj)

    async def _tell_failed(self, pod: Pod, decision: core.Bind, error: Exception) -> None:
        message = f"Failed to bind pod {pod.key} to node {decision.node}. {error}"
        self._events.repeat(pod, "Warning", "FailedBinding", message)
        await self._set_condition(
            pod, names.POD_SCHEDULED, is_true=False, reason=names.BINDING_ERROR, message=message
        )

    async def _set_condition(self, pod: Pod, type: str, *, is_true: bool, reason: str, message: str) -> None:
        now = time_now(self._clock)
        patch = condition_patch(pod, type, is_true=is_true, reason=reason, message=message, now=now)
        if patch is not None:
            async with self._at_once:
                self.writes.wrote(await self._client.status.patch(pod, StrategicMergePatch(patch)))

    async def _annotate(self, key: Key, annotation: str, time: float | None) -> None:
        group = self._cached(PodGroup, key)
        value = str(Time.of_timestamp(time)) if time is not None else None
        if group.metadata.annotations.get(annotation) == value:
            return
        patch = MergePatch({"metadata": {"annotations": {annotation: value}}})
        async with self._at_once:
            self.writes.wrote(await self._client.patch(group, patch))

    async def _write_scheduling_condition(self, group: PodGroup, decision: core.Unschedulable) -> None:
        conditions = with_unschedulable(
            group.status.scheduling_conditions,
            node_pool=self._settings.pool_name,
            message=decision.message,
            reasons=explanations(decision.reasons),
            now=time_now(self._clock),
        )
        if conditions is not None:
            await self._replace_scheduling_conditions(group, conditions)

    async def _replace_scheduling_conditions(
        self, group: PodGroup, conditions: Sequence[SchedulingCondition]
    ) -> None:
        before = {"schedulingConditions": to_dict(group.status.scheduling_conditions)}
        after = {"schedulingConditions": to_dict(conditions)}
        async with self._at_once:
            answer = await write_status(self._client, group, before, after, shared=_SHARED)
        if answer is not None:
            self.writes.wrote(self._client.represent(PodGroup).read(answer))


def _received_type(decision: core.Bind) -> str:
    if decision.is_fraction:
        return names.FRACTION
    return names.MIG_INSTANCE if decision.is_mig else names.REGULAR
