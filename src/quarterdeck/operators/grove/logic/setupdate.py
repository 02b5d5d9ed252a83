"""The update of a set: its replicas one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from quarterdeck.api import Maybe, Time, UnsetType
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSetStatus,
    ReplicaUpdate,
    SetUpdate,
)

from .cliqueupdate import is_updating as is_clique_updating
from .groupupdate import is_updating as is_group_updating
from .label import set_index_of
from .membership import min_available_of


def is_updating(progress: Maybe[SetUpdate]) -> bool:
    """Whether an update is under way."""
    return not isinstance(progress, UnsetType) and isinstance(progress.update_ended_at, UnsetType)


def is_turn_of(progress: Maybe[SetUpdate], labels: Mapping[str, str]) -> bool:
    """Whether the replica that an object is part of, by its labels, is being updated."""
    if isinstance(progress, UnsetType):
        return False
    index = set_index_of(labels)
    return any(each.replica_index == index for each in progress.currently_updating)


def changed_hash(status: PodCliqueSetStatus, hash: str, *, now: Time) -> PodCliqueSetStatus:
    """The status of a set whose templates have a hash; a new one begins an update."""
    if status.current_generation_hash == hash:
        return status
    if not status.current_generation_hash:
        return status.evolve(current_generation_hash=hash)
    progress = SetUpdate(update_started_at=now)
    return status.evolve(current_generation_hash=hash, update_progress=progress, updated_replicas=0)


def is_clique_updated(pclq: PodClique, *, template_hash: str, generation_hash: str) -> bool:
    """Whether a standalone PodClique is what the set says, and works."""
    status, replicas = pclq.status, pclq.spec.replicas
    # one may be scaled below its minimum: all it has must do then
    least = min(min_available_of(replicas, pclq.spec.min_available), replicas)
    return (
        pclq.metadata.labels.get(names.TEMPLATE_HASH) == template_hash
        and status.current_pod_template_hash == template_hash
        and status.current_pod_clique_set_generation_hash == generation_hash
        and not is_clique_updating(status.update_progress)
        and status.updated_replicas >= least
        and status.ready_replicas >= least
    )


def is_group_updated(pcsg: PodCliqueScalingGroup, generation_hash: str) -> bool:
    """Whether a group is what the set says."""
    status = pcsg.status
    return status.current_pod_clique_set_generation_hash == generation_hash and not is_group_updating(
        status.update_progress
    )


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """A replica of a set, as far as its update is concerned."""

    index: int
    is_done: bool
    scheduled_pods: int = 0
    is_breached: bool = False
    """A minimum is missed."""
    is_doomed: bool = False
    """It is about to be terminated, which replaces it anyway."""


def next_progress(progress: SetUpdate, replicas: Sequence[ReplicaState], now: Time) -> SetUpdate:
    """Which replica is updated now; the same if that does not change."""
    by_index = {replica.index: replica for replica in replicas}
    for current in progress.currently_updating:
        present = by_index.get(current.replica_index)
        if present is not None and not present.is_done:
            return progress
    left = [replica for replica in replicas if not replica.is_done]
    if not left:
        return progress.evolve(update_ended_at=now, currently_updating=())
    ready = [replica for replica in left if not replica.is_doomed]
    if not ready:
        return progress.evolve(currently_updating=())
    chosen = min(ready, key=lambda each: (each.scheduled_pods > 0, not each.is_breached, each.index))
    entry = ReplicaUpdate(replica_index=chosen.index, update_started_at=now)
    return progress.evolve(currently_updating=(entry,))
