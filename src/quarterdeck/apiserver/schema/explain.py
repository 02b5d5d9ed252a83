"""What is wrong with a value: the walk behind `validation`, in upstream's words and order.

The walk keeps the order of upstream's validators (type, combinators, string, format, number, items,
enum, object); fields of one object, which upstream visits in random order, come in the order of the
schema.

With an old value the walk ratchets: errors at a value that did not change are dropped. Old and new are
correlated through properties, map values and lists of type map; what is inside a combinator or an
atomic list is never correlated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quarterdeck.wire import gostyle
from quarterdeck.wire.fielderror import ErrorKind
from quarterdeck.wire.gostyle import json_text
from quarterdeck.wire.jsonvalue import same

from . import number
from .correlation import old_items, unchanged
from .document import type_name
from .formats import checker, formats_of_type
from .issue import Findings, Issue
from .node import ABSENT, Absent, SchemaNode
from .regex import RegexError, compile_regex

_TYPE_META: Final = ("apiVersion", "kind")


def explain(node: SchemaNode, value: Any, old: Any = ABSENT, *, path: str = "") -> Findings:
    """Everything the schema has against `value`; `old` is the stored value on an update."""
    found = _check(node, value, path, old)
    if found.issues and old is not ABSENT and unchanged(node, old, value):
        return Findings(matches=found.matches)
    return found


def _check(node: SchemaNode, value: Any, path: str, old: Any = ABSENT) -> Findings:
    found = Findings()
    if value is None:
        if node.types and not node.nullable:
            found.add(_type_issue(path, ",".join(node.types), "null"))
        else:
            found.matches += 1
        found.add(_enum_issue(node, None, path))
        return found
    if node.types or node.format:
        issue = _check_type(node, value, path)
        found.add(issue)
        found.matches += 1 if issue else 2
    found.merge(_combined(node, value, path))
    kind = type(value)
    if kind is str:
        found.add(_string_issue(node, value, path))
        found.matches += 1
        check = checker(node.format) if node.format else None
        if check is not None:
            if not check(value):
                found.add(_type_issue(path, node.format, value))
            found.matches += 1
    elif kind is int or kind is float:
        _check_number(node, value, path, found)
        found.matches += 2
    elif kind is list:
        _check_list(node, value, path, old, found)
        found.matches += 2
    found.add(_enum_issue(node, value, path))
    found.matches += 1
    if kind is dict:
        _check_object(node, value, path, old, found)
        found.matches += 1
    found.matches += 1
    return found


# Types


def _type_issue(path: str, expected: str, actual: str) -> Issue:
    message = f"{path} in body must be of type {expected}: {gostyle.quote(actual)}"
    return Issue(message, ErrorKind.TYPE_INVALID, path, actual)


def _check_type(node: SchemaNode, value: Any, path: str) -> Issue | None:
    types, wanted = node.types, node.format
    actual = type_name(value)
    matches = (
        actual in types
        or (actual == "integer" and "number" in types)
        or (actual == "number" and "integer" in types and number.is_json_integer(number.as_float(value)))
    )
    textual = actual in ("string", "array")
    if wanted and not textual:
        native = {"integer": "int64", "number": "float64"}.get(actual, "")
        if not matches and native != wanted:
            return _type_issue(path, wanted, native)
    if wanted and textual and "number" not in types and "integer" not in types:
        return None  # the format decides; upstream lets lists through here as well
    return None if matches else _type_issue(path, ",".join(types), actual)


# Scalars


def _string_issue(node: SchemaNode, value: str, path: str) -> Issue | None:
    limit = node.max_length
    if limit is not None and len(value) > limit:
        message = f"{path} in body should be at most {limit} chars long"
        return Issue(message, ErrorKind.TOO_LONG, path, value, limit)
    limit = node.min_length
    if limit is not None and len(value) < limit:
        return Issue(f"{path} in body should be at least {limit} chars long", path=path, value=value)
    if node.pattern:
        try:
            matched = compile_regex(node.pattern)(value)
            shown = node.pattern
        except RegexError as error:
            matched, shown = False, f"{node.pattern}, but pattern is invalid: {error}"
        if not matched:
            return Issue(f"{path} in body should match '{shown}'", path=path, value=value)
    return None


def _check_number(node: SchemaNode, value: int | float, path: str, found: Findings) -> None:
    native: int | float = value if number.is_int64(value) else number.as_float(value)
    in_range = range_check(node)
    found.add(_range_issue(node, in_range, native, "Checked", path))
    for limit, name, check in (
        (node.multiple_of, "MultipleOf", _multiple_issue),
        (node.minimum, "Minimum boundary", _minimum_issue),
        (node.maximum, "Maximum boundary", _maximum_issue),
    ):
        if limit is None:
            continue
        boundary = _range_issue(node, in_range, limit, name, path)
        found.add(boundary)
        if boundary is None and type(native) is int:
            found.add(check(node, native, truncated(limit), path))
        else:
            found.add(check(node, float(native), limit, path))


def range_check(node: SchemaNode) -> Callable[[int | float], bool] | None:
    if node.types == ("integer",):
        low, high = (
            (number.INT32_MIN, number.INT32_MAX)
            if node.format == "int32"
            else (number.INT64_MIN, number.INT64_MAX)
        )
        return lambda value: value == value and low <= value <= high and int(value) == value
    if node.types == ("number",) and node.format == "float":
        return number.fits_float32
    return None


def _range_issue(
    node: SchemaNode, in_range: Callable[[int | float], bool] | None, value: int | float, name: str, path: str
) -> Issue | None:
    if in_range is None or in_range(value):
        return None
    known = formats_of_type(node.types)
    form = f"with format {node.format}" if node.format in known else "(default format)"
    return Issue(f"{name} value must be of type {node.types[0]} {form} in {path}")


def truncated(limit: float) -> int:
    """Go's int64(float64): towards zero; what does not fit is the smallest int64."""
    if limit != limit or not number.INT64_MIN <= limit < 2.0**63:
        return number.INT64_MIN
    return int(limit)


