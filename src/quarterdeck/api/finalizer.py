"""Finalizers: the names that hold an object back from deletion.

Two controllers may add and remove their own names at the same time. A write of the whole list would
erase the other's entry, so the patches here carry a ``test`` operation: they fail with a conflict-like
``Invalid`` answer instead of guessing.
"""

from typing import Any

from quarterdeck.api.meta import ObjectMeta


def has_finalizer(metadata: ObjectMeta, name: str) -> bool:
    """Whether the finalizer is on the object."""
    return name in metadata.finalizers


def add_finalizer(metadata: ObjectMeta, name: str) -> ObjectMeta:
    """Metadata with the finalizer; the same object if it is there already."""
    if name in metadata.finalizers:
        return metadata
    return metadata.evolve(finalizers=(*metadata.finalizers, name))


def remove_finalizer(metadata: ObjectMeta, name: str) -> ObjectMeta:
    """Metadata without the finalizer; the same object if it was not there."""
    if name not in metadata.finalizers:
        return metadata
    return metadata.evolve(finalizers=tuple(f for f in metadata.finalizers if f != name))


def finalizer_patch(before: ObjectMeta, after: ObjectMeta) -> list[dict[str, Any]]:
    """The JSON patch from one finalizer list to the other, guarded by tests of the list and the UID.

    Empty when the lists are equal. A list that is not on the object yet is guarded by the resource
    version, because a test cannot ask for absence.
    """
    old, new = list(before.finalizers), list(after.finalizers)
    if old == new:
        return []
    if old:
        guards = [{"op": "test", "path": "/metadata/finalizers", "value": old}]
        if before.uid:  # another object of the name may have the same list
            guards.append({"op": "test", "path": "/metadata/uid", "value": before.uid})
    else:
        guards = [{"op": "test", "path": "/metadata/resourceVersion", "value": before.resource_version}]
    change: dict[str, Any] = {"op": "add", "path": "/metadata/finalizers", "value": new}
    if old and not new:
        change = {"op": "remove", "path": "/metadata/finalizers"}
    return [*guards, change]
