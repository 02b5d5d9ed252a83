"""A list of stored objects as a Table, in bytes.

Rows carry the stored metadata as it is, and of the rest only what the cells need is decoded. A long list is
made in slices, so that nobody waits until it is finished: stored entries do not change, whatever is written
meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from quarterdeck.apiserver import table, wallclock
from quarterdeck.apiserver.storage import Entry
from quarterdeck.wire.http import Response
from quarterdeck.wire.timeslice import TimeSlice

from .request import ApiRequest

Json = dict[str, Any]
_LOOK_ROWS: Final = 32
"""Rows between two looks at the clock: half a millisecond's worth."""
_encode: Final = msgspec.json.Encoder().encode


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata: Final = msgspec.json.Decoder(_Metadata).decode
_ROW_OBJECT: Final = b',"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


def fits(request: ApiRequest) -> bool:
    """Whether the Table asked for can be made from stored text."""
    included = request.param("includeObject") in ("", "Metadata", "None")
    return included and not request.output.yaml and request.output.version == "v1"


async def table_response(
    request: ApiRequest, entries: Sequence[Entry], list_metadata: Json
) -> Response | None:
    """The list as a Table; None when an entry's text cannot be served in this version as it is."""
    resource = request.resource
    printer = table.printer_for(resource)
    decode, make_cells, make_conditions = printer.decode, printer.cells, printer.conditions
    has_object = request.param("includeObject") != "None"
    now = datetime.fromtimestamp(wallclock.now(), UTC)
    rows: list[bytes] = []
    turn = TimeSlice()
    for place, entry in enumerate(entries):
        if not place % _LOOK_ROWS:
            await turn.end()
        body = resource.raw_body(entry)
        if body is None:
            return None
        text = b"{" + body
        document = decode(text)
        cells = _encode(make_cells(document, now))
        if conditions := make_conditions(document):
            cells += b',"conditions":' + _encode(conditions)
        if has_object:
            rows.append(b'{"cells":%b%b%b}}' % (cells, _ROW_OBJECT, _decode_metadata(text).metadata))
        else:
            rows.append(b'{"cells":%b,"object":null}' % cells)
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_metadata}
    start = _encode({**head, "columnDefinitions": printer.columns})[:-1] + b',"rows":['
    headers = request.warnings.headers() if request.warnings else ()
    return Response(200, parts=[start, b",".join(rows), b"]}\n"], headers=headers)
