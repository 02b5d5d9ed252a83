"""The Deployment controller.

One reconcile takes at most one step of a rollout: make the newest ReplicaSet larger, or old ones smaller, and
write the status. The change that follows from it causes the next step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from quarterdeck.api import Key, LabelSelector, Selector, controller_of, value_or
from quarterdeck.api.k8s import Deployment, Pod, ReplicaSet
from quarterdeck.api.k8s.apps import DeploymentStatus
from quarterdeck.cluster.deployment import names
from quarterdeck.cluster.deployment.revision import (
    expired_sets,
    find_newest,
    has_template,
    last_revision,
    max_revision,
    new_set,
    revision_annotations,
    revision_of,
    rollback_target,
    rolled_back,
)
from quarterdeck.cluster.deployment.size import (
    active_sets,
    desired_replicas,
    healthy_removals,
    is_rolling,
    is_saturated,
    is_scaled_elsewhere,
    max_unavailable,
    new_set_size,
    only_or_latest,
    proportional_sizes,
    replicas_of,
    size_annotations,
    unhealthy_removals,
)
from quarterdeck.cluster.deployment.status import (
    find_condition,
    has_deadline,
    is_complete,
    make_condition,
    next_progress_check,
    rollout_status,
    scale_status,
    with_condition,
)
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podset.claim import claim, controlled, uncontrolled
from quarterdeck.cluster.podset.podview import PodView
from quarterdeck.cluster.podset.podwriter import is_terminating
from quarterdeck.cluster.podset.source import ClaimantsOf
from quarterdeck.errors import AlreadyExists, ApiError, NotFound, QuarterdeckError, ignore_not_found
from quarterdeck.runtime.cache import controller_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.result import Requeue, Result
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.operator.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context

__all__ = ["NAME", "deployment_controller"]

NAME: Final = "deployment-controller"
_WORKERS: Final = 5
_CACHE_PATIENCE: Final = 60.0


def _selector_of(deployment: Deployment) -> Selector | None:
    """Which ReplicaSets a Deployment may have; none with a selector that selects everything."""
    selector = deployment.spec.selector
    if not selector or selector == LabelSelector():
        return None
    return Selector.of(selector)


class _Unclaimed(QuarterdeckError):
    """A ReplicaSet of the wanted name is somebody else's; the next one gets another name."""


