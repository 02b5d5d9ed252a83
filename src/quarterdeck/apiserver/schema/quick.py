"""The yes-or-no form of schema validation: one closure per node, built at first use.

Almost every object that is written is valid, so this is the path that counts. A closure knows the
ordinary values of its node; for all others (nulls, wrong types, odd formats) it asks `explain`, so the
two cannot disagree about the rare cases, and a property test holds them together on the common ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from . import number
from .explain import explain, range_check, truncated
from .formats import checker
from .node import INT_OR_STRING, SchemaNode
from .regex import RegexError, compile_regex

Check = Callable[[Any], bool]


def quick_check(node: SchemaNode) -> Check:
    """The check of a node: whether a value is valid, without ratcheting."""
    check: Check | None = node.compiled.get("check")
    if check is None:
        check = node.compiled["check"] = _combined(node, _plain(node))
    return check


def _slow(node: SchemaNode) -> Check:
    return lambda value: not explain(node, value).issues


def _combined(node: SchemaNode, plain: Check) -> Check:
    """`plain` and the combinators; a null is never held against them."""
    if not _has_combinators(node):
        return plain
    all_of = [quick_check(part) for part in node.all_of]
    any_of = [] if _repeats_types(node) else [quick_check(part) for part in node.any_of]
    if not (all_of or any_of or node.one_of or node.not_):
        return plain
    one_of = [quick_check(part) for part in node.one_of]
    negated = quick_check(node.not_) if node.not_ is not None else None

    def check(value: Any) -> bool:
        if not plain(value):
            return False
        if value is None:
            return True
        return (
            all(part(value) for part in all_of)
            and (not any_of or any(part(value) for part in any_of))
            and (not one_of or sum(part(value) for part in one_of) == 1)
            and (negated is None or not negated(value))
        )

    return check


def _repeats_types(node: SchemaNode) -> bool:
    """Whether anyOf only says "integer or string" once more, as generated schemas do."""
    return (
        node.types == INT_OR_STRING
        and all(
            part.types and not (part.format or part.enum or _has_limits(part) or _has_combinators(part))
            for part in node.any_of
        )
        and {part.type for part in node.any_of} == {"integer", "string"}
    )


def _has_combinators(node: SchemaNode) -> bool:
    return bool(node.all_of or node.any_of or node.one_of or node.not_)


def _plain(node: SchemaNode) -> Check:
    """The check of everything but combinators."""
    if _has_combinators(node):
        node = _without_combinators(node)
    slow = _slow(node)
    if node.types == ("object",) and not node.enum and not node.format:
        return _object(node, slow)
    if node.types == ("array",) and not node.enum and not node.format:
        return _list(node, slow)
    if node.types == ("string",):
        return _string(node, slow)
    if node.types == ("integer",):
        return _integer(node, slow)
    if node.types == ("boolean",) and not node.enum and not node.format:
        return lambda value: type(value) is bool or slow(value)
    if node.types == ("number",) and not node.enum:
        return _number(node, slow)
    if node.types == INT_OR_STRING and not (node.enum or node.format):
        return _int_or_string(node, slow)
    if not node.types and not node.enum and not node.format:
        return _untyped(node, slow)
    return slow


def _without_combinators(node: SchemaNode) -> SchemaNode:
    return msgspec.structs.replace(node, all_of=(), any_of=(), one_of=(), not_=None, compiled={})


def _has_limits(node: SchemaNode) -> bool:
    limits = (node.minimum, node.maximum, node.multiple_of, node.min_length, node.max_length)
    return bool(node.pattern) or any(limit is not None for limit in limits)


class _Children(dict[str, Check]):
    """Checks of an object's fields, compiled when a field first occurs; unknown fields pass."""

    __slots__ = ("_nodes",)

    def __init__(self, node: SchemaNode) -> None:
        super().__init__()
        self._nodes = node.properties

    def __missing__(self, key: str) -> Check:
        node = self._nodes.get(key)
        if node is None:
            return _accept
        check = self[key] = quick_check(node)
        return check


def _accept(value: Any) -> bool:
    return True


