"""Rules of a schema as functions: does a document keep them?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Holds = Callable[[Any], bool]


def compiled(node: Mapping[str, Any]) -> Holds:
    """Every rule of a schema and of what is below it; fields the schema does not know are not looked at."""
    checks: list[Holds] = []
    if node.get("properties"):  # first: by its fields most branches of a ``oneOf`` are told apart
        checks.append(_fields({key: compiled(child) for key, child in node["properties"].items()}))
    checks += [rule_of(keyword, rule) for keyword, rule in node.items() if keyword in KEYWORDS]
    if "items" in node:
        checks.append(_items(compiled(node["items"])))
    return _all(checks)


def combinations(node: Mapping[str, Any]) -> Holds | None:
    """``oneOf`` and its kin, of a schema and everything below it: what a type cannot say."""
    if node.get("x-kubernetes-int-or-string"):
        return None  # its anyOf says what the type said
    checks = [rule_of(keyword, node[keyword]) for keyword in ("oneOf", "anyOf", "not") if keyword in node]
    below = {key: combinations(child) for key, child in node.get("properties", {}).items()}
    if children := {key: check for key, check in below.items() if check is not None}:
        checks.append(_fields(children))
    each = combinations(node["items"]) if "items" in node else None
    if each is not None:
        checks.append(_items(each))
    return _all(checks) if checks else None


def python_pattern(pattern: str) -> str:
    """A pattern of a schema, which is Go's, for Python: ASCII digits, and ``$`` is the very end."""
    return f"(?a){pattern[:-1]}\\Z" if pattern.endswith("$") else f"(?a){pattern}"


def rule_of(keyword: str, rule: Any) -> Holds:
    """One of the ``KEYWORDS``."""
    return _RULES[keyword](rule)


def _all(checks: Sequence[Holds]) -> Holds:
    if len(checks) == 1:
        return checks[0]

    def holds(value: Any) -> bool:
        for check in checks:  # noqa: SIM110  all() over a generator costs twice as much
            if not check(value):
                return False
        return True

    return holds


def _fields(checks: Mapping[str, Holds]) -> Holds:
    pairs = tuple(checks.items())
    if len(pairs) == 1:
        ((only, check),) = pairs
        return lambda value: type(value) is not dict or only not in value or check(value[only])

    def holds(value: Any) -> bool:
        if type(value) is dict:
            for key, check in pairs:
                if key in value and not check(value[key]):
                    return False
        return True

    return holds


def _items(check: Holds) -> Holds:
    return lambda value: type(value) is not list or all(map(check, value))


def _values(node: Mapping[str, Any]) -> Holds:
    check = compiled(node)
    return lambda value: (
        type(value) is not dict or all(item is None or check(item) for item in value.values())
    )


def _required(keys: Sequence[str]) -> Holds:
    wanted = frozenset(keys)
    return lambda value: type(value) is not dict or wanted <= value.keys()


def _one_of(nodes: Sequence[Mapping[str, Any]]) -> Holds:
    branches = [compiled(node) for node in nodes]
    return lambda value: sum([branch(value) for branch in branches]) == 1


def _any_of(nodes: Sequence[Mapping[str, Any]]) -> Holds:
    branches = [compiled(node) for node in nodes]
    return lambda value: any(branch(value) for branch in branches)


def _not(node: Mapping[str, Any]) -> Holds:
    branch = compiled(node)
    return lambda value: not branch(value)


def _type(rule: str) -> Holds:
    kinds = _KINDS[rule]
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
    "required": _required,
    "enum": _enum,
    "pattern": _pattern,
    "minimum": _minimum,
    "maximum": _maximum,
    "minLength": lambda rule: _size(str, least=rule),
    "maxLength": lambda rule: _size(str, most=rule),
    "minItems": lambda rule: _size(list, least=rule),
    "additionalProperties": _values,
    "oneOf": _one_of,
    "anyOf": _any_of,
    "not": _not,
}
KEYWORDS: Final = frozenset(_RULES)
"""Keywords of a schema that are rules for values."""
