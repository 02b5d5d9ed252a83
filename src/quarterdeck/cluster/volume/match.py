"""Which volume suits a claim: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quarterdeck.api import LabelSelector, Quantity, Selector, value_or
from quarterdeck.api.k8s import PersistentVolume, PersistentVolumeClaim, StorageClass
from quarterdeck.cluster.volume import names
from quarterdeck.runtime.event.subject import reference_to

_FILESYSTEM = "Filesystem"
_NOTHING = Quantity("0")


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The storage class of a claim, or nothing."""
    old = claim.metadata.annotations.get(names.OLD_CLASS)
    return old if old is not None else value_or(claim.spec.storage_class_name, "")


def has_class(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim says which class it wants; it may want none."""
    return names.OLD_CLASS in claim.metadata.annotations or isinstance(claim.spec.storage_class_name, str)


def volume_class(volume: PersistentVolume) -> str:
    """The storage class of a volume, or nothing."""
    old = volume.metadata.annotations.get(names.OLD_CLASS)
    return old if old is not None else volume.spec.storage_class_name


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """The class of claims that name none: the newest of those marked so."""
    marked = [
        each
        for each in classes
        if "true"
        in (
            each.metadata.annotations.get(names.DEFAULT_CLASS),
            each.metadata.annotations.get(names.OLD_DEFAULT_CLASS),
        )
    ]
    marked.sort(key=lambda each: each.metadata.name)
    return max(marked, key=lambda each: str(each.metadata.creation_timestamp), default=None)


def requested(claim: PersistentVolumeClaim) -> Quantity:
    """How much a claim asks for."""
    return claim.spec.resources.requests.get(names.STORAGE, _NOTHING)


def size_of(volume: PersistentVolume) -> Quantity:
    """How large a volume is."""
    return volume.spec.capacity.get(names.STORAGE, _NOTHING)


def is_meant_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is reserved for a claim, or bound to it."""
    reference = volume.spec.claim_ref
    if not reference:
        return False
    if (reference.namespace, reference.name) != (claim.metadata.namespace, claim.metadata.name):
        return False
    return reference.uid in ("", claim.metadata.uid)


def modes_differ(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether one is a file system and the other a block device."""
    return value_or(claim.spec.volume_mode, _FILESYSTEM) != value_or(volume.spec.volume_mode, _FILESYSTEM)


def _attributes_differ(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return value_or(claim.spec.volume_attributes_class_name, "") != value_or(
        volume.spec.volume_attributes_class_name, ""
    )


def _has_modes(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a claim cannot have the volume it names; empty if it can."""
    if volume.metadata.is_deleting:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if size_of(volume) < requested(claim):
        return "requested PV is too small"
    if volume_class(volume) != claim_class(claim):
        return "storageClassName does not match"
    if _attributes_differ(claim, volume):
        return "volumeAttributesClassName does not match"
    if modes_differ(claim, volume):
        return "incompatible volumeMode"
    return "" if _has_modes(claim, volume) else "incompatible accessMode"


def best_volume(
    claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume], *, waits: bool
) -> PersistentVolume | None:
    """The volume for a claim that names none: the one reserved for it, else the smallest that is free.

    Of those with more access modes than needed, volumes with few are preferred. A claim that ``waits`` for a
    pod gets only what is reserved for it.
    """
    wanted = claim.spec.selector
    selector = Selector.of(wanted) if isinstance(wanted, LabelSelector) else None
    by_modes = sorted(
        (each for each in volumes if _has_modes(claim, each)),
        key=lambda each: len(set(each.spec.access_modes)),
    )
    groups: dict[frozenset[str], list[PersistentVolume]] = {}
    for each in by_modes:
        groups.setdefault(frozenset(each.spec.access_modes), []).append(each)
    for group in groups.values():
        fitting = []
        for each in group:
            if each.spec.claim_ref and not is_meant_for(each, claim):
                continue
            if size_of(each) < requested(claim) or modes_differ(claim, each) or each.metadata.is_deleting:
                continue
            if _attributes_differ(claim, each):
                continue
            if is_meant_for(each, claim):
                return each
            if waits or each.status.phase != "Available" or volume_class(each) != claim_class(claim):
                continue
            if selector is None or selector.matches(each.metadata.labels):
                fitting.append(each)
        if fitting:
            return min(fitting, key=lambda each: (size_of(each).nano, each.metadata.name))
    return None


def bound_to_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """A volume with the claim it is bound to."""
    annotations = volume.metadata.annotations
    if not is_meant_for(volume, claim) and names.BOUND_BY_CONTROLLER not in annotations:
        annotations = {**annotations, names.BOUND_BY_CONTROLLER: "yes"}
    known = volume.spec.claim_ref
    if known and known.uid == claim.metadata.uid and is_meant_for(volume, claim):
        return volume
    reference = reference_to(claim)
    return volume.evolve(
        metadata=volume.metadata.evolve(annotations=annotations),
        spec=volume.spec.evolve(claim_ref=reference),
    )