class _Rollout:
    """One look at one Deployment."""

    def __init__(self, ctx: Context[Deployment], sets: Sequence[ReplicaSet], now: float) -> None:
        self._ctx: Final = ctx
        self._now: Final = now
        self.newest = find_newest(ctx.obj, sets)
        self.old: Final = [
            each for each in sets if self.newest is None or each.metadata.uid != self.newest.metadata.uid
        ]

    @property
    def sets(self) -> list[ReplicaSet]:
        """All ReplicaSets."""
        return [*self.old, self.newest] if self.newest is not None else list(self.old)

    # -- the newest ReplicaSet -------------------------------------------------------------------------

    async def sync_newest(self, *, creates: bool) -> None:
        """Bring annotations of the newest ReplicaSet up to date, or make it."""
        ctx = self._ctx
        revision = max_revision(self.old) + 1
        if self.newest is None:
            if creates:
                self.newest = await self._create(revision)
            return
        newest, deployment = self.newest, ctx.obj
        annotations = revision_annotations(deployment, newest.metadata.annotations, revision)
        min_ready = value_or(deployment.spec.min_ready_seconds, 0)
        has_changed = annotations != dict(newest.metadata.annotations)
        if has_changed or value_or(newest.spec.min_ready_seconds, 0) != min_ready:
            self.newest = await ctx.update(
                newest.evolve(
                    metadata=newest.metadata.evolve(annotations=annotations),
                    spec=newest.spec.evolve(min_ready_seconds=deployment.spec.min_ready_seconds),
                )
            )
            return
        found = None
        if find_condition(deployment.status.conditions, names.PROGRESSING) is None:
            found = f'Found new replica set "{newest.metadata.name}"'
        await self._note(newest.metadata.annotations.get(names.REVISION, ""), names.SET_FOUND, found)

    async def _note(self, revision: str, reason: str, text: str | None) -> None:
        """Say which revision the Deployment is of, and how it came to its ReplicaSet if that is news."""
        deployment = self._ctx.obj
        annotations, status = deployment.metadata.annotations, deployment.status
        if text is not None and has_deadline(deployment):
            condition = make_condition(names.PROGRESSING, "True", reason, text, self._now)
            status = status.evolve(conditions=with_condition(status.conditions, condition))
        if annotations.get(names.REVISION, "") == revision and status == deployment.status:
            return
        metadata = deployment.metadata.evolve(annotations={**annotations, names.REVISION: revision})
        await self._write(deployment.evolve(metadata=metadata, status=status))

    async def _create(self, revision: int) -> ReplicaSet:
        ctx = self._ctx
        wanted = new_set(ctx.obj, self.old, revision)
        try:
            created = await ctx.create(wanted)
        except AlreadyExists as error:
            created = await self._existing(wanted, error)
            await self._note(str(revision), names.SET_CREATED, None)
            return created
        except ApiError as error:
            if not is_terminating(error):
                await self._note_failure(wanted, error)
            raise
        if replicas_of(wanted):
            text = f"Scaled up replica set {created.metadata.name} from 0 to {replicas_of(wanted)}"
            ctx.event("Normal", "ScalingReplicaSet", text)
        text = f'Created new replica set "{created.metadata.name}"'
        await self._note(str(revision), names.SET_CREATED, text)
        return created

    async def _existing(self, wanted: ReplicaSet, error: AlreadyExists) -> ReplicaSet:
        """A ReplicaSet of the same name: ours from an earlier run, or a collision of hashes."""
        ctx = self._ctx
        found = await ctx.get(ReplicaSet, wanted.metadata.name, wanted.metadata.namespace)
        owner = controller_of(found.metadata.owner_references)
        is_mine = owner is not None and owner.uid == ctx.obj.metadata.uid
        if is_mine and has_template(found, ctx.obj.spec.template):
            return found
        status = ctx.obj.status
        collisions = value_or(status.collision_count, 0) + 1
        await self._write(ctx.obj.evolve(status=status.evolve(collision_count=collisions)))
        raise _Unclaimed(f"{error}; the hash collides, trying another one") from error

    async def _note_failure(self, wanted: ReplicaSet, error: ApiError) -> None:
        deployment = self._ctx.obj
        text = f'Failed to create new replica set "{wanted.metadata.name}": {error}'
        if has_deadline(deployment):
            failed = make_condition(names.PROGRESSING, "False", names.SET_CREATE_ERROR, text, self._now)
            conditions = with_condition(deployment.status.conditions, failed)
            await self._write(deployment.evolve(status=deployment.status.evolve(conditions=conditions)))
        self._ctx.event("Warning", names.SET_CREATE_ERROR, text)

    # -- sizes -----------------------------------------------------------------------------------------

    async def resize(self, replica_set: ReplicaSet, size: int, *, refreshes: bool = False) -> bool:
        """Change the size of a ReplicaSet; with ``refreshes`` what it knows of its Deployment as well."""
        ctx, before = self._ctx, replicas_of(replica_set)
        if before == size and not refreshes:
            return False
        annotations = {**replica_set.metadata.annotations, **size_annotations(ctx.obj)}
        if before == size and annotations == dict(replica_set.metadata.annotations):
            return False
        await ctx.update(
            replica_set.evolve(
                metadata=replica_set.metadata.evolve(annotations=annotations),
                spec=replica_set.spec.evolve(replicas=size),
            )
        )
        if before == size:
            return False
        way = "up" if before < size else "down"
        text = f"Scaled {way} replica set {replica_set.metadata.name} from {before} to {size}"
        ctx.event("Normal", "ScalingReplicaSet", text)
        return True

    async def scale(self) -> None:
        """Make ReplicaSets larger or smaller with their Deployment, without any rollout."""
        deployment = self._ctx.obj
        only = only_or_latest(self.newest, self.old)
        if only is not None:
            await self.resize(only, desired_replicas(deployment))
        elif is_saturated(deployment, self.newest):
            for each in active_sets(self.old):
                await self.resize(each, 0)
        elif is_rolling(deployment):
            for each, size in proportional_sizes(deployment, self.sets):
                await self.resize(each, size, refreshes=True)

    async def grow_newest(self) -> bool:
        """Give the newest ReplicaSet as many pods as it may have now."""
        newest, desired = self.newest, desired_replicas(self._ctx.obj)
        if newest is None or replicas_of(newest) == desired:
            return False
        if replicas_of(newest) > desired:
            return await self.resize(newest, desired)
        return await self.resize(newest, new_set_size(self._ctx.obj, self.sets, replicas_of(newest)))

    async def shrink_old(self) -> bool:
        """Take from old ReplicaSets what can be missed now: first what is not available anyway."""
        deployment, newest = self._ctx.obj, self.newest
        old = active_sets(self.old)
        if not old or newest is None:
            return False
        available = value_or(newest.status.available_replicas, 0)
        least = desired_replicas(deployment) - max_unavailable(deployment)
        spare = sum(map(replicas_of, self.sets)) - least - (replicas_of(newest) - available)
        if spare <= 0:
            return False
        has_changed = False
        smaller = dict.fromkeys((each.metadata.uid for each in old), -1)
        for each, size in unhealthy_removals(deployment, old, spare):
            has_changed |= await self.resize(each, size)
            smaller[each.metadata.uid] = size
        left = [_sized(each, smaller[each.metadata.uid]) for each in old]
        available += sum(value_or(each.status.available_replicas, 0) for each in left)
        for each, size in healthy_removals(deployment, left, available):
            fresh = await self._fresh(each) if smaller[each.metadata.uid] >= 0 else each
            has_changed |= await self.resize(fresh, size)
        return has_changed

    async def _fresh(self, replica_set: ReplicaSet) -> ReplicaSet:
        """A ReplicaSet as this run has written it."""
        return await self._ctx.get(ReplicaSet, replica_set.metadata.name, replica_set.metadata.namespace)

    async def clean_up(self) -> None:
        """Delete old ReplicaSets beyond the history limit."""
        for each in expired_sets(self._ctx.obj, self.old):
            with ignore_not_found():
                await self._ctx.delete(each)

    # -- the status ------------------------------------------------------------------------------------

    async def report_scale(self) -> Result | None:
        """Write the numbers."""
        await self._store(scale_status(self._ctx.obj, self.sets, self.newest, self._now))
        return None

    async def report_rollout(self) -> Result | None:
        """Write the numbers and how far the rollout is; comes back when it may have timed out."""
        deployment = self._ctx.obj
        status = rollout_status(deployment, self.sets, self.newest, self._now)
        if await self._store(status):
            return None
        wait = next_progress_check(deployment, status, self._now)
        return Requeue(after=wait) if wait is not None else None

    async def _store(self, status: DeploymentStatus) -> bool:
        if status == self._ctx.obj.status:
            return False
        await self._write(self._ctx.obj.evolve(status=status))
        return True

    async def _write(self, deployment: Deployment) -> None:
        self._ctx.replace(await self._ctx.client.status.update(deployment))


