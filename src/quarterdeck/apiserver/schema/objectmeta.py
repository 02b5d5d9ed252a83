"""apiVersion, kind and metadata: of a custom resource itself, and of resources embedded in it.

Upstream sends every ObjectMeta through its Go struct, which drops unknown keys, nulls and empty values
and refuses wrong types. `coerce` does the same to embedded resources at decoding; `embedded_errors`
validates them with the rest of the object.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import metadata
from quarterdeck.apiserver.document.shape import ShapeError, normalize
from quarterdeck.apiserver.document.typetable import OBJECT_META, struct
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire.fielderror import FieldError, invalid, required

from .document import type_name
from .node import SchemaNode


class DecodeError(QuarterdeckError, ValueError):
    """A document that is no object of its kind; the text goes behind `... cannot be handled as a Thing: `.

    `error` names the field, where it is one of an embedded resource.
    """

    def __init__(self, text: str, error: FieldError | None = None) -> None:
        super().__init__(text)
        self.error = error


def _malformed(error: FieldError) -> DecodeError:
    return DecodeError(str(error), error)


def normalized(meta: Any) -> tuple[Json, list[str]]:
    """An ObjectMeta as Go would write it, and its unknown keys, sorted. Raises DecodeError."""
    if meta is None:
        return {}, []
    if type(meta) is not dict:
        kind = type_name(meta)
        kind = {"integer": "number", "boolean": "bool"}.get(kind, kind)
        raise DecodeError(f"json: cannot unmarshal {kind} into Go value of type v1.ObjectMeta")
    try:
        clean, unknown = normalize(meta, struct(OBJECT_META))
    except ShapeError as error:
        raise DecodeError(str(error)) from None
    if clean.get("creationTimestamp") is None:
        clean.pop("creationTimestamp", None)
    return clean, sorted(unknown)


def coerce(obj: Any, node: SchemaNode, path: str = "") -> list[str]:
    """Bring embedded resources into shape, in place; the unknown keys of their metadata, sorted.

    Raises DecodeError at the first embedded apiVersion, kind or metadata of a wrong type.
    """
    unknown: list[str] = []
    if node.has_embedded:
        _coerce(obj, node, path, unknown)
    return sorted(unknown)


def _coerce(value: Any, node: SchemaNode, path: str, unknown: list[str]) -> None:
    if type(value) is dict and node.embedded_resource:
        below = f"{path}." if path else ""
        for key in ("apiVersion", "kind"):
            if key in value and type(value[key]) is not str:
                raise _malformed(invalid(f"{below}{key}", value[key], "must be a string"))
        if "metadata" in value:
            try:
                clean, keys = normalized(value["metadata"])
            except DecodeError as error:
                shown = value["metadata"]
                raise _malformed(invalid(f"{below}metadata", shown, str(error))) from None
            value["metadata"] = clean
            unknown.extend(f"{below}metadata.{key}" for key in keys)
    _coerce_children(value, node, path, unknown)


def _coerce_children(value: Any, node: SchemaNode, path: str, unknown: list[str]) -> None:
    if type(value) is dict:
        for key, item in value.items():
            child = node.properties.get(key)
            if child is not None:
                if child.has_embedded:
                    _coerce(item, child, f"{path}.{key}" if path else key, unknown)
            elif node.additional is not None and node.additional.has_embedded:
                _coerce(item, node.additional, f"{path}[{key}]", unknown)
    elif type(value) is list and node.items is not None and node.items.has_embedded:
        for index, item in enumerate(value):
            _coerce(item, node.items, f"{path}[{index}]", unknown)


def embedded_errors(obj: Any, node: SchemaNode, path: str = "") -> list[FieldError]:
    """What is wrong with the apiVersion, kind and metadata of embedded resources."""
    return list(_walk(obj, node, path)) if node.has_embedded else []


def _walk(value: Any, node: SchemaNode, path: str) -> Iterator[FieldError]:
    if type(value) is dict:
        if node.embedded_resource:
            yield from resource_errors(value, path)
        for key, item in value.items():
            child = node.properties.get(key)
            if child is not None:
                if child.has_embedded:
                    yield from _walk(item, child, f"{path}.{key}" if path else key)
            elif node.additional is not None and node.additional.has_embedded:
                yield from _walk(item, node.additional, f"{path}[{key}]")
    elif type(value) is list and node.items is not None and node.items.has_embedded:
        for index, item in enumerate(value):
            yield from _walk(item, node.items, f"{path}[{index}]")


def resource_errors(resource: Json, path: str) -> Iterator[FieldError]:
    """The errors of one embedded resource; metadata may be missing, apiVersion and kind may not."""
    below = f"{path}." if path else ""
    for key in ("apiVersion", "kind"):
        if key not in resource:
            yield required(f"{below}{key}")
    for key in ("apiVersion", "kind"):
        if key not in resource:
            continue
        value = resource[key]
        if type(value) is not str:
            yield invalid(f"{below}{key}", value, "must be a string")
        elif not value:
            yield invalid(f"{below}{key}", value, "must not be empty")
        elif key == "apiVersion" and value.count("/") > 1:
            yield invalid(f"{below}{key}", value, f"unexpected GroupVersion string: {value}")
        elif key == "kind" and (texts := metadata.dns1035_errors(value.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(texts)
            yield invalid(f"{below}{key}", value, text)
    if "metadata" in resource:
        try:
            meta, _ = normalized(resource["metadata"])
        except DecodeError as error:
            yield invalid(f"{below}metadata", resource["metadata"], str(error))
            return
        meta = {**meta, "name": meta.get("name") or "fakename"}
        yield from metadata.validate_object_meta(
            meta,
            namespaced=bool(meta.get("namespace")),
            name_errors=metadata.path_segment_errors,
            field=f"{below}metadata",
            bare_finalizers=True,
        )
