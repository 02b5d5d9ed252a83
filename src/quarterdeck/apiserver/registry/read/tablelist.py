"""A list of stored objects as a Table, in bytes.

Rows carry the stored metadata as it is, and of the rest only what the cells need is decoded. What was found
out about an object is remembered with it: as long as it does not change, only its age does, and the next
Table neither reads it nor works out its cells again. A long list is made in slices, so that nobody waits
until it is finished: stored entries do not change, whatever is written meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.print.text import human_duration, parse_time
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.apiserver.resource.printer import Printer
from quarterdeck.apiserver.storage import Entry
from quarterdeck.wire import wallclock
from quarterdeck.wire.http import Response
from quarterdeck.wire.timeslice import TimeSlice

_LOOK_ROWS: Final = 32
"""Rows between two looks at the clock: half a millisecond's worth."""
_encode: Final = msgspec.json.Encoder().encode
_NAME: Final = b'"metadata":'
"""What every stored text begins with."""


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata: Final = msgspec.json.Decoder(_Metadata).decode
_ROW_OBJECT: Final = b',"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


class _Row:
    """The row of one state of an object, without its age.

    ``start`` and ``end`` are the text before and behind the age; ``created`` is in seconds since 1970, or
    None if other cells change with time, too. ``metadata_end`` is where the metadata ends in the stored text.
    """

    __slots__ = ("created", "end", "metadata_end", "printer", "start")

    def __init__(
        self, printer: Printer, start: bytes, created: float | None, end: bytes, metadata_end: int
    ) -> None:
        self.printer = printer
        self.start = start
        self.created = created
        self.end = end
        self.metadata_end = metadata_end


def fits(request: ApiRequest) -> bool:
    """Whether the Table asked for can be made from stored text."""
    return not request.output.yaml and request.output.version == "v1"


async def table_response(
    request: ApiRequest, entries: Sequence[Entry], list_metadata: Json
) -> Response | None:
    """The list as a Table; None when an entry's text cannot be served in this version as it is."""
    resource = request.resource
    printer = resource.printer
    bodies = resource.raw_bodies(entries)
    if bodies is None:
        return None
    included = request.param("includeObject") or "Metadata"
    whole = b',"object":' + resource.prefix
    seconds = wallclock.now()
    now = datetime.fromtimestamp(seconds, UTC)
    ages: dict[int, bytes] = {}
    parts: list[bytes] = []
    turn = TimeSlice()
    for place, entry in enumerate(entries):
        if not place % _LOOK_ROWS:
            await turn.end()
        row = entry.row
        if row.__class__ is not _Row or row.printer is not printer:
            row = _make_row(printer, entry, bodies[place], now)
        parts.append(row.start)
        if row.created is not None:
            age = int(seconds - row.created)
            if (text := ages.get(age)) is None:
                text = ages[age] = human_duration(age).encode()
            parts.append(text)
        parts.append(row.end)
        if included == "Metadata":
            parts += (_ROW_OBJECT, bodies[place][len(_NAME) : row.metadata_end], b"}},")
        elif included == "Object":
            parts += (whole, bodies[place], b"},")
        else:
            parts.append(b',"object":null},')
    if parts:
        parts[-1] = parts[-1][:-1]
    opening, closing = (b"[", b"]}\n") if parts or not printer.shows_none_as_null else (b"null", b"}\n")
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_metadata}
    start = _encode({**head, "columnDefinitions": printer.columns})[:-1] + b',"rows":' + opening
    headers = request.warnings.headers() if request.warnings else ()
    return Response(200, parts=[start, *parts, closing], headers=headers)


def _make_row(printer: Printer, entry: Entry, body: bytes, now: datetime) -> _Row:
    """Work out the row of an entry, and remember it if only its age will change."""
    text = b"{" + body
    document = printer.decode(text)
    metadata = _decode_metadata(text).metadata
    cells = printer.cells(document, now)
    conditions = printer.conditions(document)
    marks = b',"conditions":' + _encode(conditions) if conditions else b""
    metadata_end = len(_NAME) + len(metadata)
    place = printer.age_cell(cells)
    created = parse_time(document["metadata"].get("creationTimestamp"))
    if place is None or created is None:
        return _Row(printer, b'{"cells":' + _encode(cells), None, marks, metadata_end)
    before, behind = _encode(cells[:place]), _encode(cells[place + 1 :])
    start = b'{"cells":' + before[:-1] + (b',"' if place else b'"')
    end = (b'",' if len(behind) > 2 else b'"') + behind[1:] + marks
    entry.row = row = _Row(printer, start, created.timestamp(), end, metadata_end)
    return row
