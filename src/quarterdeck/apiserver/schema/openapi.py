"""Schemas of custom resources as the server publishes them.

`publish` gives the component schema of an OpenAPI v3 document: the CRD's schema with what every resource
has. `to_v2` reduces component schemas to what OpenAPI v2 can say; kubectl's v2 reader trips over the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from quarterdeck.api.jsonobject import Json

from .lenient import items_of, strings

_OBJECT_META: Final = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_CONVENTIONS: Final = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_API_VERSION: Final = {
    "description": "APIVersion defines the versioned schema of this representation of an object. "
    "Servers should convert recognized schemas to the latest internal value, "
    "and may reject unrecognized values. "
    f"More info: {_CONVENTIONS}#resources",
    "type": "string",
}
_KIND: Final = {
    "description": "Kind is a string value representing the REST resource this object represents. "
    "Servers may infer this from the endpoint the client submits requests to. Cannot be updated. "
    "In CamelCase. "
    f"More info: {_CONVENTIONS}#types-kinds",
    "type": "string",
}
_METADATA: Final = {
    "description": f"Standard object's metadata. More info: {_CONVENTIONS}#metadata",
    "allOf": [{"$ref": _OBJECT_META}],
}
_EMBEDDED_API_VERSION: Final = {
    "description": "apiVersion defines the versioned schema of this representation of an object. "
    f"More info: {_CONVENTIONS}#resources",
    "type": "string",
}
_EMBEDDED_KIND: Final = {
    "description": "kind is a string value representing the type of this object. In CamelCase. "
    f"More info: {_CONVENTIONS}#types-kinds",
    "type": "string",
}

_KEYWORDS: Final = frozenset(
    (
        "description",
        "type",
        "format",
        "title",
        "default",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "enum",
        "maxProperties",
        "minProperties",
        "required",
        "externalDocs",
        "example",
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    )
)
_COMBINATORS: Final = ("allOf", "anyOf", "oneOf")
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]


def publish(
    raw: Mapping[str, Any] | None, *, selectable_fields: Iterable[Mapping[str, Any]] | None = None
) -> Json:
    """The component schema of a custom resource.

    raw: the openAPIV3Schema of the version; None publishes any object.
    selectable_fields: as in the CRD, published for clients that build field selectors.
    """
    if not raw:
        schema: Json = {"type": "object"}
    else:
        schema = _published(raw)
        schema["properties"] = {
            **schema.get("properties", {}),
            "apiVersion": dict(_API_VERSION),
            "kind": dict(_KIND),
            "metadata": dict(_METADATA),
        }
    if selectable_fields:
        schema["x-kubernetes-selectable-fields"] = [
            {"fieldPath": str(field.get("jsonPath", "")).removeprefix(".")} for field in selectable_fields
        ]
    return schema


def _published(raw: Mapping[str, Any]) -> Json:
    schema = {key: raw[key] for key in raw if key in _KEYWORDS and _is_said(raw[key])}
    for key in _COMBINATORS:
        parts = [_published(part) for part in items_of(raw, key) if isinstance(part, dict)]
        if parts:
            schema[key] = parts
    for key in ("not", "items"):
        if isinstance(raw.get(key), dict):
            schema[key] = _published(raw[key])
    if isinstance(raw.get("properties"), dict):
        schema["properties"] = {
            name: _published(child) for name, child in raw["properties"].items() if isinstance(child, dict)
        }
    extra = raw.get("additionalProperties")
    if extra is not None:
        schema["additionalProperties"] = _published(extra) if isinstance(extra, dict) else extra
    if raw.get("x-kubernetes-int-or-string") is True:
        _spell_out_int_or_string(schema)
    if raw.get("x-kubernetes-embedded-resource") is True:
        schema["properties"] = {
            **schema.get("properties", {}),
            "apiVersion": dict(_EMBEDDED_API_VERSION),
            "kind": dict(_EMBEDDED_KIND),
            "metadata": dict(_METADATA),
        }
        required = strings(schema, "required")
        schema["required"] = required + [key for key in ("kind", "apiVersion") if key not in required]
    return schema


def _is_said(value: Any) -> bool:
    return value is not None and value is not False and value != "" and value != []


def _spell_out_int_or_string(schema: Json) -> None:
    """Say for readers without the extension what it means, unless the schema already does."""
    first = items_of(schema, "allOf")[:1]
    if schema.get("anyOf") == _INT_OR_STRING or (first and first[0].get("anyOf") == _INT_OR_STRING):
        return
    both = [dict(part) for part in _INT_OR_STRING]
    if "anyOf" not in schema:
        schema["anyOf"] = both
    else:
        schema["allOf"] = [{"anyOf": both}, *schema.get("allOf", ())]


def to_v2(definitions: Mapping[str, Any]) -> Json:
    """Component schemas of v3 documents as v2 definitions; references keep their v3 form."""
    return {name: _root_v2(schema) for name, schema in definitions.items()}


def _root_v2(schema: Any) -> Any:
    if not isinstance(schema, dict) or schema.get("x-kubernetes-preserve-unknown-fields") is not True:
        return _v2(schema)
    # With any property named, kubectl would take all others for unknown.
    kept = {"type": "object"}
    for key in ("x-kubernetes-group-version-kind", "x-kubernetes-selectable-fields"):
        if key in schema:
            kept[key] = schema[key]
    return kept


def _v2(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    all_of = schema.get("allOf")
    if isinstance(all_of, list) and len(all_of) == 1 and isinstance(all_of[0], dict) and "$ref" in all_of[0]:
        rest = {key: value for key, value in schema.items() if key not in ("allOf", "default")}
        return {**rest, "$ref": all_of[0]["$ref"]}
    reduced = {
        key: value
        for key, value in schema.items()
        if key not in ("nullable", "not", "default", *_COMBINATORS)
    }
    preserves = schema.get("x-kubernetes-preserve-unknown-fields") is True
    if schema.get("nullable") is True or preserves:
        for key in ("items", "properties"):
            reduced.pop(key, None)
    if schema.get("nullable") is True:
        reduced.pop("type", None)
    if preserves and schema.get("x-kubernetes-embedded-resource") is True:
        _drop_required(reduced, {"kind", "apiVersion"})
    kind = reduced.get("type")
    if (kind == "array" and "items" not in reduced) or (kind == "object" and preserves):
        reduced.pop("type")
    properties = reduced.get("properties")
    if isinstance(properties, dict):
        _drop_required(reduced, {name for name, child in properties.items() if _is_nullable(child)})
        reduced["properties"] = {name: _v2(child) for name, child in properties.items()}
    if "items" in reduced:
        reduced["items"] = _v2(reduced["items"])
    if "additionalProperties" in reduced:
        if _is_nullable(reduced["additionalProperties"]):
            reduced.pop("required", None)
        reduced["additionalProperties"] = _v2(reduced["additionalProperties"])
    return reduced


def _is_nullable(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("nullable") is True


def _drop_required(schema: Json, names: set[str]) -> None:
    left = [name for name in strings(schema, "required") if name not in names]
    if left:
        schema["required"] = left
    else:
        schema.pop("required", None)