def _multiple_issue(node: SchemaNode, value: int | float, factor: int | float, path: str) -> Issue | None:
    if factor <= 0:
        message = f"factor MultipleOf declared for {path} must be positive: {number.text(factor)}"
        return Issue(message, path=path, value=factor)
    if type(value) is int:
        is_multiple = value % factor == 0
    else:
        is_multiple = number.is_json_integer(1 / factor * value if factor < 1 else value / factor)
    if is_multiple:
        return None
    message = f"{path} in body should be a multiple of {number.text(factor)}"
    return Issue(message, path=path, value=value)


def _minimum_issue(node: SchemaNode, value: int | float, limit: int | float, path: str) -> Issue | None:
    if value > limit or (value == limit and not node.exclusive_minimum):
        return None
    words = "greater than" if node.exclusive_minimum else "greater than or equal to"
    return Issue(f"{path} in body should be {words} {number.text(limit)}", path=path, value=value)


def _maximum_issue(node: SchemaNode, value: int | float, limit: int | float, path: str) -> Issue | None:
    if value < limit or (value == limit and not node.exclusive_maximum):
        return None
    words = "less than" if node.exclusive_maximum else "less than or equal to"
    return Issue(f"{path} in body should be {words} {number.text(limit)}", path=path, value=value)


def _enum_issue(node: SchemaNode, value: Any, path: str) -> Issue | None:
    if not node.enum or any(enum_equal(value, item) for item in node.enum):
        return None
    shown = " ".join(_go_value(item) for item in node.enum)
    message = f"{path} in body should be one of [{shown}]"
    return Issue(message, ErrorKind.NOT_SUPPORTED, path, value, allowed=node.enum)


def enum_equal(value: Any, item: Any) -> bool:
    """Whether `value` is the enum's `item` after Go's conversion to the item's type; null never is."""
    if value is None or item is None:
        return False
    if number.is_number(value) and number.is_number(item):
        if number.is_int64(item) and not number.is_int64(value):
            return truncated(number.as_float(value)) == item
        if number.is_int64(item):
            return value == item
        return number.as_float(value) == number.as_float(item)
    if type(value) is int and type(item) is str:  # a Go integer converts to the character of that code
        return len(item) == 1 and ord(item) == value
    return same(value, item)


