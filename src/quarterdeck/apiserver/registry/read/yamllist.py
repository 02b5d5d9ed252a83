"""A list of stored objects as YAML, made from their stored text item by item.

A long list is made in slices, so that nobody waits until it is finished: stored entries do not change,
whatever is written meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.document.yamltext import UnusualKey, list_item, to_yaml
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.apiserver.storage import Entry
from quarterdeck.wire.http import Response
from quarterdeck.wire.timeslice import TimeSlice

_LOOK_ITEMS: Final = 16
"""Items between two looks at the clock: about a millisecond's worth."""


def fits(request: ApiRequest) -> bool:
    """Whether whole objects are asked for, as YAML."""
    return request.output.yaml and not request.output.kind


async def yaml_response(
    request: ApiRequest, entries: Sequence[Entry], list_metadata: Json
) -> Response | None:
    """The list; None when an entry's text cannot be served in this version as it is."""
    resource = request.resource
    bodies = resource.raw_bodies(entries)
    if not bodies:
        return None
    if resource.is_custom:
        list_metadata = {"continue": "", **list_metadata}
    parts = [to_yaml({"apiVersion": resource.api_version}), b"items:\n"]
    prefix, turn = resource.item_prefix, TimeSlice()
    try:
        for place, body in enumerate(bodies):
            if not place % _LOOK_ITEMS:
                await turn.end()
            parts.append(list_item(prefix + body))
    except UnusualKey:
        return None
    parts.append(to_yaml({"kind": resource.list_kind, "metadata": list_metadata}))
    headers = request.warnings.headers() if request.warnings else ()
    return Response(200, parts=parts, content_type="application/yaml", headers=headers)
