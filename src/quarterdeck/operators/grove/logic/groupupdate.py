"""The update of one scaling group: its replicas are made anew, those that work one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from quarterdeck.api import UNSET, Maybe, Time, UnsetType
from quarterdeck.operators.grove.types import GroupUpdate, IndicesSelected, PodCliqueScalingGroupStatus

from .groupstate import GroupReplica


def is_updating(progress: Maybe[GroupUpdate]) -> bool:
    """Whether an update is under way."""
    return not isinstance(progress, UnsetType) and isinstance(progress.update_ended_at, UnsetType)


def begin_update(generation_hash: str, now: Time) -> GroupUpdate:
    """An update that begins."""
    return GroupUpdate(update_started_at=now, pod_clique_set_generation_hash=generation_hash)


def is_due(
    status: PodCliqueScalingGroupStatus,
    replicas: Sequence[GroupReplica],
    hashes: Mapping[str, str],
    generation_hash: str,
) -> bool:
    """Whether an update has to begin, given what came of the last one and the present hashes.

    What the status says of hashes may be behind: a replica of an old template is what counts.
    """
    progress, current = status.update_progress, status.current_pod_clique_set_generation_hash
    known = progress.pod_clique_set_generation_hash if progress else ""
    if known == generation_hash and is_updating(progress):
        return False
    if any(replica.is_old(hashes) for replica in replicas):
        return True
    return bool(current) and generation_hash not in (current, known)


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
    """The next step, given all replicas that should be, and the present hash of each clique.

    ``least`` is how many must work for one of them to be taken.
    """
    is_enough = sum(replica.is_working for replica in replicas) >= min(least, len(replicas))
    old = [replica for replica in replicas if replica.is_old(hashes)]
    doomed = [replica.index for replica in old if not replica.is_working]
    working = sorted(replica.index for replica in old if replica.is_working)
    selected = progress.ready_replica_indices_selected_to_update
    completed: tuple[int, ...] = ()
    if not isinstance(selected, UnsetType):
        completed = tuple(selected.completed)
        present = next((each for each in replicas if each.index == selected.current), None)
        # a replica that was scaled away is done
        if present is not None and (present.is_old(hashes) or not present.is_working):
            # still as it was: chosen by one who ended before deleting it, and nobody else will
            chosen = [selected.current] if selected.current in working and is_enough else []
            return GroupStep(progress, (*doomed, *chosen))
        completed = (*completed, selected.current)
    if not working:
        if doomed:
            return GroupStep(progress, tuple(doomed))
        return GroupStep(progress.evolve(update_ended_at=now, ready_replica_indices_selected_to_update=UNSET))
    if not is_enough:
        return GroupStep(progress, tuple(doomed))
    selection = IndicesSelected(current=working[0], completed=completed)
    after = progress.evolve(ready_replica_indices_selected_to_update=selection)
    return GroupStep(after, (*doomed, working[0]))
