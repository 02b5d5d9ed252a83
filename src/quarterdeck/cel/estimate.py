"""Sizes and costs as ranges, and the cost rules of list and set functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from quarterdeck.cel.syntax.tree import Expr, Literal
from quarterdeck.cel.type.celtype import CelType
from quarterdeck.cel.type.schema import Shape
from quarterdeck.cel.value.value import Opaque, OptionalValue, Value

Path = tuple[str, ...]
"""A place inside a variable, such as ``("self", "items", "@items")``."""

MAX: Final = (1 << 64) - 1
STRING_FACTOR: Final = 0.1
REGEX_FACTOR: Final = 0.25
LIST_BASE: Final = 10
MAP_BASE: Final = 30
STRUCT_BASE: Final = 40


def clamp(number: int) -> int:
    """Saturating uint64."""
    return min(number, MAX)


def scale(number: int, factor: float) -> int:
    """`ceil(number * factor)` in float arithmetic, saturating."""
    product = float(number) * factor
    return MAX if product >= 2.0**64 else math.ceil(product)


class Range(NamedTuple):
    """Least and most of a size or a cost."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        return Range(clamp(self.low + other.low), clamp(self.high + other.high))

    def times(self, other: Range) -> Range:
        return Range(clamp(self.low * other.low), clamp(self.high * other.high))

    def scaled(self, factor: float) -> Range:
        return Range(scale(self.low, factor), scale(self.high, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


ZERO: Final = Range(0, 0)
ONE: Final = Range(1, 1)
UNKNOWN: Final = Range(0, MAX)


def fixed(number: int) -> Range:
    """A range of one value."""
    return Range(number, number)


class Sizer:
    """Sizes of places inside the variables, from their shapes."""

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self._shapes = shapes
        # Paths that start nowhere are looked up from the only root there is, as upstream does.
        self._root = next(iter(shapes.values()), None)

    def size(self, path: Path | None) -> Range | None:
        """Size at a path such as ("self", "items", "@items"), None when unknown."""
        if not path:
            return None
        shape = self._shapes.get(path[0], self._root)
        for name in path[1:]:
            if shape is None:
                return None
            if name in ("@items", "@values"):
                shape = shape.element
            elif name == "@keys":
                shape = shape.key
            else:
                shape = None if shape.fields is None else shape.fields.get(name)
        return None if shape is None else Range(0, shape.max_elements)


class Node:
    """An operand as the rules of functions see it."""

    __slots__ = ("_sizer", "derived", "expr", "path", "type")

    def __init__(
        self, sizer: Sizer, path: Path | None, type: CelType, expr: Expr | None, derived: Range | None
    ) -> None:
        self._sizer = sizer
        self.path = path
        self.type = type
        self.expr = expr
        self.derived = derived

    @property
    def size(self) -> Range:
        """Size of the operand, unknown if need be."""
        return self.derived or self._sizer.size(self.path) or UNKNOWN

    def element(self) -> Node | None:
        """An element, for containers."""
        if not self.type.params:
            return None
        path = None if self.path is None else (*self.path, "@items")
        return Node(self._sizer, path, self.type.params[0], None, None)

    def int_literal(self, default: int) -> int:
        """Value of an int literal, at least 0."""
        value = self.expr.value if isinstance(self.expr, Literal) else None
        return max(value, 0) if type(value) is int else default


class Estimate(NamedTuple):
    """Static cost of a call and the size of its result."""

    cost: Range
    size: Range | None = None


def actual_size(value: Value) -> int:
    """Size of a run-time value as cost counts it."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    if isinstance(value, OptionalValue):
        return actual_size(value.value) if value.has_value() else 1
    if isinstance(value, Opaque):
        size = value.cost_size()
        return 1 if size is None else size
    return 1


def _allocating(factor: float, size: Range) -> Estimate:
    return Estimate(size.scaled(factor).plus(ONE).plus(fixed(LIST_BASE)), size)


def list_slice(target: Node | None, args: list[Node]) -> Estimate | None:
    """`list.slice(a, b)`."""
    if target is None:
        return None
    start = args[0].int_literal(0)
    end = args[1].int_literal(target.size.high)
    return _allocating(1, fixed((end - start) % (MAX + 1)))


def list_flatten(target: Node | None, args: list[Node]) -> Estimate | None:
    """`list.flatten([depth])`."""
    if target is None:
        return None
    return _allocating(float(args[0].int_literal(MAX)) if args else 1.0, target.size)


def lists_range(target: Node | None, args: list[Node]) -> Estimate | None:
    """`lists.range(n)`."""
    return _allocating(1, fixed(args[0].int_literal(MAX)))


def list_reverse(target: Node | None, args: list[Node]) -> Estimate | None:
    """`list.reverse()`."""
    return None if target is None else _allocating(1, target.size)


def list_distinct(target: Node | None, args: list[Node]) -> Estimate | None:
    """`list.distinct()`."""
    return None if target is None else _allocating(2, target.size.times(target.size))


def _sorting(node: Node, t: CelType) -> Estimate:
    factor = 2 + (STRING_FACTOR if t.kind in ("string", "bytes") else 0)
    return _allocating(factor, node.size.times(node.size))


def list_sort(t: CelType) -> Callable[[Node | None, list[Node]], Estimate | None]:
    """`list.sort()` of elements of type `t`."""
    return lambda target, args: None if target is None else _sorting(target, t)


def list_sort_by(t: CelType) -> Callable[[Node | None, list[Node]], Estimate | None]:
    """`list.sortBy(...)` with keys of type `t`."""
    return lambda target, args: _sorting(args[0], t)


def sets(factor: int) -> Callable[[Node | None, list[Node]], Estimate | None]:
    """`sets.*(a, b)`."""
    return lambda target, args: Estimate(args[0].size.times(args[1].size).scaled(factor).plus(ONE))


def _track(factor: float, size: int) -> int:
    return int(float(size) * factor) + 1 + LIST_BASE


def track_output(args: list[Value], result: Value) -> int:
    """Cost of building the result list."""
    return _track(1, actual_size(result))


def track_flatten(args: list[Value], result: Value) -> int:
    """Cost of flattening."""
    return _track(float(args[1]) if len(args) == 2 else 1.0, actual_size(args[0]))


def track_self_compare(index: int) -> Callable[[list[Value], Value], int]:
    """Cost of comparing all elements of an argument with each other."""

    def cost(args: list[Value], result: Value) -> int:
        items = args[index]
        factor = 2.0
        if items and isinstance(items[0], (str, bytes)):
            factor += STRING_FACTOR
        return _track(factor, len(items) ** 2)

    return cost


def track_sets(factor: int) -> Callable[[list[Value], Value], int]:
    """Cost of a set operation."""
    return lambda args, result: 1 + int(float(actual_size(args[0]) * actual_size(args[1])) * factor)
