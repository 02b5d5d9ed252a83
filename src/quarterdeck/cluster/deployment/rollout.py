"""The steps of a rollout: the newest ReplicaSet made, ReplicaSets resized, the status written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api import controller_of, value_or
from quarterdeck.api.k8s import Deployment, ReplicaSet
from quarterdeck.api.k8s.apps import DeploymentStatus
from quarterdeck.cluster.deployment import names
from quarterdeck.cluster.deployment.revision import (
    expired_sets,
    find_newest,
    has_template,
    max_revision,
    new_set,
    revision_annotations,
)
from quarterdeck.cluster.deployment.size import (
    active_sets,
    desired_replicas,
    healthy_removals,
    is_rolling,
    is_saturated,
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
    make_condition,
    next_progress_check,
    rollout_status,
    scale_status,
    with_condition,
)
from quarterdeck.cluster.podset.podwriter import is_terminating
from quarterdeck.errors import AlreadyExists, ApiError, ForeignObject, QuarterdeckError, ignore_not_found
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result


class _Unclaimed(QuarterdeckError):
    """A ReplicaSet of the wanted name is somebody else's; the next one gets another name."""


class Rollout:
    """One look at one Deployment, and the steps that can be taken."""

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
        except (AlreadyExists, ForeignObject) as error:
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

    async def _existing(self, wanted: ReplicaSet, error: AlreadyExists | ForeignObject) -> ReplicaSet:
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
