"""Cost of the functions Kubernetes adds to CEL: static estimates and run-time cost, by function name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from quarterdeck.cel.estimate import (
    LIST_BASE,
    MAX,
    ONE,
    REGEX_FACTOR,
    STRING_FACTOR,
    STRUCT_BASE,
    Estimate,
    Node,
    Range,
    actual_size,
    fixed,
)
from quarterdeck.cel.value.value import Opaque, Value, check_extent

_NOMINAL: Final = frozenset(
    {
        "serviceAccount",
        "path",
        "group",
        "resource",
        "subresource",
        "namespace",
        "name",
        "allowed",
        "reason",
        "error",
        "errored",
        "masked",
        "prefixLength",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "format.named",
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
        "getScheme",
        "getHostname",
        "getHost",
        "getPort",
        "getEscapedPath",
        "getQuery",
    }
)
_TRAVERSING: Final = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"})
_PARSING: Final = frozenset({"cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"})
_AUTHORIZATION: Final = 350_000
_MAX_FORMAT: Final = 64
_MAX_NAME_REGEX: Final = 128
_FIXED_EQUALITY: Final = frozenset(
    {
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
        "net.IP",
        "net.CIDR",
    }
)
_ADDRESS: Final = Range(4, 16)


def estimate_call(function: str, id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    """Static cost of a call, None to use the standard rules."""
    if function in _NOMINAL:
        return Estimate(ONE)
    if function == "check":
        return Estimate(fixed(_AUTHORIZATION))
    if function in _TRAVERSING:
        return None if target is None else _traversal(target)
    if function in _PARSING or (function == "ip" and id != "cidr_ip"):
        return Estimate(args[0].size.scaled(STRING_FACTOR))
    if function == "ip":
        return Estimate(ONE)
    rule = _RULES.get(function)
    return None if rule is None else rule(id, target, args)


def _selector(length: Range) -> Range:
    requirements = length.scaled(0.5).scaled(LIST_BASE + STRUCT_BASE)
    return fixed(LIST_BASE).plus(length.scaled(STRING_FACTOR)).plus(requirements)


def _traversal(target: Node) -> Estimate:
    element = target.element()
    if element is None:
        return Estimate(target.size.scaled(STRING_FACTOR))
    cost = ONE
    if element.type.kind in ("string", "bytes"):
        cost = cost.plus(element.size.scaled(STRING_FACTOR))
    return Estimate(target.size.times(cost))


def _same_size_of_argument(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    size = args[0].size
    return Estimate(size.scaled(STRING_FACTOR), size)


def _same_size_of_target(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None:
        return None
    return Estimate(target.size.scaled(STRING_FACTOR), target.size)


def _replace(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.size, args[0].size, args[1].size
    most, kept_most = _longest(size.high, old.low, new.high)
    least, kept_least = _shortest(size.low, old.high, new.low)
    result = Range(least, most).times(new).plus(Range(kept_least, kept_most))
    return Estimate(size.scaled(2 * STRING_FACTOR), result)


def _longest(size: int, old: int, new: int) -> tuple[int, int]:
    """Replacements and kept characters of the longest result."""
    if old == 0:
        return min(size + 1, MAX), size
    if new <= old:
        return 0, size
    return math.ceil(float(size) / float(old)), 0


def _shortest(size: int, old: int, new: int) -> tuple[int, int]:
    if old == 0:
        return min(size + 1, MAX), size
    if old <= new:
        return 0, size
    return math.ceil(float(size) / float(old)), 0


def _split(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None:
        return None
    most = target.size.high
    if len(args) > 1:
        literal = getattr(args[1].expr, "value", None)
        if type(literal) is int:
            most = literal % (MAX + 1)
    return Estimate(target.size.scaled(2 * STRING_FACTOR), Range(0, most))


def _join(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None:
        return None
    count = target.size
    element = target.element()
    size = Range(0, 0) if element is None else count.times(element.size)
    if args:
        separators = Range(max(count.low - 1, 0), max(count.high - 1, 0))
        size = size.plus(args[0].size.times(separators))
    return Estimate(size.scaled(STRING_FACTOR), size)


def _find(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None or not args:
        return None
    text = target.size.plus(ONE).scaled(STRING_FACTOR)
    return Estimate(text.times(args[0].size.scaled(REGEX_FACTOR)), Range(0, target.size.high))


def _is_canonical(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    return Estimate(args[0].size.scaled(2 * STRING_FACTOR))


def _contains_ip(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    cost = _ADDRESS.plus(_ADDRESS).scaled(STRING_FACTOR)
    if id == "cidr_contains_ip_string":
        cost = cost.plus(args[0].size.scaled(STRING_FACTOR))
    return Estimate(cost)


def _contains_cidr(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    cost = _ADDRESS.plus(_ADDRESS).scaled(STRING_FACTOR)
    cost = cost.plus(_ADDRESS.scaled(STRING_FACTOR)).plus(ONE)
    if id == "cidr_contains_cidr_string":
        cost = cost.plus(args[0].size.scaled(STRING_FACTOR))
    return Estimate(cost)


def _validate(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    return Estimate(args[0].size.scaled(STRING_FACTOR).scaled(_MAX_NAME_REGEX * REGEX_FACTOR))


def _select(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    return Estimate(_selector(args[0].size)) if len(args) == 1 else None


def _equals(id: str, target: Node | None, args: list[Node]) -> Estimate | None:
    if len(args) != 2 or args[0].type != args[1].type:
        return None
    name = args[0].type.name
    if name in _FIXED_EQUALITY:
        return Estimate(ONE)
    if name == "kubernetes.NamedFormat":
        return Estimate(Range(1, _MAX_FORMAT).scaled(STRING_FACTOR))
    if name == "kubernetes.URL":
        most = 1 if args[1].derived is None else args[1].derived.high
        return Estimate(Range(1, most).scaled(STRING_FACTOR))
    return None


_RULES: Final[dict[str, Callable[[str, Node | None, list[Node]], Estimate | None]]] = {
    "fieldSelector": _select,
    "labelSelector": _select,
    "url": _same_size_of_argument,
    "jsonpatch.escapeKey": _same_size_of_argument,
    "lowerAscii": _same_size_of_target,
    "upperAscii": _same_size_of_target,
    "substring": _same_size_of_target,
    "trim": _same_size_of_target,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "ip.isCanonical": _is_canonical,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equals,
}


def run_cost(function: str, id: str, args: list[Value], result: Value) -> int | None:
    """Cost of a call that happened, None to use the standard rules."""
    if function in _NOMINAL or (function == "ip" and id == "cidr_ip"):
        return 1
    if function == "check":
        return _AUTHORIZATION
    if function in ("fieldSelector", "labelSelector"):
        return _selector(fixed(actual_size(args[1]))).high
    if function in _TRAVERSING:
        return traversal_cost(args[0]) if args else 0
    if (
        function in ("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey", "ip")
        or function in _PARSING
    ):
        return _tenth(args[0]) if args else None
    if function in ("replace", "split", "ip.isCanonical"):
        return math.ceil(actual_size(args[0]) * 2 * STRING_FACTOR)
    if function == "join":
        return math.ceil(actual_size(result) * 2 * STRING_FACTOR)
    if function in ("find", "findAll"):
        text = math.ceil((1.0 + actual_size(args[0])) * STRING_FACTOR)
        return text * math.ceil(actual_size(args[1]) * REGEX_FACTOR)
    if function == "containsIP":
        cost = math.ceil(2 * actual_size(args[0]) * STRING_FACTOR)
        return cost + (_tenth(args[1]) if id == "cidr_contains_ip_string" else 0)
    if function == "containsCIDR":
        size = actual_size(args[0])
        cost = math.ceil(2 * size * STRING_FACTOR) + math.ceil(size * STRING_FACTOR) + 1
        return cost + (_tenth(args[1]) if id == "cidr_contains_cidr_string" else 0)
    if function == "validate":
        text = math.ceil((1.0 + actual_size(args[1])) * STRING_FACTOR)
        return text * math.ceil(getattr(args[0], "regex_size", 0) * REGEX_FACTOR)
    if function == "_==_" and isinstance(args[0], Opaque):
        return 1
    return None


def _tenth(value: Value) -> int:
    return math.ceil(actual_size(value) * STRING_FACTOR)


def traversal_cost(value: Value) -> int:
    """Cost of walking through a value."""
    check_extent(value)
    return _traversal_cost(value)


def _traversal_cost(value: Value) -> int:
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "surrogatepass")) * STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * STRING_FACTOR)
    if isinstance(value, list):
        return sum(map(_traversal_cost, value))
    if isinstance(value, dict):
        return sum(_traversal_cost(k) + _traversal_cost(v) for k, v in value.items())
    return 1