def _sized(replica_set: ReplicaSet, size: int) -> ReplicaSet:
    return replica_set if size < 0 else replica_set.evolve(spec=replica_set.spec.evolve(replicas=size))


class DeploymentReconciler(Reconciler[Deployment]):
    """Takes one Deployment after the other one step further."""

    def __init__(self) -> None:
        self._clock: Final = LoopClock()

    async def reconcile(self, ctx: Context[Deployment]) -> Result | None:
        """Take the next step."""
        selector = _selector_of(ctx.obj)
        if selector is None:
            await _refuse(ctx)
            return None
        try:
            return await self._step(ctx, selector)
        except NotFound:
            live = await _is_there(ctx)
            if live:
                raise
            ctx.note_gone()
            return None
        except ApiError as error:
            if is_terminating(error):
                return None
            raise

    async def _step(self, ctx: Context[Deployment], selector: Selector) -> Result | None:
        entries = await claim(ctx, ReplicaSet, selector)
        decode = ctx.cache.informer(ReplicaSet).decoder(ReplicaSet)
        sets = [decode(entry) for entry in entries]
        now = self._clock.time()
        if ctx.obj.metadata.is_deleting:
            rollout = _Rollout(ctx, sets, now)
            await rollout.sync_newest(creates=False)
            return await rollout.report_scale()
        await _note_pause(ctx, now)
        rollout = _Rollout(ctx, sets, now)
        if ctx.obj.spec.paused is True:
            return await _scale(ctx, rollout)
        if rollback_target(ctx.obj) is not None:
            await _roll_back(ctx, rollout)
            return None
        await rollout.sync_newest(creates=False)
        if is_scaled_elsewhere(ctx.obj, rollout.sets):
            return await _scale(ctx, rollout)
        if is_rolling(ctx.obj):
            return await _roll(ctx, rollout)
        return await _recreate(ctx, rollout)


