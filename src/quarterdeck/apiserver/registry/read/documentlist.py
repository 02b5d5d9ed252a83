"""A list of objects that have to be decoded, because of the form or the version that was asked for.

A long list is made in slices, so that nobody waits until it is finished: stored entries do not change,
whatever is written meanwhile. Metadata alone is cut out of the stored text where that can be served.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.registry.answer import document_response, list_document
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.apiserver.storage import Entry
from quarterdeck.wire.http import Response
from quarterdeck.wire.timeslice import TimeSlice

_SLICE: Final = 32
"""Objects between two looks at the clock: a few milliseconds' worth."""
_NAME: Final = b'"metadata":'
"""What every stored text begins with."""
_encode: Final = msgspec.json.Encoder().encode


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata: Final = msgspec.json.Decoder(_Metadata).decode


async def documents_response(request: ApiRequest, entries: Sequence[Entry], list_metadata: Json) -> Response:
    """The list in whatever form was asked for."""
    if request.output.yaml:
        objects = [obj async for some in _read(request, entries) for obj in some]
        return document_response(request, 200, list_document(request, objects, list_metadata))
    whole = list_document(request, [], list_metadata)  # refuses forms that a list does not have
    key = "rows" if "rows" in whole else "items"
    parts = [_encode({**whole, key: []})[:-2]] if entries else [_encode(whole)[:-1]]
    source = _metadata_items if request.output.kind == "PartialObjectMetadataList" else _items
    async for items in source(request, entries, key):
        parts.append(b",".join(items))
        parts.append(b",")
    parts[-1] = b"]}\n" if entries else parts[-1] + b"}\n"
    headers = request.warnings.headers() if request.warnings else ()
    return Response(200, parts=parts, headers=headers)


async def _read(request: ApiRequest, entries: Sequence[Entry]) -> AsyncIterator[list[Json]]:
    resource = request.resource
    if any(resource.needs_webhook(entry) for entry in entries):  # which is called once for all
        yield await resource.read_many(entries)
        return
    turn, rest = TimeSlice(), iter(entries)
    while some := list(islice(rest, _SLICE)):
        yield await resource.read_many(some)
        await turn.end()


async def _items(request: ApiRequest, entries: Sequence[Entry], key: str) -> AsyncIterator[list[bytes]]:
    turn = TimeSlice()
    async for objects in _read(request, entries):
        for start in range(0, len(objects), _SLICE):
            some = list_document(request, objects[start : start + _SLICE], {})[key]
            yield [_encode(item) for item in some]
            await turn.end()


async def _metadata_items(
    request: ApiRequest, entries: Sequence[Entry], key: str
) -> AsyncIterator[list[bytes]]:
    if request.resource.raw_bodies(entries) is None:
        async for items in _items(request, entries, key):
            yield items
        return
    kind = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{request.output.version}"}
    head = _encode(kind)[:-1] + b","
    turn, rest = TimeSlice(), iter(entries)
    while some := list(islice(rest, _SLICE)):
        items = []
        for entry in some:
            end = len(_NAME) + len(_decode_metadata(b"{" + entry.body).metadata)
            items.append(head + entry.body[:end] + b"}")
        yield items
        await turn.end()
