"""Owner references: who owns whom, with the rules the garbage collector relies on.

The functions take frozen metadata and give frozen metadata back. An owner is the same owner if group,
kind and name agree; the version does not matter, so that a reference made by an older release is
replaced in place and not doubled.
"""

from collections.abc import Iterable

from quarterdeck.api.meta import ObjectMeta, OwnerReference
from quarterdeck.api.model import UNSET
from quarterdeck.api.resource import Writable
from quarterdeck.errors import AlreadyOwned


def owner_reference(
    owner: Writable, *, controller: bool = False, block_owner_deletion: bool | None = None
) -> OwnerReference:
    """A reference to ``owner``; the two flags are left out unless asked for.

    ``block_owner_deletion`` follows ``controller`` when not given.
    """
    block = controller if block_owner_deletion is None else block_owner_deletion
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True if controller else UNSET,
        block_owner_deletion=True if block else UNSET,
    )


def set_controller_reference(
    owner: Writable, metadata: ObjectMeta, *, block_owner_deletion: bool = True
) -> ObjectMeta:
    """Make ``owner`` the controller of the object with ``metadata``.

    Raises ``AlreadyOwned`` if another controller is there, ``ValueError`` if the scopes do not allow it.
    """
    check_owner(owner, metadata)
    reference = owner_reference(owner, controller=True, block_owner_deletion=block_owner_deletion)
    existing = controller_of(metadata.owner_references)
    if existing is not None and not _same_owner(existing, reference):
        raise AlreadyOwned(
            f"{metadata.namespace}/{metadata.name}" if metadata.namespace else f"/{metadata.name}",
            existing.kind,
            existing.name,
        )
    return _put(metadata, reference)


def set_owner_reference(
    owner: Writable, metadata: ObjectMeta, *, block_owner_deletion: bool = False
) -> ObjectMeta:
    """Add ``owner`` as one owner among others (garbage collection only, no controller flag)."""
    check_owner(owner, metadata)
    return _put(metadata, owner_reference(owner, block_owner_deletion=block_owner_deletion))


def remove_owner_reference(owner: Writable, metadata: ObjectMeta) -> ObjectMeta:
    """Metadata without the reference to ``owner``; the same object if there was none."""
    reference = owner_reference(owner)
    kept = tuple(r for r in metadata.owner_references if not _same_owner(r, reference))
    if len(kept) == len(metadata.owner_references):
        return metadata
    return metadata.evolve(owner_references=kept)


def controller_of(references: Iterable[OwnerReference]) -> OwnerReference | None:
    """The reference with the controller flag, or ``None``."""
    return next((r for r in references if r.controller is True), None)


def is_controlled_by(owner: Writable, metadata: ObjectMeta) -> bool:
    """Whether ``owner`` itself, by UID, controls the object."""
    reference = controller_of(metadata.owner_references)
    return reference is not None and reference.uid == owner.metadata.uid


def check_owner(owner: Writable, metadata: ObjectMeta) -> None:
    """Raise ``ValueError`` where the garbage collector would not honour the reference."""
    namespace = owner.metadata.namespace
    if not namespace:
        return
    if not metadata.namespace:
        raise ValueError(
            f"cluster-scoped resource must not have a namespace-scoped owner, owner's namespace {namespace}"
        )
    if namespace != metadata.namespace:
        raise ValueError(
            f"cross-namespace owner references are disallowed, owner's namespace {namespace}, "
            f"obj's namespace {metadata.namespace}"
        )


def _put(metadata: ObjectMeta, reference: OwnerReference) -> ObjectMeta:
    references = metadata.owner_references
    for i, known in enumerate(references):
        if known == reference:
            return metadata
        if _same_owner(known, reference):
            return metadata.evolve(owner_references=(*references[:i], reference, *references[i + 1 :]))
    return metadata.evolve(owner_references=(*references, reference))


def _same_owner(left: OwnerReference, right: OwnerReference) -> bool:
    return (
        left.name == right.name
        and left.kind == right.kind
        and left.api_version.rpartition("/")[0] == right.api_version.rpartition("/")[0]
    )
