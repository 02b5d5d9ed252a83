"""CRD parts as the Go server prints its internal structs: every field, capitalized, in struct order.

Some errors of CRDs show a whole schema or version list; they show upstream's internal form of it, with
zero values and nulls. Nothing else may use this form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire import gostyle

from .lenient import items_of, text

#: field of JSONSchemaProps, its JSON name, and how it is shown
SCHEMA_FIELDS: Final = (
    ("ID", "id", "text"),
    ("Schema", "$schema", "text"),
    ("Ref", "$ref", "pointer"),
    ("Description", "description", "text"),
    ("Type", "type", "text"),
    ("Nullable", "nullable", "flag"),
    ("Format", "format", "text"),
    ("Title", "title", "text"),
    ("Default", "default", "json"),
    ("Maximum", "maximum", "pointer"),
    ("ExclusiveMaximum", "exclusiveMaximum", "flag"),
    ("Minimum", "minimum", "pointer"),
    ("ExclusiveMinimum", "exclusiveMinimum", "flag"),
    ("MaxLength", "maxLength", "pointer"),
    ("MinLength", "minLength", "pointer"),
    ("Pattern", "pattern", "text"),
    ("MaxItems", "maxItems", "pointer"),
    ("MinItems", "minItems", "pointer"),
    ("UniqueItems", "uniqueItems", "flag"),
    ("MultipleOf", "multipleOf", "pointer"),
    ("Enum", "enum", "json"),
    ("MaxProperties", "maxProperties", "pointer"),
    ("MinProperties", "minProperties", "pointer"),
    ("Required", "required", "pointer"),
    ("Items", "items", "items"),
    ("AllOf", "allOf", "schemas"),
    ("OneOf", "oneOf", "schemas"),
    ("AnyOf", "anyOf", "schemas"),
    ("Not", "not", "schema"),
    ("Properties", "properties", "named"),
    ("AdditionalProperties", "additionalProperties", "schemaOrBool"),
    ("PatternProperties", "patternProperties", "named"),
    ("Dependencies", "dependencies", "dependencies"),
    ("AdditionalItems", "additionalItems", "schemaOrBool"),
    ("Definitions", "definitions", "named"),
    ("ExternalDocs", "externalDocs", "docs"),
    ("Example", "example", "json"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", "pointer"),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", "flag"),
    ("XIntOrString", "x-kubernetes-int-or-string", "flag"),
    ("XListMapKeys", "x-kubernetes-list-map-keys", "pointer"),
    ("XListType", "x-kubernetes-list-type", "pointer"),
    ("XMapType", "x-kubernetes-map-type", "pointer"),
    ("XValidations", "x-kubernetes-validations", "rules"),
)


def shown(value: Any) -> msgspec.Raw:
    """A value in internal form, ready for an error text."""
    return msgspec.Raw(gostyle.escaped(msgspec.json.encode(gostyle.encodable(value))))


def schema(raw: object) -> Json | None:
    if not isinstance(raw, dict):
        return None
    return {name: _field(raw, key, kind) for name, key, kind in SCHEMA_FIELDS}


def _field(raw: Json, key: str, kind: str) -> Any:
    value = raw.get(key)
    match kind:
        case "text":
            return value if isinstance(value, str) else ""
        case "flag":
            return value is True
        case "json":
            return _sorted(value)
        case "pointer":
            return value
        case "schema":
            return schema(value)
        case "schemas":
            return [schema(part) for part in value] if isinstance(value, list) else None
        case "named":
            return {name: schema(value[name]) for name in sorted(value)} if isinstance(value, dict) else None
        case "items":
            if value is None:
                return None
            parts = [schema(part) for part in value] if isinstance(value, list) else None
            return {"Schema": schema(value), "JSONSchemas": parts}
        case "schemaOrBool":
            if value is None:
                return None
            return {"Allows": value is True or isinstance(value, dict), "Schema": schema(value)}
        case "dependencies":
            if not isinstance(value, dict):
                return None
            return {
                name: {
                    "Schema": schema(value[name]),
                    "Property": value[name] if isinstance(value[name], list) else None,
                }
                for name in sorted(value)
            }
        case "docs":
            if not isinstance(value, dict):
                return None
            return {"Description": text(value, "description"), "URL": text(value, "url")}
        case _:
            rules = [part for part in items_of(raw, key) if isinstance(part, dict)]
            return [rule(part) for part in rules] if rules else None


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def rule(raw: Mapping[str, Any]) -> Json:
    """A rule of x-kubernetes-validations."""
    return {
        "Rule": text(raw, "rule"),
        "Message": text(raw, "message"),
        "MessageExpression": text(raw, "messageExpression"),
        "Reason": raw.get("reason"),
        "FieldPath": text(raw, "fieldPath"),
        "OptionalOldSelf": raw.get("optionalOldSelf"),
    }


def versions(raw: Sequence[Mapping[str, Any]]) -> list[Json]:
    """The versions of a CRD, as far as they do not share what upstream moves to the top."""
    return [
        {
            "Name": text(version, "name"),
            "Served": version.get("served") is True,
            "Storage": version.get("storage") is True,
            "Deprecated": version.get("deprecated") is True,
            "DeprecationWarning": version.get("deprecationWarning"),
            "Schema": _validation(version.get("schema")),
            "Subresources": _subresources(version.get("subresources")),
            "AdditionalPrinterColumns": _columns(version.get("additionalPrinterColumns")),
            "SelectableFields": _selectable(version.get("selectableFields")),
        }
        for version in raw
    ]


def _validation(raw: object) -> Json | None:
    return {"OpenAPIV3Schema": schema(raw.get("openAPIV3Schema"))} if isinstance(raw, dict) else None


def _subresources(raw: object) -> Json | None:
    if not isinstance(raw, dict):
        return None
    scale = raw.get("scale")
    return {
        "Status": {} if raw.get("status") is not None else None,
        "Scale": {
            "SpecReplicasPath": text(scale, "specReplicasPath"),
            "StatusReplicasPath": text(scale, "statusReplicasPath"),
            "LabelSelectorPath": scale.get("labelSelectorPath"),
        }
        if isinstance(scale, dict)
        else None,
    }


def _columns(raw: object) -> list[Json] | None:
    if not isinstance(raw, list) or not raw:
        return None
    return [
        {
            "Name": text(column, "name"),
            "Type": text(column, "type"),
            "Format": text(column, "format"),
            "Description": text(column, "description"),
            "Priority": column.get("priority") or 0,
            "JSONPath": text(column, "jsonPath"),
        }
        for column in raw
        if isinstance(column, dict)
    ]


def _selectable(raw: object) -> list[Json] | None:
    if not isinstance(raw, list) or not raw:
        return None
    return [{"JSONPath": text(field, "jsonPath")} for field in raw if isinstance(field, dict)]
