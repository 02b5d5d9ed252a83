"""Rules of a schema as functions: does a value keep them?

The same rules hold for documents and for the structs that ``structure`` makes of schemas; the two differ in
how a field is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

Holds = Callable[[Any], bool]


class Rules:
    """Compiles rules for objects of one form: documents, or structs."""

    def __init__(self, form: type, read: Callable[[Any, str], Any]) -> None:
        """``read`` gives the field of an object, ``UNSET`` if it is absent."""
        self._form: Final = form
        self._read: Final = read

    def logic(self, node: Mapping[str, Any]) -> Holds | None:
        """``oneOf`` and its kin, of a schema and everything below it."""
        if node.get("x-kubernetes-int-or-string"):
            return None  # its anyOf says what the structure said
        checks = [self.rule(keyword, rule) for keyword, rule in node.items() if keyword in _LOGIC]
        below = {key: self.logic(child) for key, child in node.get("properties", {}).items()}
        children = {key: check for key, check in below.items() if check is not None}
        if children:
            checks.append(self._properties(children))
        each = self.logic(node["items"]) if "items" in node else None
        if each is not None:
            checks.append(_items(each))
        return _all(checks) if checks else None

    def rule(self, keyword: str, rule: Any) -> Holds:
        """One of the ``KEYWORDS``."""
        match keyword:
            case "oneOf":
                return _one_of([self._compile(branch) for branch in rule])
            case "anyOf":
                return _any_of([self._compile(branch) for branch in rule])
            case "not":
                return _not(self._compile(rule))
            case "required":
                return self._required(rule)
        return _SIMPLE[keyword](rule)

    def _compile(self, node: Mapping[str, Any]) -> Holds:
        checks = [self.rule(keyword, rule) for keyword, rule in node.items() if keyword in KEYWORDS]
        if node.get("properties"):
            children = {key: self._compile(child) for key, child in node["properties"].items()}
            checks.append(self._properties(children))
        if "items" in node:
            checks.append(_items(self._compile(node["items"])))
        return _all(checks)

    def _properties(self, checks: Mapping[str, Holds]) -> Holds:
        form, read, pairs = self._form, self._read, tuple(checks.items())

        def holds(value: Any) -> bool:
            if isinstance(value, form):
                for key, check in pairs:
                    item = read(value, key)
                    if item is not UNSET and not check(item):
                        return False
            return True

        return holds

    def _required(self, keys: Sequence[str]) -> Holds:
        form, read = self._form, self._read
        return lambda value: not isinstance(value, form) or not any(read(value, key) is UNSET for key in keys)


def python_pattern(pattern: str) -> str:
    """A pattern of a schema, which is Go's, for Python: ASCII digits, and ``$`` is the very end."""
    return f"(?a){pattern[:-1]}\\Z" if pattern.endswith("$") else f"(?a){pattern}"


def _all(checks: Sequence[Holds]) -> Holds:
    if len(checks) == 1:
        return checks[0]

    def holds(value: Any) -> bool:
        for check in checks:  # noqa: SIM110  all() over a generator costs twice as much
            if not check(value):
                return False
        return True

    return holds


def _items(check: Holds) -> Holds:
    return lambda value: type(value) is not list or all(map(check, value))


def _one_of(branches: Sequence[Holds]) -> Holds:
    return lambda value: sum([branch(value) for branch in branches]) == 1


def _any_of(branches: Sequence[Holds]) -> Holds:
    return lambda value: any(branch(value) for branch in branches)


def _not(branch: Holds) -> Holds:
    return lambda value: not branch(value)


def _type(rule: str) -> Holds:
    kinds = _KINDS[rule]
    if len(kinds) == 1:
        kind = kinds[0]
        return lambda value: type(value) is kind
    return lambda value: type(value) in kinds


def _enum(rule: Sequence[Any]) -> Holds:
    return lambda value: value in rule


def _pattern(rule: str) -> Holds:
    search = re.compile(python_pattern(rule)).search
    return lambda value: type(value) is not str or search(value) is not None


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
_SIMPLE: Final[dict[str, Callable[[Any], Holds]]] = {
    "type": _type,
    "enum": _enum,
    "pattern": _pattern,
    "minimum": _minimum,
    "maximum": _maximum,
    "minLength": lambda rule: _size(str, least=rule),
    "maxLength": lambda rule: _size(str, most=rule),
    "minItems": lambda rule: _size(list, least=rule),
}
KEYWORDS: Final = frozenset({*_LOGIC, "required", *_SIMPLE})
"""Keywords of a schema that are rules for values."""
DOCUMENTS: Final = Rules(dict, lambda value, key: value.get(key, UNSET))
STRUCTS: Final = Rules(msgspec.Struct, lambda value, key: getattr(value, key, UNSET))
