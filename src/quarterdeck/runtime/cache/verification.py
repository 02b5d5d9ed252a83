"""The consistency probe: does the cache hold what the server holds?

A metadata-only list at exactly the store's version is compared with the store: names, UIDs and versions.
Both sides describe the same moment, so any difference is a missed event, not a race; objects that changed
in the store while the answer travelled are left out. The list costs the server a read and the wire some
hundred bytes per object.
"""

from typing import Any, Final

import msgspec

from quarterdeck.client.call import Call
from quarterdeck.errors import ApiError, Gone
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.listing import ListSplitter
from quarterdeck.runtime.cache.sink import Opener
from quarterdeck.runtime.cache.store import Store
from quarterdeck.runtime.cache.version import is_comparable
from quarterdeck.wire.timeslice import TimeSlice

_ACCEPT: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class Difference(msgspec.Struct, frozen=True):
    """An object whose state in the cache is not the server's."""

    namespace: str
    name: str
    problem: str
    """``missing`` from the cache, ``gone`` from the server, or ``outdated``."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta


_decode: Final = msgspec.json.Decoder(_Object).decode


async def find_differences(*, opener: Opener, call: Call, store: Store) -> list[Difference] | None:
    """Compare; ``None`` if the server no longer has the store's version, or it cannot be asked for.

    ``call`` is the list of the store's reflector, selectors included.
    """
    version = store.version
    if not is_comparable(version):
        return None
    before = {(entry.namespace, entry.name): entry for entry in store.entries()}
    query = [pair for pair in call.query if pair[0] in ("labelSelector", "fieldSelector")]
    query += [("resourceVersion", version), ("resourceVersionMatch", "Exact")]
    request = msgspec.structs.replace(call, verb="list", query=tuple(query), accept=_ACCEPT)
    found: dict[tuple[str, str], _Meta] = {}
    try:
        await _read(opener, request, found)
    except Gone:
        return None
    except ApiError as error:
        if error.code in (400, 422):
            return None  # the server cannot answer an exact list
        raise
    return _compare(store, before, found)


async def _read(opener: Opener, call: Call, found: dict[tuple[str, str], _Meta]) -> None:
    splitter, turn = ListSplitter(), TimeSlice()

    async def take(items: Any) -> None:
        for raw in items:
            metadata = _decode(raw).metadata
            found[metadata.namespace, metadata.name] = metadata
            if turn.is_over:
                await turn.end()

    async with await opener.open(call) as stream:
        async for chunk in stream:
            await take(splitter.feed(chunk))
    await take(splitter.finish())


def _compare(
    store: Store, before: dict[tuple[str, str], Entry], found: dict[tuple[str, str], _Meta]
) -> list[Difference]:
    differences = []
    for key in before.keys() | found.keys():
        was, there = before.get(key), found.get(key)
        if store.get(*key) is not was:
            continue  # changed while the answer travelled
        if was is None:
            problem = "missing"
        elif there is None:
            problem = "gone"
        elif (was.uid, was.resource_version) != (there.uid, there.resource_version):
            problem = "outdated"
        else:
            continue
        differences.append(Difference(*key, problem))
    return differences
