"""The update of one scaling group: its replicas are made anew, those that work one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from quarterdeck.api import UNSET, Maybe, Time, UnsetType
from quarterdeck.operators.grove.types import GroupUpdate, IndicesSelected

from .groupstate import GroupReplica

__all__ = ["GroupStep", "begin_update", "is_updating", "next_step"]


def is_updating(progress: Maybe[GroupUpdate]) -> bool:
    """Whether an update is under way."""
    return not isinstance(progress, UnsetType) and isinstance(progress.update_ended_at, UnsetType)


def begin_update(generation_hash: str, now: Time) -> GroupUpdate:
    """An update that begins."""
    return GroupUpdate(update_started_at=now, pod_clique_set_generation_hash=generation_hash)


class GroupStep(msgspec.Struct, frozen=True):
    """What an update does next."""

    progress: GroupUpdate
    doomed: tuple[int, ...] = ()
    """Replicas whose PodCliques are deleted, to be made anew."""


def next_step(
    progress: GroupUpdate,
    replicas: Sequence[GroupReplica],
    hashes: Mapping[str, str],
    *,
    least: int,
    now: Time,
) -> GroupStep:
    """The next step, given all replicas that should be, and the present hash of each clique."""
    old = [replica for replica in replicas if replica.is_old(hashes)]
    doomed = [replica.index for replica in old if not replica.is_working]
    working = sorted(replica.index for replica in old if replica.is_working)
    selected = progress.ready_replica_indices_selected_to_update
    completed: tuple[int, ...] = ()
    if not isinstance(selected, UnsetType):
        completed = tuple(selected.completed)
        present = next((each for each in replicas if each.index == selected.current), None)
        # a replica that was scaled away is done
        if present is not None and present.is_old(hashes):
            # chosen by one who ended before deleting it: nobody else will
            return GroupStep(progress, tuple(dict.fromkeys((*doomed, selected.current))))
        if present is not None and not present.is_working:
            return GroupStep(progress, tuple(doomed))
        completed = (*completed, selected.current)
    if not working:
        if doomed:
            return GroupStep(progress, tuple(doomed))
        return GroupStep(progress.evolve(update_ended_at=now, ready_replica_indices_selected_to_update=UNSET))
    if sum(replica.is_working for replica in replicas) < least:
        return GroupStep(progress, tuple(doomed))
    chosen = IndicesSelected(current=working[0], completed=completed)
    return GroupStep(progress.evolve(ready_replica_indices_selected_to_update=chosen), (*doomed, working[0]))