async def _is_there(ctx: Context[Deployment]) -> bool:
    with ignore_not_found():
        live = await ctx.get(Deployment, ctx.key.name, ctx.key.namespace, live=True)
        return live.metadata.uid == ctx.obj.metadata.uid
    return False


async def _refuse(ctx: Context[Deployment]) -> None:
    """A selector that selects everything is a mistake."""
    deployment = ctx.obj
    text = "This deployment is selecting all pods. A non-empty selector is required."
    ctx.event("Warning", "SelectingAll", text)
    if value_or(deployment.status.observed_generation, 0) < (deployment.metadata.generation or 0):
        status = deployment.status.evolve(observed_generation=deployment.metadata.generation)
        await ctx.client.status.update(deployment.evolve(status=status))


async def _note_pause(ctx: Context[Deployment], now: float) -> None:
    """A pause does not count as lack of progress, so it begins and ends with a condition of its own."""
    deployment = ctx.obj
    known = find_condition(deployment.status.conditions, names.PROGRESSING)
    if not has_deadline(deployment) or (known is not None and known.reason == names.TIMED_OUT):
        return
    was_paused = known is not None and known.reason == names.PAUSED
    is_paused = deployment.spec.paused is True
    if was_paused == is_paused:
        return
    reason, word = (names.PAUSED, "paused") if is_paused else (names.RESUMED, "resumed")
    condition = make_condition(names.PROGRESSING, "Unknown", reason, f"Deployment is {word}", now)
    conditions = with_condition(deployment.status.conditions, condition)
    status = deployment.status.evolve(conditions=conditions)
    ctx.replace(await ctx.client.status.update(deployment.evolve(status=status)))


async def _scale(ctx: Context[Deployment], rollout: _Rollout) -> Result | None:
    await rollout.sync_newest(creates=False)
    await rollout.scale()
    if ctx.obj.spec.paused is True and rollback_target(ctx.obj) is None:
        await rollout.clean_up()
    return await rollout.report_scale()


async def _roll(ctx: Context[Deployment], rollout: _Rollout) -> Result | None:
    await rollout.sync_newest(creates=True)
    is_moving = await rollout.grow_newest() or await rollout.shrink_old()
    if not is_moving and is_complete(ctx.obj, ctx.obj.status):
        await rollout.clean_up()
    return await rollout.report_rollout()


async def _recreate(ctx: Context[Deployment], rollout: _Rollout) -> Result | None:
    """No new pod before all old ones have ended."""
    has_changed = False
    for each in active_sets(rollout.old):
        has_changed |= await rollout.resize(each, 0)
    if has_changed or _has_old_pods(ctx, rollout.old):
        return await rollout.report_rollout()
    await rollout.sync_newest(creates=True)
    assert rollout.newest is not None
    await rollout.resize(rollout.newest, desired_replicas(ctx.obj))
    if is_complete(ctx.obj, ctx.obj.status):
        await rollout.clean_up()
    return await rollout.report_rollout()


