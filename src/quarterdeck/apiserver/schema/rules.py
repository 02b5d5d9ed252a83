"""What makes a schema structural: the invariants every schema of a CRD must keep.

Works on the JSON form, because what is wrong here is often exactly what the compiled form leaves out.
Errors come sorted by their text, as upstream gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.document import nesting
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, required

from .lenient import items_of, text
from .regex import RegexError, compile_regex

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_COMBINATORS: Final = ("anyOf", "allOf", "oneOf")

#: what a schema under a combinator may not say, and the text for it
_VALUE_VALIDATION_ONLY: Final = {
    "type": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
#: present even when empty
_POINTERS: Final = frozenset(("default", "x-kubernetes-list-type", "x-kubernetes-map-type"))


class Level(Enum):
    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


def max_depth() -> int:
    """How deep a schema may nest: as deep as its text can, unless nobody made room on the stack for it."""
    return nesting.MAX_DEPTH if nesting.depth_limit() == nesting.MAX_DEPTH else 100


def is_too_deep(raw: object) -> bool:
    """Whether a schema nests deeper than `max_depth`; iterative, so it can judge anything."""
    level: list[Any] = [raw]
    for _ in range(max_depth()):
        level = [child for schema in level for _, child in subschemas(schema)]
        if not level:
            return False
    return True


def subschemas(raw: object) -> Iterator[tuple[str, Any]]:
    """The schemas directly below one, each with its path relative to it."""
    if not isinstance(raw, dict):
        return
    for key in ("items", "not", "additionalProperties", "additionalItems"):
        value = raw.get(key)
        if isinstance(value, dict):
            yield f".{key}", value
        elif isinstance(value, list) and key == "items":
            yield from ((f".items[{index}]", item) for index, item in enumerate(value))
    for key in _COMBINATORS:
        yield from ((f".{key}[{index}]", item) for index, item in enumerate(items_of(raw, key)))
    for key in ("properties", "patternProperties", "definitions", "dependencies"):
        value = raw.get(key)
        if isinstance(value, dict):
            yield from ((f".{key}[{name}]", item) for name, item in value.items() if isinstance(item, dict))


def all_schemas(raw: object) -> Iterator[Json]:
    """A schema and everything below it, in document order; iterative, so it can take anything."""
    pending = [raw]
    while pending:
        schema = pending.pop()
        if isinstance(schema, dict):
            yield schema
            pending.extend(reversed([child for _, child in subschemas(schema)]))


def unsupported_keyword(raw: object) -> str:
    """Why a schema has no structural form at all; "" if it has one."""
    for schema in all_schemas(raw):
        for key in ("id", "$schema", "$ref"):
            if text(schema, key):
                return f"OpenAPIV3Schema '{'schema' if key == '$schema' else key}' is not supported"
        for key in ("patternProperties", "dependencies"):
            if schema.get(key):
                return f"OpenAPIV3Schema '{key}' is not supported"
        if schema.get("additionalItems") is not None:
            return "OpenAPIV3Schema 'additionalItems' is not supported"
        if schema.get("definitions"):
            return "OpenAPIV3Schema 'definitions' is not supported"
        if schema.get("x-kubernetes-preserve-unknown-fields") is False:
            return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
        if items_of(schema, "items"):
            return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    return ""


def is_structural(raw: Json) -> bool:
    """Whether a schema keeps all invariants."""
    return not is_too_deep(raw) and not unsupported_keyword(raw) and not structural_errors(raw, "")


def structural_errors(raw: Json, path: str) -> list[FieldError]:
    """All violations of the structural invariants, sorted by text."""
    errors = list(_invariants(raw, Level.ROOT, path))
    errors += _completeness(raw, raw, path, path)
    return sorted(errors, key=str)


def _schema(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _invariants(raw: Json, level: Level, path: str) -> Iterator[FieldError]:
    type_ = text(raw, "type")
    properties = _schema(raw.get("properties"))
    additional = raw.get("additionalProperties")
    embedded = raw.get("x-kubernetes-embedded-resource") is True
    int_or_string = raw.get("x-kubernetes-int-or-string") is True
    preserves = raw.get("x-kubernetes-preserve-unknown-fields") is True

    if isinstance(raw.get("items"), dict):
        yield from _invariants(raw["items"], Level.ITEM, f"{path}.items")
    elif type_ == "array":
        yield required(f"{path}.items", "must be specified")
    for key, child in properties.items():
        yield from _invariants(_schema(child), Level.FIELD, f"{path}.properties[{key}]")
    if additional is not None:
        if level is Level.ROOT:
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            yield from _invariants(additional, Level.FIELD, f"{path}.additionalProperties")
        if embedded:
            text_ = "must not be used if x-kubernetes-embedded-resource is set"
            yield forbidden(f"{path}.additionalProperties", text_)
    if int_or_string:
        for flag, key in ((preserves, "preserve-unknown-fields"), (embedded, "embedded-resource")):
            if flag:
                where = f"{path}.x-kubernetes-{key}"
                yield invalid(where, True, "must be false if x-kubernetes-int-or-string is true")

    first = items_of(raw, "allOf")[:1]
    yield from _value_validation(
        raw,
        path,
        skip_any_of=_plain(raw.get("anyOf")) == _INT_OR_STRING,
        skip_first_all_of=bool(first) and _plain(_schema(first[0]).get("anyOf")) == _INT_OR_STRING,
    )
    yield from _type_errors(type_, level, path, embedded=embedded, typeless=int_or_string or preserves)

    is_resource = level is Level.ROOT or embedded
    if is_resource:
        for key in ("kind", "apiVersion"):
            if key in properties and (found := text(_schema(properties[key]), "type")) != "string":
                yield invalid(f"{path}.properties[{key}].type", found, "must be string")
    if "metadata" in properties:
        meta = _schema(properties["metadata"])
        where = f"{path}.properties[metadata]"
        if is_resource and text(meta, "type") != "object":
            yield invalid(f"{where}.type", text(meta, "type"), "must be object")
        if level is Level.ROOT and _says_more_than_names(meta):
            yield forbidden(
                where,
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified",
            )
    if embedded and not preserves and not properties:
        yield required(
            f"{path}.properties",
            "must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields",
        )


def _type_errors(
    type_: str, level: Level, path: str, *, embedded: bool, typeless: bool
) -> Iterator[FieldError]:
    where = f"{path}.type"
    if embedded and type_ != "object":
        text_ = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(where, type_, text_) if type_ else required(where, text_)
    elif not type_ and not typeless:
        yield required(where, level.value)
    if level is Level.ROOT and type_ not in ("", "object"):
        yield invalid(where, type_, "must be object at the root")


def _says_more_than_names(meta: Json) -> bool:
    """Whether the schema of metadata restricts anything but name and generateName."""
    rest = {
        key: value for key, value in meta.items() if key not in ("type", "default") and _is_said(key, value)
    }
    properties = rest.pop("properties", None)
    if isinstance(properties, dict) and not properties.keys() <= {"name", "generateName"}:
        return True
    return bool(rest)


def _is_said(key: str, value: object) -> bool:
    """Whether a keyword says something: a limit of 0 does, and additionalProperties even when false."""
    return bool(value) or (value == 0 and (value is not False or key == "additionalProperties"))


def _plain(value: object) -> object:
    """The alternatives of a combinator without keys that say nothing."""
    if not isinstance(value, list):
        return value
    return [
        {key: part[key] for key in part if part[key]} if isinstance(part, dict) else part for part in value
    ]


def _value_validation(
    raw: Json, path: str, *, skip_any_of: bool, skip_first_all_of: bool
) -> Iterator[FieldError]:
    for key in _COMBINATORS:
        if key == "anyOf" and skip_any_of:
            continue
        for index, part in enumerate(items_of(raw, key)):
            skip = key == "allOf" and index == 0 and skip_first_all_of
            yield from _nested(_schema(part), f"{path}.{key}[{index}]", skip_any_of=skip)
    if isinstance(raw.get("not"), dict):
        yield from _nested(raw["not"], f"{path}.not")
    pattern = text(raw, "pattern")
    if pattern:
        try:
            compile_regex(pattern)
        except RegexError as error:
            text_ = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", pattern, text_)


def _nested(raw: Json, path: str, *, skip_any_of: bool = False) -> Iterator[FieldError]:
    """The rules for what stands below a combinator."""
    yield from _value_validation(raw, path, skip_any_of=skip_any_of, skip_first_all_of=False)
    if isinstance(raw.get("items"), dict):
        yield from _nested(raw["items"], f"{path}.items")
    properties = _schema(raw.get("properties"))
    for key, child in properties.items():
        yield from _nested(_schema(child), f"{path}.properties[{key}]")
    if isinstance(raw.get("additionalProperties"), dict) or raw.get("additionalProperties") is True:
        yield forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for key, text_ in _VALUE_VALIDATION_ONLY.items():
        value = raw.get(key)
        if value or (key in _POINTERS and value is not None):
            yield forbidden(f"{path}.{key}", text_)
    if "metadata" in properties:
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(raw: Json, schema: Json, at: str, raw_at: str) -> Iterator[FieldError]:
    """What the combinators of `raw` name must be specified in `schema`, outside of combinators."""
    if isinstance(raw.get("not"), dict):
        yield from _counterpart(raw["not"], schema, at, f"{raw_at}.not")
    for key in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(items_of(raw, key)):
            yield from _counterpart(_schema(part), schema, at, f"{raw_at}.{key}[{index}]")


def _counterpart(nested: Json, schema: object, at: str, nested_at: str) -> Iterator[FieldError]:
    if not isinstance(schema, dict):
        yield required(at, f"because it is defined in {nested_at}")
        return
    yield from _completeness(nested, schema, at, nested_at)
    if isinstance(nested.get("items"), dict):
        yield from _counterpart(nested["items"], schema.get("items"), f"{at}.items", f"{nested_at}.items")
    known = _schema(schema.get("properties"))
    for key, part in _schema(nested.get("properties")).items():
        where = f".properties[{key}]"
        yield from _counterpart(_schema(part), known.get(key), at + where, nested_at + where)
