"""Objects into response bodies: plain JSON or YAML, Tables, metadata only.

The plain JSON form of a stored object is its stored text behind a prefix; nothing is decoded on
that path. All other forms work on documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.document.negotiate import Output
from quarterdeck.apiserver.document.yamltext import json_to_yaml, to_yaml
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.storage import Entry
from quarterdeck.wire import fielderror, wallclock
from quarterdeck.wire.http import Response

_encode = msgspec.json.Encoder().encode


def json_response(
    code: int, document: Mapping[str, Any], headers: Iterable[tuple[str, str]] = ()
) -> Response:
    # Go's encoder ends a document with a line end, and kubectl get --raw shows it
    return Response(code, _encode(document) + b"\n", headers=headers)


def status_response(error: status.StatusError, *, yaml_wanted: bool = False) -> Response:
    document = error.to_status()
    if yaml_wanted:
        return Response(error.code, to_yaml(document), content_type="application/yaml", headers=error.headers)
    return json_response(error.code, document, error.headers)


def document_response(request: ApiRequest, code: int, document: Json) -> Response:
    """An answer that is not a stored object: a Status, a Scale, a review."""
    headers = request.warnings.headers() if request.warnings else ()
    if request.output.yaml:
        return Response(code, to_yaml(document), content_type="application/yaml", headers=headers)
    return json_response(code, document, headers)


def object_response(request: ApiRequest, code: int, obj: Json) -> Response:
    """One object given as a document in the request's version."""
    output = request.output
    if output.kind:
        return document_response(request, code, _transform(request, obj, output))
    return document_response(request, code, obj)


def entry_response(request: ApiRequest, code: int, entry: Entry) -> Response:
    """One stored object; raises LookupError when it must be converted by a webhook first."""
    resource = request.resource
    output = request.output
    body = resource.raw_body(entry) if not output.kind else None
    if body is not None:
        headers = request.warnings.headers() if request.warnings else ()
        whole = resource.prefix + body
        if output.yaml:
            return Response(code, json_to_yaml(whole), content_type="application/yaml", headers=headers)
        return Response(code, whole + b"\n", headers=headers)
    return object_response(request, code, resource.read(entry))


def _transform(request: ApiRequest, obj: Json, output: Output) -> Json:
    if output.kind == "Table":
        version = obj.get("metadata", {}).get("resourceVersion", "")
        return build_table(request, [obj], {"resourceVersion": version})
    if output.kind == "PartialObjectMetadata":
        return partial(request.resource.summarized(obj), output.version)
    if request.resource.is_custom:
        raise status.plain_error("content is not a list")
    raise status.not_acceptable(
        f"you requested {output.kind}, but the requested object is not a list ({_go_type(request.resource)})"
    )


def _go_type(resource: Resource) -> str:
    package = "unstructured" if resource.is_custom else resource.group.partition(".")[0] or "core"
    return f"*{package}.{'Unstructured' if resource.is_custom else resource.kind}"


def partial(obj: Json, version: str = "v1") -> Json:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version or 'v1'}",
        "metadata": obj["metadata"],
    }


def check_include_object(value: str) -> None:
    if value not in ("", "Metadata", "Object", "None"):
        error = fielderror.invalid("includeObject", value, "must be 'Metadata', 'Object', 'None', or empty")
        raise status.bad_request(f"Unable to convert to Table as requested: {error}")


def build_table(
    request: ApiRequest, objects: Iterable[Json], list_metadata: Json, *, columns: bool = True
) -> Json:
    include = request.param("includeObject") or "Metadata"
    printer = request.resource.printer
    now = datetime.fromtimestamp(wallclock.now(), UTC)
    rows = []
    for obj in objects:
        summary = request.resource.summarized(obj)
        if include == "None":
            shown: Any = None
        elif include == "Object":
            shown = obj
        else:
            shown = partial(summary, request.output.version)
        row: Json = {"cells": printer.cells(summary, now)}
        if conditions := printer.conditions(summary):
            row["conditions"] = conditions
        rows.append({**row, "object": shown})
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{request.output.version or 'v1'}",
        "metadata": list_metadata,
        "columnDefinitions": printer.columns if columns else None,
        "rows": None if printer.shows_none_as_null and not rows else rows,
    }


def list_response(request: ApiRequest, entries: Sequence[Entry], list_metadata: Json) -> Response | None:
    """A list of stored objects as bytes; None when some must be decoded first."""
    resource = request.resource
    if request.output.kind or request.output.yaml:
        return None
    bodies = resource.raw_bodies(entries)
    if bodies is None:
        return None
    headers = request.warnings.headers() if request.warnings else ()
    head = list_head(resource, list_metadata)
    if not bodies:
        return Response(200, head + b"]}\n", headers=headers)
    parts = [b"," + resource.item_prefix] * (2 * len(bodies) + 1)
    parts[0] = head + resource.item_prefix
    parts[1::2] = bodies
    parts[-1] = b"]}\n"
    return Response(200, parts=parts, headers=headers)


def list_head(resource: Resource, list_metadata: Json) -> bytes:
    if resource.is_custom:
        list_metadata = {"continue": "", **list_metadata}  # as upstream shows them
    head = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": list_metadata}
    return _encode(head)[:-1] + b',"items":['


def list_document(request: ApiRequest, objects: list[Json], list_metadata: Json) -> Json:
    """A list given as documents, in the form that was asked for."""
    resource = request.resource
    kind = request.output.kind
    if kind == "Table":
        return build_table(request, objects, list_metadata)
    if kind == "PartialObjectMetadataList":
        version = request.output.version
        return {
            "kind": kind,
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": list_metadata,
            # as Go shows an empty list
            "items": [partial(resource.summarized(obj), version) for obj in objects] or None,
        }
    if kind:
        raise status.not_acceptable(
            f"you requested {kind}, but the requested object is a list ({_go_type(resource)}List)"
        )
    if not resource.is_custom:
        objects = [
            {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")} for obj in objects
        ]
    else:
        list_metadata = {"continue": "", **list_metadata}
    return {
        "kind": resource.list_kind,
        "apiVersion": resource.api_version,
        "metadata": list_metadata,
        "items": objects,
    }
