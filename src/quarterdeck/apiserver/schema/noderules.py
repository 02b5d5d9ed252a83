"""What a CRD's schema may say at each of its nodes, beyond being structural.

Unsupported keywords, where defaults may stand, list and map types and their keys, and the form of CEL
rules; whether those compile is another question (`celrules`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required

from . import gointernal
from .celrules import FieldPathError, FieldTree
from .lenient import items_of, strings, text

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_META: Final = ("metadata", "kind", "apiVersion")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_newline = re.compile(r"[\n\r]")


class Options(msgspec.Struct, frozen=True):
    """What existing CRDs may keep although new ones may not have it."""

    require_valid_types: bool = True
    require_atomic_sets: bool = True
    require_map_keys: bool = True


class _Place(msgspec.Struct, frozen=True):
    """What the way from the root to a node decides."""

    #: why there may be no default; "" allows it
    no_defaults: str = ""
    in_metadata: bool = False


def node_errors(raw: Json, path: str, options: Options) -> tuple[list[FieldError], set[str]]:
    """The errors of a schema, and the paths of nodes with CEL rules that have none at or below them."""
    walk = _Walk(options)
    walk.visit(raw, path, _Place(), is_root=True)
    return walk.errors, walk.clean


class _Walk:
    def __init__(self, options: Options) -> None:
        self.errors: list[FieldError] = []
        self.clean: set[str] = set()
        self._options = options
        self._fields = FieldTree()

    def visit(self, raw: object, path: str, place: _Place, *, is_root: bool = False) -> None:
        if not isinstance(raw, dict):
            return
        before = len(self.errors)
        self.errors += self._own_errors(raw, path, place)
        self._visit_children(raw, path, place, is_root)
        self.errors += _extension_errors(raw, path, self._options)
        rules = [rule for rule in items_of(raw, "x-kubernetes-validations") if isinstance(rule, dict)]
        for index, rule in enumerate(rules):
            self.errors += _rule_errors(rule, raw, self._fields, f"{path}.x-kubernetes-validations[{index}]")
        if rules and len(self.errors) == before:
            self.clean.add(path)

    def _visit_children(self, raw: Json, path: str, place: _Place, is_root: bool) -> None:
        additional = raw.get("additionalProperties")
        properties = raw.get("properties") if isinstance(raw.get("properties"), dict) else {}
        assert isinstance(properties, dict)
        if additional is not None:
            if properties and additional is not True:
                text_ = "additionalProperties and properties are mutual exclusive"
                self.errors.append(forbidden(f"{path}.additionalProperties", text_))
            below = place
            if place.in_metadata:
                reason = "inside additionalProperties applying to object metadata"
                below = msgspec.structs.replace(place, no_defaults=reason)
            self.visit(additional, f"{path}.additionalProperties", below)
        for key, child in properties.items():
            below = place
            if key in _META and (is_root or raw.get("x-kubernetes-embedded-resource") is True):
                reason = f"in top-level {key}" if is_root else below.no_defaults
                below = msgspec.structs.replace(below, in_metadata=True, no_defaults=reason)
            self.visit(child, f"{path}.properties[{key}]", below)
        self.visit(raw.get("not"), f"{path}.not", place)
        for keyword in ("allOf", "oneOf", "anyOf"):
            for index, part in enumerate(items_of(raw, keyword)):
                self.visit(part, f"{path}.{keyword}[{index}]", place)
        self._visit_named(raw, "definitions", path, place)
        items = raw.get("items")
        self.visit(items, f"{path}.items", place)
        if isinstance(items, list):
            for index, part in enumerate(items):
                self.visit(part, f"{path}.items[{index}]", place)
        self._visit_named(raw, "dependencies", path, place)

    def _visit_named(self, raw: Json, keyword: str, path: str, place: _Place) -> None:
        value = raw.get(keyword)
        if isinstance(value, dict):
            for key, child in value.items():
                self.visit(child, f"{path}.{keyword}[{key}]", place)

    def _own_errors(self, raw: Json, path: str, place: _Place) -> Iterator[FieldError]:
        type_ = text(raw, "type")
        if self._options.require_valid_types and type_ and type_ not in TYPES:
            yield not_supported(f"{path}.type", type_, TYPES)
        if raw.get("default") is not None and place.no_defaults:
            yield forbidden(f"{path}.default", f"must not be set {place.no_defaults}")
        if text(raw, "id"):
            yield forbidden(f"{path}.id", "id is not supported")
        if raw.get("additionalItems") is not None:
            yield forbidden(f"{path}.additionalItems", "additionalItems is not supported")
        for key in ("patternProperties", "definitions"):
            if raw.get(key):
                yield forbidden(f"{path}.{key}", f"{key} is not supported")
        for key in ("dependencies", "$ref"):
            if raw.get(key) is not None:
                yield forbidden(f"{path}.{key}", f"{key} is not supported")
        if type_ == "null":
            text_ = "type cannot be set to null, use nullable as an alternative"
            yield forbidden(f"{path}.type", text_)
        if items_of(raw, "items"):
            yield forbidden(f"{path}.items", "items must be a schema object and not an array")
        if place.in_metadata and raw.get("x-kubernetes-embedded-resource") is True:
            where = f"{path}.x-kubernetes-embedded-resource"
            yield forbidden(where, "must not be used inside of resource meta")
        if raw.get("uniqueItems") is True:
            yield forbidden(
                f"{path}.uniqueItems",
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            )


def _extension_errors(raw: Json, path: str, options: Options) -> Iterator[FieldError]:
    if raw.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    map_type, list_type = raw.get("x-kubernetes-map-type"), raw.get("x-kubernetes-list-type")
    type_ = text(raw, "type")
    if isinstance(map_type, str):
        yield from _needs_type("object", "map", type_, path)
        if map_type not in ("atomic", "granular"):
            yield not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))
    items = raw.get("items")
    item = items if isinstance(items, dict) else {}
    if isinstance(list_type, str):
        if type_ != "array":
            yield from _needs_type("array", "list", type_, path)
        elif options.require_atomic_sets and list_type == "set":
            yield from _set_item_errors(item, path)
        if list_type not in ("atomic", "set", "map"):
            yield not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    keys = strings(raw, "x-kubernetes-list-map-keys")
    if keys and list_type != "map":
        where, text_ = (
            f"{path}.x-kubernetes-list-type",
            "must be map if x-kubernetes-list-map-keys is non-empty",
        )
        yield required(where, text_) if list_type is None else invalid(where, list_type, text_)
    if list_type == "map":
        yield from _map_errors(raw, item, keys, path)
    if options.require_map_keys and isinstance(items, dict) and list_type in ("set", "map"):
        yield from map_key_errors(item, list_type, keys, path)


def _needs_type(wanted: str, what: str, type_: str, path: str) -> Iterator[FieldError]:
    if type_ != wanted:
        text_ = f"must be {wanted} if x-kubernetes-{what}-type is specified"
        yield invalid(f"{path}.type", type_, text_) if type_ else required(f"{path}.type", text_)


def _set_item_errors(item: Json, path: str) -> Iterator[FieldError]:
    """Items of a set are compared as a whole, so they must be changed as a whole."""
    inner = item.get("x-kubernetes-list-type")
    text_ = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if item.get("type") == "array" and inner is not None and inner != "atomic":
        yield invalid(f"{path}.items.x-kubernetes-list-type", inner, text_)
    if item.get("type") == "object" and item.get("x-kubernetes-map-type") != "atomic":
        # upstream shows the list type here
        yield invalid(f"{path}.items.x-kubernetes-map-type", inner, text_)


def is_set_of_parts(raw: Json) -> bool:
    """Whether a node is a set whose items could be changed in part; only old CRDs may have such."""
    item = raw.get("items")
    return (
        raw.get("x-kubernetes-list-type") == "set"
        and isinstance(item, dict)
        and any(True for _ in _set_item_errors(item, ""))
    )


def _map_errors(raw: Json, item: Json, keys: list[str], path: str) -> Iterator[FieldError]:
    keys_at = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(keys_at, "must not be empty if x-kubernetes-list-type is map")
    items = raw.get("items")
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if isinstance(items, list):
        shown = gointernal.shown({"Schema": None, "JSONSchemas": [gointernal.schema(part) for part in items]})
        text_ = "must only have a single schema if x-kubernetes-list-type is map"
        yield invalid(f"{path}.items", shown, text_)
        return
    if text(item, "type") != "object":
        text_ = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", text(item, "type"), text_)
        return
    properties = item.get("properties") if isinstance(item.get("properties"), dict) else {}
    assert isinstance(properties, dict)
    seen: set[str] = set()
    for key in keys:
        child = properties.get(key)
        if child is None:
            yield invalid(keys_at, keys, "entries must all be names of item properties")
        elif isinstance(child, dict) and child.get("type") in ("array", "object"):
            text_ = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", "object", text_)
        if key in seen:
            yield invalid(keys_at, keys, "must not contain duplicate entries")
        seen.add(key)


def map_key_errors(item: Json, list_type: str, keys: list[str], path: str) -> Iterator[FieldError]:
    """Items of sets and maps are never null, and keys of maps always have a value."""
    if item.get("nullable") is True:
        text_ = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield forbidden(f"{path}.items.nullable", text_)
    if list_type != "map":
        return
    needed = strings(item, "required")
    properties = item.get("properties")
    for key in keys:
        child = properties.get(key) if isinstance(properties, dict) else None
        if not isinstance(child, dict):
            continue
        where = f"{path}.items.properties[{key}]"
        if key not in needed and child.get("default") is None:
            yield required(
                f"{where}.default",
                "this property is in x-kubernetes-list-map-keys, "
                "so it must have a default or be a required property",
            )
        if child.get("nullable") is True:
            text_ = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{where}.nullable", text_)


def lacks_map_keys(raw: Json) -> bool:
    """Whether a node is a set or map that `map_key_errors` objects to; only old CRDs may have such."""
    item, list_type = raw.get("items"), raw.get("x-kubernetes-list-type")
    if not isinstance(item, dict) or list_type not in ("set", "map"):
        return False
    keys = strings(raw, "x-kubernetes-list-map-keys")
    return any(True for _ in map_key_errors(item, list_type, keys, ""))


def _rule_errors(rule: Json, schema: Json, fields: FieldTree, path: str) -> Iterator[FieldError]:
    """The form of one rule of x-kubernetes-validations."""
    expression, message = text(rule, "rule").strip(), text(rule, "message")
    if not expression:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _newline.search(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _newline.search(expression) and not message.strip():
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    message_expression = text(rule, "messageExpression")
    if message_expression and not message_expression.strip():
        text_ = "messageExpression must be non-empty if specified"
        yield required(f"{path}.messageExpression", text_)
    reason = rule.get("reason")
    if isinstance(reason, str) and reason not in _REASONS:
        yield not_supported(f"{path}.reason", reason, _REASONS)
    field_path = text(rule, "fieldPath")
    if not field_path:
        return
    if not field_path.strip():
        yield invalid(f"{path}.fieldPath", field_path, "must be non-empty if specified")
    if _newline.search(field_path):
        yield invalid(f"{path}.fieldPath", field_path, "must not contain line breaks")
    try:
        fields.resolve(field_path, schema)
    except FieldPathError:
        yield invalid(f"{path}.fieldPath", field_path, "must be a valid path")