def _go_value(value: Any) -> str:
    """Only to tell enums apart in duplicate detection; never shown."""
    return value if isinstance(value, str) else json_text(value)


# Containers


def _check_list(node: SchemaNode, value: list[Any], path: str, old: Any, found: Findings) -> None:
    if node.items is not None:
        earlier = old_items(node, old, value) if old is not ABSENT else None
        for index, item in enumerate(value):
            before = earlier[index] if earlier else ABSENT
            found.merge(explain(node.items, item, before, path=f"{path}[{index}]"))
    count = len(value)
    if node.min_items is not None and count < node.min_items:
        message = f"{path} in body should have at least {node.min_items} items"
        found.add(Issue(message, path=path, value=count))
    if node.max_items is not None and count > node.max_items:
        message = f"{path} in body should have at most {node.max_items} items"
        found.add(Issue(message, ErrorKind.TOO_MANY, path, count, node.max_items))


def _check_object(node: SchemaNode, value: dict[str, Any], path: str, old: Any, found: Findings) -> None:
    count = len(value)
    if node.min_properties is not None and count < node.min_properties:
        message = f"{path} in body should have at least {node.min_properties} properties"
        found.add(Issue(message, path=path, value=count))
    if node.max_properties is not None and count > node.max_properties:
        message = f"{path} in body should have at most {node.max_properties} properties"
        found.add(Issue(message, ErrorKind.TOO_MANY, path, count, node.max_properties))

    earlier: dict[str, Any] = old if type(old) is dict else {}
    properties = node.properties
    if node.additional_allowed is False:
        for key in value:
            if key not in properties:
                message = f"{path}.{key} in body is a forbidden property"
                found.add(Issue(message, path=path, value=key))
    elif node.additional is not None:
        for key, item in value.items():
            if key not in properties:
                before = _earlier(earlier, key, path)
                found.merge(explain(node.additional, item, before, path=f"{path}.{key}"))
    for key, child in properties.items():
        if key in value:
            before = _earlier(earlier, key, path)
            found.merge(explain(child, value[key], before, path=f"{path}.{key}" if path else key))
    for key in node.required:
        if key not in value:
            name = f"{path}.{key}"
            found.add(Issue(f"{name} in body is required", ErrorKind.REQUIRED, name))


def _earlier(old: dict[str, Any], key: str, path: str) -> Any | Absent:
    if not path and key in _TYPE_META:
        return ABSENT
    return old.get(key, ABSENT)


# Combinators


def _combined(node: SchemaNode, value: Any, path: str) -> Findings:
    found = Findings(matches=2)
    shown = gostyle.quote(path)
    if node.any_of:
        best: Findings | None = None
        for alternative in node.any_of:
            result = _check(alternative, value, path)
            if not result.issues:
                best = result
                break
            if best is None or result.matches > best.matches:
                best = result
        assert best is not None
        if best.issues:
            found.add(Issue(f"{shown} must validate at least one schema (anyOf)"))
        found.merge(best)
    if node.one_of:
        found.merge(_one_of(node, value, path, shown))
    if node.all_of:
        results = [_check(part, value, path) for part in node.all_of]
        for result in results:
            found.merge(result)
        passed = sum(1 for result in results if not result.issues)
        if passed < len(results):
            end = "" if passed else ". None validated"
            found.add(Issue(f"{shown} must validate all the schemas (allOf){end}"))
    if node.not_ is not None and not _check(node.not_, value, path).issues:
        found.add(Issue(f"{shown} must not validate the schema (not)"))
    return found


def _one_of(node: SchemaNode, value: Any, path: str, shown: str) -> Findings:
    found = Findings()
    passed: list[Findings] = []
    best: Findings | None = None
    for alternative in node.one_of:
        result = _check(alternative, value, path)
        if not result.issues:
            passed.append(result)
            best = None
        elif not passed and (best is None or result.matches > best.matches):
            best = result
    if len(passed) == 1:
        found.merge(passed[0])
        return found
    end = f"Found {len(passed)} valid alternatives" if passed else "Found none valid"
    found.add(Issue(f"{shown} must validate one and only one schema (oneOf). {end}"))
    if best is not None:
        found.merge(best)
    return found
