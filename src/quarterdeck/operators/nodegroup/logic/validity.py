"""Does a v1 document hold what its schema demands?

Used for one purpose: a restored round trip (``roundtrip``) must not carry values past the schema that the
API server checked. ``violations`` says where a document breaks the value rules of the schema; it is not a
replacement for the API server's validation and produces no messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from quarterdeck.operators.nodegroup import names

from .shape import schema

Document = dict[str, Any]
Violation = tuple[str, str]
"""Path and the schema keyword that does not hold."""


def violations(document: Document) -> set[Violation]:
    """Every broken rule of ``spec`` and ``status`` of a v1 document."""
    properties = schema(names.V1)["properties"]
    return {
        found
        for root in ("spec", "status")
        if root in document
        for found in _broken(properties[root], document[root], root)
    }


def _broken(node: Mapping[str, Any], value: Any, path: str) -> Iterator[Violation]:
    for keyword, rule in node.items():
        check = _CHECKS.get(keyword)
        if check is not None and not check(rule, value):
            yield path, keyword
    if type(value) is dict:
        properties = node.get("properties", {})
        for key, item in value.items():
            if key in properties:
                yield from _broken(properties[key], item, f"{path}.{key}")
    elif type(value) is list and "items" in node:
        for index, item in enumerate(value):
            yield from _broken(node["items"], item, f"{path}[{index}]")


def _holds(node: Mapping[str, Any], value: Any) -> bool:
    return next(_broken(node, value, ""), None) is None


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_CHECKS: Final[dict[str, Any]] = {
    "type": lambda rule, value: type(value) in _KINDS[rule],
    "enum": lambda rule, value: value in rule,
    "pattern": lambda rule, value: type(value) is not str or _pattern(rule).search(value) is not None,
    "minimum": lambda rule, value: not _is_number(value) or value >= rule,
    "maximum": lambda rule, value: not _is_number(value) or value <= rule,
    "minLength": lambda rule, value: type(value) is not str or len(value) >= rule,
    "maxLength": lambda rule, value: type(value) is not str or len(value) <= rule,
    "minItems": lambda rule, value: type(value) is not list or len(value) >= rule,
    "required": lambda rule, value: type(value) is not dict or all(key in value for key in rule),
    "oneOf": lambda rule, value: sum(_holds(branch, value) for branch in rule) == 1,
    "anyOf": lambda rule, value: any(_holds(branch, value) for branch in rule),
    "allOf": lambda rule, value: all(_holds(branch, value) for branch in rule),
    "not": lambda rule, value: not _holds(rule, value),
}
