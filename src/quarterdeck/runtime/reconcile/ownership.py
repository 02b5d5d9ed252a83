"""Whose an object is: created, updated if it is ours, else left alone.

A name is not an identity. Where a child should be there may be somebody else's object: made by a user, by
another controller, or for an earlier owner of the same name. It must not be changed, adopted or deleted, and
the owner has to say why it cannot go on. The owner references of the object that is *wanted* say whose it
would be:

- it is ours if its controller has the UID of ours (without a controller, one of its owners has);
- one that nobody controls is ours if our field manager has written it: somebody took the reference away;
- an object that is wanted without owners is nobody's to protect: such writes are not judged.

Reconciles need not call any of this: ``ctx.create``, ``ctx.apply``, ``create_or_patch`` and ``ctx.prune``
keep to it. ``ensure`` and ``delete_if_ours`` are for code that has only a client.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from quarterdeck.api import (
    DynamicObject,
    ObjectMeta,
    OwnerReference,
    Resource,
    UnsetType,
    Writable,
    controller_of,
    set_controller_reference,
    to_dict,
)
from quarterdeck.api.codec import decode_json
from quarterdeck.api.meta import ManagedFieldsEntry
from quarterdeck.client import Client
from quarterdeck.errors import AlreadyExists, ForeignObject, NotFound

R = TypeVar("R", bound=Resource)
W = TypeVar("W", bound=Writable)
_NO_VERSION: Final = "1"
"""The version of an empty store: the first object that is written has a later one."""


def is_ours(
    wanted: Iterable[OwnerReference], present: Iterable[OwnerReference], written_by_us: bool = False
) -> bool:
    """Whether an object with the references ``present`` belongs to who the one with ``wanted`` would."""
    wanted, present = tuple(wanted), tuple(present)
    ours = controller_of(wanted)
    theirs = controller_of(present)
    if ours is not None and theirs is not None:
        return ours.uid == theirs.uid
    if theirs is None and written_by_us:
        return True
    if ours is not None:
        return False
    return not wanted or not {each.uid for each in wanted}.isdisjoint(each.uid for each in present)


def require_ours(wanted: Writable, present: Writable, *, manager: str = "") -> None:
    """Raise ``ForeignObject`` unless ``present`` belongs to who ``wanted`` would belong to.

    ``manager`` is our field manager; without it, what nobody controls is not ours.
    """
    metadata, references = present.metadata, wanted.metadata.owner_references
    written_by_us = bool(manager) and any(_is_made_by(manager, each) for each in metadata.managed_fields)
    if is_ours(references, metadata.owner_references, written_by_us):
        return
    ours = controller_of(references) or references[0]
    raise ForeignObject(
        wanted.api_version,
        wanted.kind,
        metadata.namespace,
        metadata.name,
        owner=f"{ours.kind} {ours.name}",
        holder=_holder(ours, metadata),
        uid=metadata.uid,
    )


def _is_made_by(manager: str, entry: ManagedFieldsEntry) -> bool:
    """Whether we have written the object itself: a status or a finalizer is written to others' as well."""
    if entry.manager != manager or entry.subresource:
        return False
    if entry.operation == "Apply" or isinstance(entry.fields_v1, UnsetType):
        return True
    fields: dict[str, dict[str, object]] = decode_json(bytes(entry.fields_v1))
    return fields.keys() != {"f:metadata"} or fields["f:metadata"].keys() != {"f:finalizers"}


def _holder(ours: OwnerReference, present: ObjectMeta) -> str:
    theirs = controller_of(present.owner_references)
    if theirs is None:
        return "nobody controls it; delete it or choose another name"
    if (theirs.kind, theirs.name) == (ours.kind, ours.name):
        return f"it was made for an earlier {theirs.kind} of that name and goes with it"
    return f"it is controlled by {theirs.kind} {theirs.name}"


def owned(obj: W, owner: Writable | None) -> W:
    """The object with ``owner`` as its controller, if one is given."""
    if owner is None:
        return obj
    metadata = set_controller_reference(owner, obj.metadata)
    if isinstance(obj, Resource):
        return cast("W", obj.evolve(metadata=metadata))
    document = obj.to_dict()
    document["metadata"]["ownerReferences"] = to_dict(metadata.owner_references)
    return cast("W", DynamicObject(document))


def for_incarnation(obj: W, uid: str) -> W:
    """The object with a UID in it: the server refuses it (``Conflict``) if the name is another's by then."""
    return _with_metadata(obj, uid=uid)


def if_absent(obj: W) -> W:
    """The object with a version that none has: it is created, or refused (``Conflict``) where there is one.

    Server-side apply has no other word for that; kube-apiserver checks the version of what exists, and only
    of that.
    """
    return _with_metadata(obj, resource_version=_NO_VERSION)


def _with_metadata(obj: W, **fields: str) -> W:
    metadata = obj.metadata.evolve(**fields)
    if isinstance(obj, Resource):
        return cast("W", obj.evolve(metadata=metadata))
    document = obj.to_dict()
    document["metadata"] = to_dict(metadata)
    return cast("W", DynamicObject(document))


async def ensure(
    client: Client, wanted: R, update: Callable[[R], R] = lambda present: present, *, manager: str = ""
) -> R:
    """Create an object; write ``update(present)`` if it is there and ours; else raise ``ForeignObject``.

    ``update`` returns the very object to leave it as it is. The write names the version that was read:
    ``Conflict`` is raised if somebody was faster.
    """
    try:
        present = await client.get(type(wanted), wanted.metadata.name, wanted.metadata.namespace)
    except NotFound:
        try:
            return await client.create(wanted)
        except AlreadyExists:
            present = await client.get(type(wanted), wanted.metadata.name, wanted.metadata.namespace)
    require_ours(wanted, present, manager=manager)
    after = update(present)
    return present if after is present else await client.update(after)


async def delete_if_ours(client: Client, wanted: Writable, present: Writable, **options: Any) -> bool:
    """Delete exactly this object if it belongs to who ``wanted`` would; returns whether it does."""
    if not is_ours(wanted.metadata.owner_references, present.metadata.owner_references):
        return False
    with suppress(NotFound):
        await client.delete(present, **options)
    return True
