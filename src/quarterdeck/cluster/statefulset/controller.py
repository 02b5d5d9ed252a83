"""The StatefulSet controller.

With ordered management one pod at a time is made, in the order of the numbers, when all before it are
available; and removed in the other order. With parallel management all at once. Pods of an old revision are
deleted from the highest number down, each when the one before it is available again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import UNSET, Key, Selector, Time, value_or
from quarterdeck.api.k8s import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from quarterdeck.api.k8s.apps import StatefulSetStatus
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podset.claim import claim, uncontrolled
from quarterdeck.cluster.podset.podwriter import MAX_CHANGES
from quarterdeck.cluster.podset.revision import (
    REVISION_LABEL,
    Revised,
    list_revisions,
    sync_revision,
    template_of,
    truncate_history,
)
from quarterdeck.cluster.podset.source import ClaimantsOf
from quarterdeck.cluster.statefulset.identity import (
    has_identity,
    has_storage,
    new_pod,
    ordinal_of,
    parent_and_ordinal,
    start_of,
)
from quarterdeck.cluster.statefulset.podcontrol import PodControl
from quarterdeck.errors import Conflict, NotFound, QuarterdeckError
from quarterdeck.runtime.cache import controller_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.attempt import attempt_all
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "statefulset-controller"
_WORKERS: Final = 5
_CACHE_PATIENCE: Final = 60.0
_STALE_CLAIM_WAIT: Final = 1.0
"""Seconds until a claim that is about to go is looked at again."""
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode

Act = Callable[[Pod], Awaitable[bool]]
"""Does something about a pod; returns whether ordered management has to stop there."""


def _selector_of(stateful_set: StatefulSet) -> Selector | None:
    return Selector.of(stateful_set.spec.selector) if stateful_set.spec.selector else None


class _Availability:
    """Pods at one moment."""

    def __init__(self, min_ready_seconds: int, now: float) -> None:
        self._min_ready: Final = min_ready_seconds
        self._now: Final = now

    def ready_since(self, pod: Pod) -> float | None:
        """When a pod became ready; ``None`` if it is not."""
        for each in pod.status.conditions:
            if each.type == "Ready":
                if each.status != "True":
                    return None
                since = each.last_transition_time
                return since.timestamp() if isinstance(since, Time) else 0.0
        return None

    def is_ready(self, pod: Pod) -> bool:
        """Whether a pod runs and is ready."""
        return pod.status.phase == "Running" and self.ready_since(pod) is not None

    def is_available(self, pod: Pod) -> bool:
        """Whether a pod has been ready for long enough."""
        since = self.ready_since(pod)
        if since is None:
            return False
        return not self._min_ready or 0 < since <= self._now - self._min_ready

    def is_lacking(self, pod: Pod) -> bool:
        """Whether a pod is not available, or not for long."""
        return pod.metadata.is_deleting or not self.is_available(pod)

    def wait(self, pods: Iterable[Pod]) -> float | None:
        """Seconds until the next ready pod is available."""
        if not self._min_ready:
            return None
        starts = [self.ready_since(pod) for pod in pods]
        waits = [start + self._min_ready - self._now for start in starts if start]
        return min((wait for wait in waits if wait > 0), default=None)


class _Update:
    """One look at one StatefulSet."""

    def __init__(
        self,
        ctx: Context[StatefulSet],
        pods: Sequence[Pod],
        current: ControllerRevision,
        update: Revised,
        now: float,
    ) -> None:
        spec = ctx.obj.spec
        replicas = value_or(spec.replicas, 1)
        self._ctx: Final = ctx
        self._current: Final = current
        self._revised: Final = update
        self._update: Final = update.revision
        self._is_ordered: Final = spec.pod_management_policy != "Parallel"
        self.availability: Final = _Availability(value_or(spec.min_ready_seconds, 0), now)
        wanted = range(start_of(ctx.obj), start_of(ctx.obj) + replicas)
        by_ordinal = {ordinal_of(pod): pod for pod in pods}
        self._pods: Final = PodControl(ctx, wanted)
        self.replicas: Final = [by_ordinal.get(ordinal) or self._new(ordinal) for ordinal in wanted]
        surplus = [ordinal for ordinal in by_ordinal if ordinal >= 0 and ordinal not in wanted]
        self.condemned: Final = [by_ordinal[ordinal] for ordinal in sorted(surplus, reverse=True)]
        self.has_stale_claim = False

    def _new(self, ordinal: int) -> Pod:
        """A pod that is missing: of the old revision where the update has not come yet."""
        stateful_set = self._ctx.obj
        strategy = stateful_set.spec.update_strategy
        if strategy.rolling_update:
            old = value_or(strategy.rolling_update.partition, 0)
        elif strategy.type == "RollingUpdate":
            old = value_or(stateful_set.status.current_replicas, 0)
        else:
            old = 0
        revision = self._current if ordinal < start_of(stateful_set) + old else self._update
        return new_pod(stateful_set, template_of(revision), revision.metadata.name, ordinal)

    async def run(self) -> StatefulSetStatus:
        """Do what can be done now; raises after the status is known: see ``status``."""
        if self._ctx.obj.metadata.is_deleting:
            return self.status()
        if await self._for_all(self.replicas, self._keep):
            return self.status()
        if await self._for_all(self.condemned, self._release_claims):
            return self.status()
        if await self._for_all(self.condemned, self._condemn):
            return self.status()
        status = self.status()
        if self._ctx.obj.spec.update_strategy.type == "OnDelete":
            return status
        return await self._replace_old(status)

    async def _for_all(self, pods: Sequence[Pod], act: Act) -> bool:
        """Act on pods in order, or on ever more at once; returns whether this is all that can be done now."""
        if self._is_ordered:
            for pod in pods:
                if await act(pod):
                    return True
            return False
        left, size = list(pods), 1
        while left:
            batch, left = left[:size], left[size:]
            errors = await attempt_all(batch, act)
            first = next((error for error in errors if error is not None), None)
            if first is not None:
                raise first
            size = min(2 * size, MAX_CHANGES)
        return False

    async def _keep(self, pod: Pod) -> bool:
        """See to it that a pod is there and is what it should be."""
        phase = pod.status.phase
        if phase in ("Failed", "Succeeded"):
            if not pod.metadata.is_deleting:
                await self._pods.delete(pod)
            return True
        if not phase:
            if await self._pods.is_stale(pod):
                self.has_stale_claim = True
                return True
            await self._pods.create(pod)
            return self._is_ordered
        if phase == "Pending":
            await self._pods.create_missing_claims(pod)
        is_settled = self.availability.is_ready(pod) and not self.availability.is_lacking(pod)
        if self._is_ordered and not is_settled:
            return True
        stateful_set = self._ctx.obj
        is_right = has_identity(stateful_set, pod) and has_storage(stateful_set, pod)
        if not is_right or not await self._pods.has_right_owners(pod):
            await self._pods.repair(pod)
        return False

    async def _release_claims(self, pod: Pod) -> bool:
        await self._pods.own_claims(pod)
        return False

    async def _condemn(self, pod: Pod) -> bool:
        """Delete a pod that is not needed any more, if it is its turn."""
        if pod.metadata.is_deleting:
            return self._is_ordered
        is_settled = self.availability.is_ready(pod) and self.availability.is_available(pod)
        if self._is_ordered and not is_settled and pod is not self._first_lacking:
            return True
        await self._pods.delete(pod)
        return True

    @property
    def _first_lacking(self) -> Pod | None:
        """The first pod that is not available, by number."""
        in_order = (*self.replicas, *reversed(self.condemned))
        return next((pod for pod in in_order if self.availability.is_lacking(pod)), None)

    async def _replace_old(self, status: StatefulSetStatus) -> StatefulSetStatus:
        """Delete the next pod of an old revision; it comes back as a new one."""
        how = self._ctx.obj.spec.update_strategy.rolling_update
        first = value_or(how.partition, 0) if how else 0
        for pod in reversed(self.replicas[first:]):
            is_old = pod.metadata.labels.get(REVISION_LABEL) != self._update.metadata.name
            if is_old and not pod.metadata.is_deleting:
                await self._pods.delete(pod)
                return status.evolve(current_replicas=value_or(status.current_replicas, 0) - 1 or UNSET)
            if self.availability.is_lacking(pod):
                break
        return status

    def status(self) -> StatefulSetStatus:
        """The pods in numbers."""
        pods = [pod for pod in (*self.replicas, *self.condemned) if pod.status.phase]
        staying = [pod.metadata.labels.get(REVISION_LABEL) for pod in pods if not pod.metadata.is_deleting]
        ready = [pod for pod in pods if self.availability.is_ready(pod)]
        return StatefulSetStatus(
            observed_generation=self._ctx.obj.metadata.generation or UNSET,
            replicas=len(pods),
            ready_replicas=len(ready) or UNSET,
            available_replicas=sum(1 for pod in ready if self.availability.is_available(pod)),
            current_replicas=staying.count(self._current.metadata.name) or UNSET,
            updated_replicas=staying.count(self._update.metadata.name) or UNSET,
            current_revision=self._current.metadata.name,
            update_revision=self._update.metadata.name,
            collision_count=self._revised.collisions,
        )


class StatefulSetReconciler(Reconciler[StatefulSet]):
    """Takes one StatefulSet after the other one step further."""

    def __init__(self) -> None:
        self._clock: Final = LoopClock()

    async def reconcile(self, ctx: Context[StatefulSet]) -> Result | None:
        """Take the next step."""
        selector = _selector_of(ctx.obj)
        if selector is None:
            return None
        revisions = await list_revisions(ctx, selector)
        name = ctx.key.name
        entries = await claim(ctx, Pod, selector, fits=lambda each: parent_and_ordinal(each.name)[0] == name)
        decode = ctx.cache.informer(Pod).decoder(Pod)
        pods = [decode(entry) for entry in entries]
        revised = await _revised(ctx, revisions)
        known = (each for each in revisions if each.metadata.name == ctx.obj.status.current_revision)
        current = next(known, revised.revision)
        update = _Update(ctx, pods, current, revised, self._clock.time())
        failure: QuarterdeckError | None = None
        try:
            status = await update.run()
        except QuarterdeckError as error:
            failure, status = error, update.status()
        live = {current.metadata.name, revised.revision.metadata.name}
        live |= {pod.metadata.labels.get(REVISION_LABEL, "") for pod in pods}
        try:
            await _store(ctx, _completed(ctx.obj, status))
            await truncate_history(ctx, revisions, live, value_or(ctx.obj.spec.revision_history_limit, 10))
        except NotFound:
            ctx.note_gone()
            return None
        if failure is not None:
            raise failure
        if update.has_stale_claim:
            return Requeue(after=_STALE_CLAIM_WAIT)
        wait = update.availability.wait(pods)
        return Requeue(after=wait) if wait is not None else None


async def _revised(ctx: Context[StatefulSet], revisions: Sequence[ControllerRevision]) -> Revised:
    """The revision for the template, which is taken as the server writes it: its hash depends on that."""
    stateful_set = ctx.obj
    entry = ctx.cache.informer(StatefulSet).get(ctx.key.namespace, ctx.key.name)
    assert entry is not None
    template = _decode(entry.raw)["spec"]["template"]
    collisions = value_or(stateful_set.status.collision_count, 0)
    return await sync_revision(
        ctx, template, revisions, collisions, stateful_set.spec.template.metadata.labels
    )


def _completed(stateful_set: StatefulSet, status: StatefulSetStatus) -> StatefulSetStatus:
    """After a rolling update the new revision is the current one."""
    wanted = value_or(stateful_set.spec.replicas, 1)
    counts = (status.updated_replicas, status.ready_replicas, status.replicas)
    is_rolling = stateful_set.spec.update_strategy.type == "RollingUpdate"
    if is_rolling and all(value_or(each, 0) == wanted for each in counts):
        return status.evolve(
            current_replicas=status.updated_replicas, current_revision=status.update_revision
        )
    return status


async def _store(ctx: Context[StatefulSet], status: StatefulSetStatus) -> None:
    known = ctx.obj.status
    if status == known.evolve(conditions=(), collision_count=status.collision_count):
        return
    try:
        ctx.replace(await ctx.client.status.update(ctx.obj.evolve(status=status)))
    except Conflict:
        live = await ctx.get(StatefulSet, ctx.key.name, ctx.key.namespace, live=True)
        if live.metadata.uid == ctx.obj.metadata.uid:
            ctx.replace(await ctx.client.status.update(live.evolve(status=status)))


def _nobody(_: Any, __: Any) -> Iterable[Key]:
    return ()


_NEVER: Final = Predicate("never", create=lambda _: False, update=lambda _: False, delete=lambda _: False)


def statefulset_controller() -> Controller[StatefulSet]:
    """The controller, for ``manager.add``."""
    return (
        Builder(StatefulSet, name=NAME)
        .watches(Pod, to=ClaimantsOf(StatefulSet, _selector_of))
        .watches(PersistentVolumeClaim, to=_nobody, predicates=[_NEVER])
        .watches(ControllerRevision, to=_nobody, predicates=[_NEVER])
        .indexes(Pod, controller_uid, uncontrolled)
        .indexes(ControllerRevision, controller_uid, uncontrolled)
        .rbac(
            Rule(
                groups=("",),
                resources=("pods", "persistentvolumeclaims"),
                verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
            ),
            Rule(
                groups=("apps",),
                resources=("controllerrevisions",),
                verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
            ),
            Rule(
                groups=("apps",),
                resources=("statefulsets/status", "statefulsets/finalizers"),
                verbs=("update",),
            ),
        )
        .options(
            max_concurrent_reconciles=_WORKERS,
            backoff_cap=1000.0,
            consistency_timeout=_CACHE_PATIENCE,
            field_manager=FIELD_MANAGER,
        )
        .build(StatefulSetReconciler())
    )