def _object(node: SchemaNode, slow: Check) -> Check:
    required = node.required
    least = node.min_properties if node.min_properties is not None else 0
    most = node.max_properties
    if node.additional_allowed is False or (node.additional is not None and node.properties):
        return slow
    if node.additional is not None:
        return _map(node, node.additional, slow)
    children = _Children(node)

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return slow(value)
        for key in required:
            if key not in value:
                return False
        if len(value) < least or (most is not None and len(value) > most):
            return False
        for key, item in value.items():  # noqa: SIM110  # a generator doubles the time
            if not children[key](item):
                return False
        return True

    return check


def _map(node: SchemaNode, values: SchemaNode, slow: Check) -> Check:
    required = node.required
    least = node.min_properties if node.min_properties is not None else 0
    most = node.max_properties
    item_check = quick_check(values)

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return slow(value)
        if len(value) < least or (most is not None and len(value) > most):
            return False
        return all(key in value for key in required) and all(map(item_check, value.values()))

    return check


def _list(node: SchemaNode, slow: Check) -> Check:
    least = node.min_items if node.min_items is not None else 0
    most = node.max_items
    item_check = quick_check(node.items) if node.items is not None else _accept

    def check(value: Any) -> bool:
        if type(value) is not list:
            return slow(value)
        if len(value) < least or (most is not None and len(value) > most):
            return False
        return all(map(item_check, value))

    return check


def _string(node: SchemaNode, slow: Check) -> Check:
    test = _string_test(node)
    if test is None:
        return slow
    if test is _accept:
        return lambda value: type(value) is str or slow(value)
    return lambda value: test(value) if type(value) is str else slow(value)


def _string_test(node: SchemaNode) -> Callable[[str], bool] | None:
    """The limits of strings as one function; None if the pattern does not compile."""
    tests: list[Callable[[str], bool]] = []
    if node.enum:
        tests.append(frozenset(item for item in node.enum if type(item) is str).__contains__)
    least, most = node.min_length, node.max_length
    if least is not None:
        tests.append(lambda value: len(value) >= least)
    if most is not None:
        tests.append(lambda value: len(value) <= most)
    if node.pattern:
        try:
            tests.append(compile_regex(node.pattern))
        except RegexError:
            return None
    format_check = checker(node.format) if node.format else None
    if format_check is not None:
        tests.append(format_check)
    if len(tests) < 2:
        return tests[0] if tests else _accept

    def test(value: str) -> bool:
        for each in tests:  # noqa: SIM110  # a generator doubles the time
            if not each(value):
                return False
        return True

    return test


def _integer(node: SchemaNode, slow: Check) -> Check:
    in_range = range_check(node)
    if in_range is None or node.multiple_of is not None or node.enum:
        return slow
    low, high = number.INT64_MIN, number.INT64_MAX
    if node.format == "int32":
        low, high = number.INT32_MIN, number.INT32_MAX
    if node.minimum is not None:
        if not in_range(node.minimum):
            return slow
        low = max(low, truncated(node.minimum) + node.exclusive_minimum)
    if node.maximum is not None:
        if not in_range(node.maximum):
            return slow
        high = min(high, truncated(node.maximum) - node.exclusive_maximum)
    return lambda value: low <= value <= high if type(value) is int else slow(value)


def _number(node: SchemaNode, slow: Check) -> Check:
    if node.minimum is not None or node.maximum is not None or node.multiple_of is not None:
        return slow
    if node.format == "float":
        return slow
    return lambda value: type(value) is float or type(value) is int or slow(value)


def _int_or_string(node: SchemaNode, slow: Check) -> Check:
    test = _string_test(node)
    if test is None or not (node.minimum is node.maximum is node.multiple_of is None):
        return slow
    return lambda value: test(value) if type(value) is str else number.is_int64(value) or slow(value)


def _untyped(node: SchemaNode, slow: Check) -> Check:
    """No type, no format, no enum: what the value is decides which limits apply."""
    has_object_part = bool(node.properties or node.required or node.additional_allowed is not None) or not (
        node.min_properties is None and node.max_properties is None
    )
    has_list_part = not (node.items is None and node.min_items is None and node.max_items is None)
    objects = _object(node, slow) if has_object_part else _accept
    lists = _list(node, slow) if has_list_part else _accept
    scalars = slow if _has_limits(node) else _accept

    def check(value: Any) -> bool:
        kind = type(value)
        if kind is dict:
            return objects(value)
        if kind is list:
            return lists(value)
        return value is None or scalars(value)

    return check
