"""Does a v1 document hold what its schema demands?

Used for one purpose: a restored round trip (``roundtrip``) must not carry values past the schema that the
API server checked. It is no replacement for the API server's validation and produces no messages:
``is_valid`` says yes or no, fast; ``violations`` says where, for the rare document that is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from quarterdeck.operators.nodegroup import names

from .shape import schema
from .structure import structure_of

Document = dict[str, Any]
Holds = Callable[[Any], bool]
Violation = tuple[str, str]
"""Path and the schema keyword that does not hold."""

_ROOTS: Final = ("spec", "status")


def is_valid(document: Document) -> bool:
    """Whether ``spec`` and ``status`` of a v1 document keep every rule of the schema; ``null`` never does."""
    try:
        for root in _ROOTS:
            if root in document:
                msgspec.convert(document[root], _structure(root))
                if not _logic(root)(document[root]):
                    return False
    except msgspec.ValidationError:
        return False
    return True


@cache
def _structure(root: str) -> Any:
    return structure_of(schema(names.V1)["properties"][root], strict=True)


@cache
def _logic(root: str) -> Holds:
    """What a structure cannot say: ``oneOf`` and its kin, wherever they are."""
    return _compile_logic(schema(names.V1)["properties"][root]) or (lambda _: True)


def _compile_logic(node: Mapping[str, Any]) -> Holds | None:
    checks = [_RULES[keyword](rule) for keyword, rule in node.items() if keyword in _LOGIC]
    below = {key: _compile_logic(child) for key, child in node.get("properties", {}).items()}
    children = [(key, check) for key, check in below.items() if check is not None]
    if node.get("x-kubernetes-int-or-string"):
        return None  # its anyOf says what the structure said
    if children:
        checks.append(_children(children))
    each = _compile_logic(node["items"]) if "items" in node else None
    if each is not None:
        checks.append(_items(each))
    return _all(checks) if checks else None


def _children(checks: Sequence[tuple[str, Holds]]) -> Holds:
    def holds(value: Any) -> bool:
        for key, check in checks:  # noqa: SIM110  all() over a generator costs twice as much
            if key in value and not check(value[key]):
                return False
        return True

    return holds


def violations(document: Document) -> set[Violation]:
    """Every broken rule of ``spec`` and ``status`` of a v1 document."""
    properties = schema(names.V1)["properties"]
    return {
        found
        for root in _ROOTS
        if root in document
        for found in _broken(properties[root], document[root], root)
    }


def _broken(node: Mapping[str, Any], value: Any, path: str) -> Iterator[Violation]:
    for keyword, rule in node.items():
        if keyword in _RULES and not _RULES[keyword](rule)(value):
            yield path, keyword
    if type(value) is dict:
        properties = node.get("properties", {})
        for key, item in value.items():
            if key in properties:
                yield from _broken(properties[key], item, f"{path}.{key}")
    elif type(value) is list and "items" in node:
        for index, item in enumerate(value):
            yield from _broken(node["items"], item, f"{path}[{index}]")


# -- rules compiled to functions -----------------------------------------------------------------------


def _compile(node: Mapping[str, Any]) -> Holds:
    checks = [_RULES[keyword](rule) for keyword, rule in node.items() if keyword in _RULES]
    if node.get("properties"):
        checks.append(_properties({key: _compile(child) for key, child in node["properties"].items()}))
    if "items" in node:
        checks.append(_items(_compile(node["items"])))
    return _all(checks)


def _all(checks: Sequence[Holds]) -> Holds:
    if len(checks) == 1:
        return checks[0]

    def holds(value: Any) -> bool:
        for check in checks:  # noqa: SIM110  all() over a generator costs twice as much
            if not check(value):
                return False
        return True

    return holds


def _properties(checks: Mapping[str, Holds]) -> Holds:
    known = dict(checks).get

    def holds(value: Any) -> bool:
        if type(value) is dict:
            for key, item in value.items():
                check = known(key)
                if check is not None and not check(item):
                    return False
        return True

    return holds


def _items(check: Holds) -> Holds:
    return lambda value: type(value) is not list or all(map(check, value))


def _type(rule: str) -> Holds:
    kinds = _KINDS[rule]
    if len(kinds) == 1:
        kind = kinds[0]
        return lambda value: type(value) is kind
    return lambda value: type(value) in kinds


def _enum(rule: Sequence[Any]) -> Holds:
    return lambda value: value in rule


def _pattern(rule: str) -> Holds:
    search = re.compile(rule, re.ASCII).search
    return lambda value: type(value) is not str or search(value) is not None


def _required(rule: Sequence[str]) -> Holds:
    keys = frozenset(rule)
    return lambda value: type(value) is not dict or value.keys() >= keys


def _one_of(rule: Sequence[Mapping[str, Any]]) -> Holds:
    branches = [_compile(branch) for branch in rule]
    return lambda value: sum([branch(value) for branch in branches]) == 1


def _any_of(rule: Sequence[Mapping[str, Any]]) -> Holds:
    branches = [_compile(branch) for branch in rule]
    return lambda value: any(branch(value) for branch in branches)


def _not(rule: Mapping[str, Any]) -> Holds:
    branch = _compile(rule)
    return lambda value: not branch(value)


def _minimum(rule: float) -> Holds:
    return lambda value: type(value) not in _NUMBERS or value >= rule


def _maximum(rule: float) -> Holds:
    return lambda value: type(value) not in _NUMBERS or value <= rule


def _size(kind: type[str] | type[list[Any]], *, least: int = 0, most: float = float("inf")) -> Holds:
    return lambda value: type(value) is not kind or least <= len(value) <= most


_LOGIC: Final = ("oneOf", "anyOf", "not")
_NUMBERS: Final = (int, float)
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": _NUMBERS,
}
_RULES: Final[dict[str, Callable[[Any], Holds]]] = {
    "type": _type,
    "enum": _enum,
    "pattern": _pattern,
    "minimum": _minimum,
    "maximum": _maximum,
    "minLength": lambda rule: _size(str, least=rule),
    "maxLength": lambda rule: _size(str, most=rule),
    "minItems": lambda rule: _size(list, least=rule),
    "required": _required,
    "oneOf": _one_of,
    "anyOf": _any_of,
    "not": _not,
}
