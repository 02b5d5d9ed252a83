"""Who owns the claims of a StatefulSet, so that they go when they should: pure.

A claim that goes with the StatefulSet is owned by it; one that goes when the set is made smaller is owned by
the pod that goes; one that stays is owned by nobody.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api import OwnerReference, Resource, owner_reference
from quarterdeck.api.k8s import PersistentVolumeClaim, Pod, StatefulSet
from quarterdeck.api.k8s.apps import StatefulSetPersistentVolumeClaimRetentionPolicy

_DELETE: Final = "Delete"


def is_deleted_when_scaled(stateful_set: StatefulSet) -> bool:
    """Whether claims go with pods that are not needed any more."""
    return _policy(stateful_set).when_scaled == _DELETE


def _is_deleted_with_set(stateful_set: StatefulSet) -> bool:
    return _policy(stateful_set).when_deleted == _DELETE


def _policy(stateful_set: StatefulSet) -> StatefulSetPersistentVolumeClaimRetentionPolicy:
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    return policy if policy else StatefulSetPersistentVolumeClaimRetentionPolicy()


def _names(reference: OwnerReference, owner: Resource) -> bool:
    """Whether a reference is to an object of this name, this one or an earlier one."""
    return (reference.api_version, reference.kind, reference.name) == (
        owner.api_version,
        owner.kind,
        owner.metadata.name,
    )


def has_stale_owner(claim: PersistentVolumeClaim, owner: Resource) -> bool:
    """Whether a claim belongs to an earlier object of the same name, and is about to go with it."""
    named = (each for each in claim.metadata.owner_references if _names(each, owner))
    first = next(named, None)
    return first is not None and first.uid != owner.metadata.uid


def has_foreign_controller(claim: PersistentVolumeClaim, stateful_set: StatefulSet, pod: Pod) -> bool:
    """Whether somebody else controls a claim whose owners the set would have to change."""
    if not is_deleted_when_scaled(stateful_set) and not _is_deleted_with_set(stateful_set):
        return False
    for each in claim.metadata.owner_references:
        mine = next((owner for owner in (stateful_set, pod) if _names(each, owner)), None)
        if mine is not None:
            if each.uid != mine.metadata.uid:
                return True
        elif each.controller is True:
            return True
    return False


def wanted_owners(
    claim: PersistentVolumeClaim, stateful_set: StatefulSet, pod: Pod, *, is_surplus: bool
) -> tuple[OwnerReference, ...] | None:
    """The owners that a claim should have; ``None`` if those it has are right, or will go with the claim."""
    if has_stale_owner(claim, stateful_set) or has_stale_owner(claim, pod):
        return None
    known = tuple(claim.metadata.owner_references)
    others = tuple(each for each in known if not _names(each, stateful_set) and not _names(each, pod))
    wanted = others
    if not has_foreign_controller(claim, stateful_set, pod):
        if is_deleted_when_scaled(stateful_set) and is_surplus:
            wanted = (*others, owner_reference(pod, controller=True))
        elif _is_deleted_with_set(stateful_set):
            wanted = (*others, owner_reference(stateful_set, controller=True))
    return None if _same(known, wanted) else wanted


def _same(left: tuple[OwnerReference, ...], right: tuple[OwnerReference, ...]) -> bool:
    def facts(references: tuple[OwnerReference, ...]) -> set[tuple[str, bool]]:
        return {(each.uid, each.controller is True) for each in references}

    return facts(left) == facts(right)
