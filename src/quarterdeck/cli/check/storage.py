"""What a server promises of its lists and watches, tried on every resource: `quarterdeck check storage`.

Each resource is listed, listed again at the version of that list, and listed anew; a watch from the first
list has to lead to the last one. So it reads everything three times, and runs only if it is asked for.

What an API cannot show is not looked for here: that an acknowledged write survives a crash, and that nothing
is seen before it is durable. `tests/faults/crash.py` kills servers to find out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from quarterdeck.api.invariant import Broken

if TYPE_CHECKING:
    from quarterdeck.api import GroupVersionKind
    from quarterdeck.client import Client

PROMISES: Final = {
    "storage/one-value": "A name and a UID belong to one object of a resource.",
    "storage/list-version": "No object of a list is newer than the list.",
    "storage/exact-list": "A list that is read again at its version is the same.",
    "storage/watch": "A watch from a list delivers every change once, in order, up to the next list.",
}
"""What is tried, and what it says. The promises 3, 4, 5, 7 and 8 of a store; 1, 2 and 6 need a crash."""
_PAGE: Final = 500
_PATIENCE: Final = 10.0
"""Seconds for a watch to deliver what a list has."""
_REMEDY: Final = "this is a defect of the API server: keep its data, and report it"


class Seen(NamedTuple):
    """One state of an object."""

    uid: str
    version: int
    digest: bytes


class Listing(NamedTuple):
    """A list; ``twice`` has the names and UIDs that came more than once."""

    version: int
    objects: dict[str, Seen]
    twice: list[str]


class StorageChange(NamedTuple):
    """One event of a watch; of a deletion only the version counts."""

    name: str
    seen: Seen
    is_gone: bool


def look_at(kind: str, listing: Listing) -> Iterator[Broken]:
    """What is wrong with a list by itself."""
    for text in listing.twice:
        yield Broken("storage/one-value", f"{kind} {text}", "is in one list twice", _REMEDY)
    for name, seen in listing.objects.items():
        if seen.version > listing.version:
            problem = f"has version {seen.version} in a list of version {listing.version}"
            yield Broken("storage/list-version", f"{kind} {name}", problem, _REMEDY)


def compare_exact(kind: str, first: Listing, again: Listing) -> Iterator[Broken]:
    """What differs between two lists of one version."""
    for name in sorted({*first.objects, *again.objects}):
        if first.objects.get(name) != again.objects.get(name):
            problem = f"is not the same in two lists of version {first.version}"
            yield Broken("storage/exact-list", f"{kind} {name}", problem, _REMEDY)


def replay(kind: str, first: Listing, changes: list[StorageChange], last: Listing) -> Iterator[Broken]:
    """What is wrong with the changes between two lists."""
    state, version = dict(first.objects), first.version
    for change in changes:
        if change.seen.version <= version:
            problem = f"comes at version {change.seen.version} after {version}"
            yield Broken("storage/watch", f"{kind} {change.name}", problem, _REMEDY)
        version = change.seen.version
        if version > last.version:
            break
        if change.is_gone:
            state.pop(change.name, None)
        else:
            state[change.name] = change.seen
    for name in sorted({*state, *last.objects}):
        if state.get(name) != last.objects.get(name):
            problem = f"is not what the watch from {first.version} has made of it at {last.version}"
            yield Broken("storage/watch", f"{kind} {name}", problem, _REMEDY)


async def find_storage_faults(client: Client) -> list[Broken]:
    """Try the promises on every resource that can be listed and watched, once in each version served."""
    found: list[Broken] = []
    for mapping in await client.mapper.all():
        if {"list", "watch"} <= mapping.verbs:
            found += [each async for each in _try(client, mapping.gvk)]
    return sorted(found)


async def _try(client: Client, gvk: GroupVersionKind) -> AsyncIterator[Broken]:
    from quarterdeck.errors import ApiError, Gone

    try:
        first = await _list(client, gvk)
        exact = {"resource_version": str(first.version), "resource_version_match": "Exact"}
        try:
            again = await _list(client, gvk, **exact)
        except Gone:
            again = first  # the version is too old by now
        last = await _list(client, gvk)
        changes = await _changes(client, gvk, first, last)
    except ApiError:
        return  # not for us to read, or no longer there
    for broken in (*look_at(gvk.kind, first), *compare_exact(gvk.kind, first, again)):
        yield broken
    if changes is not None:
        for broken in replay(gvk.kind, first, changes, last):
            yield broken


async def _list(client: Client, gvk: GroupVersionKind, **options: Any) -> Listing:
    objects: dict[str, Seen] = {}
    uids: set[str] = set()
    twice: list[str] = []
    version = 0
    async for page in client.raw_pages(gvk, limit=_PAGE, **options):
        version = int(page.metadata.resource_version)
        for item in page.items:
            name, seen = _seen(msgspec.json.decode(item))
            twice += [each for each in (name,) if each in objects]
            twice += [f"with UID {each}" for each in (seen.uid,) if each in uids]
            objects[name] = seen
            uids.add(seen.uid)
    return Listing(version, objects, twice)


def _seen(document: Mapping[str, Any]) -> tuple[str, Seen]:
    metadata = document["metadata"]
    space = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    content = {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}
    digest = blake2b(msgspec.json.encode(content, order="sorted"), digest_size=16).digest()
    return f"{space}{metadata['name']}", Seen(
        metadata.get("uid", ""), int(metadata["resourceVersion"]), digest
    )


async def _changes(
    client: Client, gvk: GroupVersionKind, first: Listing, last: Listing
) -> list[StorageChange] | None:
    """What a watch says until it has reached the last list; nothing to say if it is too late to watch."""
    from quarterdeck.client import WatchEvent
    from quarterdeck.errors import Gone

    state, changes = dict(first.objects), list[StorageChange]()
    if state == last.objects:
        return changes
    try:
        async with (
            asyncio.timeout(_PATIENCE),
            client.watch(gvk, resource_version=str(first.version)) as events,
        ):
            async for event in events:
                if not isinstance(event, WatchEvent):
                    continue
                name, seen = _seen(event.object.to_dict())
                changes.append(StorageChange(name, seen, event.type == "DELETED"))
                if changes[-1].is_gone:
                    state.pop(name, None)
                else:
                    state[name] = seen
                if state == last.objects or seen.version > last.version:
                    break
    except TimeoutError:
        pass  # what has not come by now does not come: the lists are compared with what has
    except Gone:
        return None
    return changes
