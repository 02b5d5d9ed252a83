"""Changes of an object that its schema allows, field by field, and back; some that it forbids. Pure.

Only what a sample shows is gone into, and the simple fields beside it: the rest of a large schema (all of a
pod, say) is mostly somebody else's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

Json = dict[str, Any]
Path: TypeAlias = tuple[str, ...]
_QUANTITY: Final = re.compile(r"([0-9]+)([numkKMGTPE]i?|Ki)?")
_UNFIT: Final = "no value of this field"


class Change(msgspec.Struct, frozen=True):
    """One way to change an object: merge patches there and back."""

    name: str
    """``spec.replicas.1``: the field, and which of its changes."""
    there: Json
    back: Json
    is_valid: bool = True
    """Whether the schema allows it."""


def schema_of(definitions: Sequence[Mapping[str, Any]], sample: Mapping[str, Any]) -> Json:
    """The schema of a sample's kind and version among CustomResourceDefinitions; empty if none has it."""
    group, _, version = sample["apiVersion"].partition("/")
    for definition in definitions:
        spec = definition.get("spec") or {}
        if spec.get("group") != group or (spec.get("names") or {}).get("kind") != sample["kind"]:
            continue
        for each in spec.get("versions") or ():
            if each.get("name") == version:
                return dict((each.get("schema") or {}).get("openAPIV3Schema") or {})
    return {}


def is_namespaced(definitions: Sequence[Mapping[str, Any]], document: Mapping[str, Any]) -> bool:
    """Whether an object lives in a namespace; kinds that no definition has are taken to do so."""
    for each in definitions:
        spec = each.get("spec") or {}
        names = (spec.get("group"), (spec.get("names") or {}).get("kind"))
        if names == (str(document["apiVersion"]).partition("/")[0], document["kind"]):
            return bool(spec.get("scope") == "Namespaced")
    return True


def changes_of(schema: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Change]:
    """Every change of the sample's spec, by name."""
    inner = (schema.get("properties") or {}).get("spec") or {}
    found: dict[str, Change] = {}
    for path, values, is_valid, is_removable in _fields(inner, sample.get("spec") or {}, ("spec",)):
        old, depth = _look(sample, path)
        offered = [*values, *([None] if is_removable else [])]
        for value in offered:
            if is_valid and value == old:
                continue
            place = 1 + sum(each.startswith(f"{'.'.join(path)}.") for each in found)
            name = f"{'.'.join(path)}.{place}"
            back = _nested(path[:depth], None) if depth < len(path) else _nested(path, old)
            found[name] = Change(name, _nested(path, value), back, is_valid)
    return found


def _look(document: Any, path: Path) -> tuple[Any, int]:
    """The value at a path, and how much of the path must be removed to be without it."""
    for depth, part in enumerate(path, 1):
        if not isinstance(document, Mapping) or part not in document:
            return None, depth
        document = document[part]
    return document, len(path)


def _nested(path: Path, value: Any) -> Json:
    for part in reversed(path):
        value = {part: value}
    result: Json = value
    return result


def _fields(
    schema: Mapping[str, Any], value: Any, path: Path, *, is_required: bool = True
) -> Iterator[tuple[Path, list[Any], bool, bool]]:
    """Fields with values to try: (path, values, whether they are valid, whether it may be removed)."""
    kind, is_there = schema.get("type"), value is not None
    removable = is_there and not is_required and len(path) > 1
    if kind == "object" and isinstance(value, Mapping):
        if removable:
            yield path, [], True, True
        properties = schema.get("properties") or {}
        required = schema.get("required") or ()
        for name, inner in properties.items():
            if name in value or inner.get("type") not in ("object", "array", "string", None):
                yield from _fields(inner, value.get(name), (*path, name), is_required=name in required)
        return
    valid = _valid_values(schema, value)
    if valid or removable:
        yield path, valid, True, removable
    invalid = _invalid_values(schema)
    if invalid:
        yield path, invalid, False, False


def _valid_values(schema: Mapping[str, Any], value: Any) -> list[Any]:
    if schema.get("enum"):
        return [each for each in schema["enum"] if each != value]
    kind = schema.get("type")
    if kind == "boolean":
        return [value is not True]
    if kind in ("integer", "number"):
        return _numbers(schema, value)
    if kind == "array" and isinstance(value, list) and value:
        return [grown for grown in (_grown(schema, value), _shrunk(schema, value)) if grown is not None]
    if isinstance(value, str) and (schema.get("x-kubernetes-int-or-string") or "pattern" in schema):
        match = _QUANTITY.fullmatch(value)
        return [f"{int(match[1]) * 2}{match[2] or ''}"] if match else []
    if isinstance(value, int) and schema.get("x-kubernetes-int-or-string"):
        return [value + 1]
    if kind == "string" and isinstance(value, str) and not {"format", "pattern"} & schema.keys():
        longer = f"{value}x"
        return [longer] if len(longer) <= schema.get("maxLength", len(longer)) else []
    return []


def _numbers(schema: Mapping[str, Any], value: Any) -> list[Any]:
    low, high = schema.get("minimum"), schema.get("maximum")
    step = schema.get("multipleOf", 1)
    base = value if isinstance(value, int | float) else low if low is not None else schema.get("default", 0)
    tried = [base + step, base - step, low if low is not None else 0]
    fitting = [
        each
        for each in dict.fromkeys(tried)
        if each != value and each >= (0 if low is None else low) and (high is None or each <= high)
    ]
    return fitting[:2]


def _grown(schema: Mapping[str, Any], value: list[Any]) -> list[Any] | None:
    last = value[-1]
    if len(value) >= schema.get("maxItems", len(value) + 1):
        return None
    if isinstance(last, str):
        return [*value, f"{last}x"]
    if isinstance(last, Mapping) and isinstance(last.get("name"), str):
        return [*value, {**last, "name": f"{last['name']}x"}]
    return None


def _shrunk(schema: Mapping[str, Any], value: list[Any]) -> list[Any] | None:
    return value[:-1] if len(value) > max(schema.get("minItems", 0), 0) else None


def _invalid_values(schema: Mapping[str, Any]) -> list[Any]:
    kind = schema.get("type")
    if schema.get("enum"):
        return [_UNFIT]
    if kind in ("integer", "number"):
        low, high = schema.get("minimum"), schema.get("maximum")
        beyond = [low - 1] if low is not None else []
        return [*beyond, *([high + 1] if high is not None else []), _UNFIT][:2]
    if kind == "boolean":
        return [_UNFIT]
    return [{"unexpected": [1]}] if kind == "string" else []