def _has_old_pods(ctx: Context[Deployment], old: Sequence[ReplicaSet]) -> bool:
    if any(value_or(each.status.replicas, 0) for each in old):
        return True
    pods = (PodView(entry) for each in old for entry in controlled(ctx.cache, Pod, each))
    return any(pod.phase not in ("Failed", "Succeeded") for pod in pods)


async def _roll_back(ctx: Context[Deployment], rollout: _Rollout) -> None:
    """Go back as the annotation of the old API asks; ``kubectl rollout undo`` patches the template itself."""
    await rollout.sync_newest(creates=True)
    wanted = rollback_target(ctx.obj) or last_revision(rollout.sets)
    target = next((each for each in rollout.sets if revision_of(each) == wanted), None) if wanted else None
    deployment, event = ctx.obj, ("Warning", "DeploymentRollbackRevisionNotFound", "")
    if not wanted:
        event = (*event[:2], "Unable to find last revision.")
    elif target is None:
        event = (*event[:2], "Unable to find the revision to rollback to.")
    elif has_template(target, deployment.spec.template):
        name = deployment.metadata.name
        text = f'The rollback revision contains the same template as current deployment "{name}"'
        event = ("Warning", "DeploymentRollbackTemplateUnchanged", text)
    else:
        text = f'Rolled back deployment "{deployment.metadata.name}" to revision {wanted}'
        event = ("Normal", "DeploymentRollback", text)
        deployment = rolled_back(deployment, target)
    kept = {k: v for k, v in deployment.metadata.annotations.items() if k != names.ROLLBACK_TO}
    await ctx.update(deployment.evolve(metadata=deployment.metadata.evolve(annotations=kept)))
    ctx.event("Normal" if event[0] == "Normal" else "Warning", event[1], event[2])


def _recreated_by(ctx: MapContext, pod: Pod) -> Iterable[Key]:
    """The Deployment that waits for the end of its last old pod."""
    owner = controller_of(pod.metadata.owner_references)
    if owner is None or owner.kind != "ReplicaSet":
        return ()
    namespace = pod.metadata.namespace
    sets = ctx.cache.informer(ReplicaSet)
    entry = sets.get(namespace, owner.name)
    above = controller_of(entry.owner_references) if entry is not None and entry.uid == owner.uid else None
    if above is None or above.kind != "Deployment":
        return ()
    deployments = ctx.cache.informer(Deployment)
    found = deployments.get(namespace, above.name)
    if found is None or found.uid != above.uid:
        return ()
    deployment = deployments.decoder(Deployment)(found)
    return (deployment.key,) if deployment.spec.strategy.type == "Recreate" else ()


_GONE: Final = Predicate("gone", create=lambda _: False, update=lambda _: False)


def deployment_controller() -> Controller[Deployment]:
    """The controller, for ``manager.add``."""
    return (
        Builder(Deployment, name=NAME)
        .watches(ReplicaSet, to=ClaimantsOf(Deployment, _selector_of))
        .watches(Pod, to=_recreated_by, predicates=[_GONE])
        .indexes(ReplicaSet, controller_uid, uncontrolled)
        .indexes(Pod, controller_uid)
        .rbac(
            Rule(
                groups=("apps",),
                resources=("replicasets",),
                verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
            ),
            Rule(groups=("apps",), resources=("deployments",), verbs=("update",)),
            Rule(
                groups=("apps",),
                resources=("deployments/status", "deployments/finalizers"),
                verbs=("update",),
            ),
        )
        .options(
            max_concurrent_reconciles=_WORKERS,
            backoff_cap=1000.0,
            consistency_timeout=_CACHE_PATIENCE,
            field_manager=FIELD_MANAGER,
        )
        .build(DeploymentReconciler())
    )
