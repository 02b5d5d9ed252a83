"""Structural schemas: an openAPIV3Schema compiled once into an immutable tree of nodes.

Everything that works on custom resources (pruning, defaulting, validation, list types, CEL) walks this
tree and never looks at the JSON form again. Compilation takes any JSON value without raising: whether a
schema is acceptable is decided by `rules` when a CRD is written; here, what has the wrong type is absent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire.jsonvalue import deep_copy

from . import formats, number
from .lenient import items_of, strings, text
from .node import INT_OR_STRING, SchemaNode, is_numeric, is_scalar


def compile_schema(raw: object, *, loose: bool = False) -> SchemaNode:
    """The node tree of an openAPIV3Schema.

    `loose` leaves the type of int-or-string nodes to their anyOf, keeps formats that are not checked and
    numbers as they are written, as upstream does where it judges a schema's own defaults.
    """
    return _compile(raw if isinstance(raw, dict) else {}, loose=loose)


def _compile(raw: Json, *, loose: bool) -> SchemaNode:
    properties = {key: _compile(value, loose=loose) for key, value in _schemas(raw, "properties")}
    extra = raw.get("additionalProperties")
    additional = _compile(extra, loose=loose) if isinstance(extra, dict) else None
    items = _compile(raw["items"], loose=loose) if isinstance(raw.get("items"), dict) else None
    negated = _compile(raw["not"], loose=loose) if isinstance(raw.get("not"), dict) else None

    type_ = text(raw, "type")
    int_or_string = raw.get("x-kubernetes-int-or-string") is True
    types: tuple[str, ...] = (type_,) if type_ else ()
    if int_or_string and not loose:
        types = INT_OR_STRING
    list_type = text(raw, "x-kubernetes-list-type")
    rules = tuple(rule for rule in items_of(raw, "x-kubernetes-validations") if isinstance(rule, dict))
    embedded = raw.get("x-kubernetes-embedded-resource") is True
    default = deep_copy(raw.get("default"))
    if not loose:
        default = number.canonicalize(default)

    parts = [part for part in (*properties.values(), additional, items) if part is not None]
    return SchemaNode(
        type=type_,
        types=types,
        nullable=raw.get("nullable") is True,
        default=default,
        properties=properties,
        additional=additional,
        additional_allowed=extra if isinstance(extra, bool) else (True if additional is not None else None),
        items=items,
        list_type=list_type,
        list_map_keys=tuple(strings(raw, "x-kubernetes-list-map-keys")),
        map_type=text(raw, "x-kubernetes-map-type"),
        preserve_unknown=raw.get("x-kubernetes-preserve-unknown-fields") is True,
        embedded_resource=embedded,
        int_or_string=int_or_string,
        rules=rules,
        format=text(raw, "format") if loose else formats.checked(text(raw, "format"), types),
        pattern=text(raw, "pattern"),
        enum=tuple(deep_copy(value) for value in items_of(raw, "enum")),
        required=tuple(strings(raw, "required")),
        minimum=_float(raw, "minimum"),
        maximum=_float(raw, "maximum"),
        exclusive_minimum=raw.get("exclusiveMinimum") is True,
        exclusive_maximum=raw.get("exclusiveMaximum") is True,
        multiple_of=_float(raw, "multipleOf"),
        min_length=_limit(raw, "minLength"),
        max_length=_limit(raw, "maxLength"),
        min_items=_limit(raw, "minItems"),
        max_items=_limit(raw, "maxItems"),
        min_properties=_limit(raw, "minProperties"),
        max_properties=_limit(raw, "maxProperties"),
        all_of=_alternatives(raw, "allOf", loose=loose),
        any_of=_alternatives(raw, "anyOf", loose=loose),
        one_of=_alternatives(raw, "oneOf", loose=loose),
        not_=negated,
        has_defaults=default is not None or any(part.has_defaults for part in parts),
        has_embedded=embedded or any(part.has_embedded for part in parts),
        has_keyed_lists=list_type in ("set", "map") or any(part.has_keyed_lists for part in parts),
        has_rules=bool(rules) or any(part.has_rules for part in parts),
        defaulted=tuple((key, node) for key, node in properties.items() if node.default is not None),
        filled=tuple(
            (key, node) for key, node in properties.items() if node.has_defaults and not is_scalar(node)
        ),
        numeric=tuple(key for key, node in properties.items() if is_numeric(node)),
        nested=tuple((key, node) for key, node in properties.items() if not is_scalar(node)),
    )


def _alternatives(
    raw: Json, key: Literal["allOf", "anyOf", "oneOf"], *, loose: bool
) -> tuple[SchemaNode, ...]:
    return tuple(_compile(part if isinstance(part, dict) else {}, loose=loose) for part in items_of(raw, key))


def _schemas(raw: Json, key: str) -> Iterable[tuple[str, Json]]:
    value = raw.get(key)
    if not isinstance(value, dict):
        return ()
    return ((str(name), part if isinstance(part, dict) else {}) for name, part in value.items())


def _float(raw: Json, key: str) -> float | None:
    value = raw.get(key)
    return number.as_float(value) if number.is_number(value) else None


def _limit(raw: Json, key: str) -> int | None:
    value = raw.get(key)
    if number.is_int64(value):
        return value
    return int(value) if type(value) is float and value.is_integer() and abs(value) < 2**63 else None
