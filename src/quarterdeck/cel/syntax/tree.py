"""Syntax tree of CEL expressions.

Macros are already expanded: `has()` is a test-only `Select`, the quantifiers and `map`/`filter` are
`Comprehension`s. Node ids are unique per tree; the checker keys its results by them. Offsets point at the
character upstream reports for the node (the operator, the opening bracket, the dot).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quarterdeck.cel.value.value import Value

ACCUMULATOR: Final = "@result"
UNUSED: Final = "#unused"


class Expr:
    """Base of all nodes."""

    __slots__ = ("id", "offset")

    def __init__(self, id: int, offset: int) -> None:
        self.id = id
        self.offset = offset

    def children(self) -> Iterator[Expr]:
        """Direct sub-expressions in evaluation order."""
        return iter(())


class Unspecified(Expr):
    """Placeholder left behind by a reported problem."""

    __slots__ = ()


class Literal(Expr):
    """Constant: bool, int, UInt, float, str, bytes or None."""

    __slots__ = ("value",)

    def __init__(self, id: int, offset: int, value: Value) -> None:
        super().__init__(id, offset)
        self.value = value


class Ident(Expr):
    """Variable or type name; after checking the fully qualified one."""

    __slots__ = ("name",)

    def __init__(self, id: int, offset: int, name: str) -> None:
        super().__init__(id, offset)
        self.name = name


class Select(Expr):
    """`operand.field`, or `has(operand.field)` when `test_only`."""

    __slots__ = ("field", "operand", "test_only")

    def __init__(self, id: int, offset: int, operand: Expr, field: str, test_only: bool = False) -> None:
        super().__init__(id, offset)
        self.operand = operand
        self.field = field
        self.test_only = test_only

    def children(self) -> Iterator[Expr]:
        yield self.operand


class Call(Expr):
    """Function or operator call; `target` is set for the receiver style."""

    __slots__ = ("args", "function", "target")

    def __init__(
        self, id: int, offset: int, function: str, args: list[Expr], target: Expr | None = None
    ) -> None:
        super().__init__(id, offset)
        self.function = function
        self.args = args
        self.target = target

    def children(self) -> Iterator[Expr]:
        if self.target is not None:
            yield self.target
        yield from self.args


class ListExpr(Expr):
    """`[a, ?b]`; `optional` holds the indices of the `?` elements."""

    __slots__ = ("elements", "optional")

    def __init__(
        self, id: int, offset: int, elements: list[Expr], optional: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(id, offset)
        self.elements = elements
        self.optional = optional

    def children(self) -> Iterator[Expr]:
        yield from self.elements


class MapEntry:
    """One `key: value` of a map literal."""

    __slots__ = ("id", "key", "offset", "optional", "value")

    def __init__(self, id: int, offset: int, key: Expr, value: Expr, optional: bool) -> None:
        self.id = id
        self.offset = offset
        self.key = key
        self.value = value
        self.optional = optional


class MapExpr(Expr):
    """`{k: v, ?k: v}`."""

    __slots__ = ("entries",)

    def __init__(self, id: int, offset: int, entries: list[MapEntry]) -> None:
        super().__init__(id, offset)
        self.entries = entries

    def children(self) -> Iterator[Expr]:
        for entry in self.entries:
            yield entry.key
            yield entry.value


class StructField:
    """One `field: value` of a message literal."""

    __slots__ = ("id", "name", "offset", "optional", "value")

    def __init__(self, id: int, offset: int, name: str, value: Expr, optional: bool) -> None:
        self.id = id
        self.offset = offset
        self.name = name
        self.value = value
        self.optional = optional


class StructExpr(Expr):
    """`Type{field: value}`."""

    __slots__ = ("fields", "type_name")

    def __init__(self, id: int, offset: int, type_name: str, fields: list[StructField]) -> None:
        super().__init__(id, offset)
        self.type_name = type_name
        self.fields = fields

    def children(self) -> Iterator[Expr]:
        for field in self.fields:
            yield field.value


class Comprehension(Expr):
    """Fold over a range with an accumulator.

    `form` names the macro it came from (all, exists, exists_one, list, map, bind), which lets the
    evaluator use a loop made for it; `condition`, `step` and `result` say the same in core syntax.
    """

    __slots__ = (
        "accu_init",
        "accu_var",
        "condition",
        "form",
        "iter_range",
        "iter_var",
        "iter_var2",
        "result",
        "step",
    )

    def __init__(
        self,
        id: int,
        offset: int,
        *,
        form: str,
        iter_range: Expr,
        iter_var: str,
        iter_var2: str,
        accu_var: str,
        accu_init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> None:
        super().__init__(id, offset)
        self.form = form
        self.iter_range = iter_range
        self.iter_var = iter_var
        self.iter_var2 = iter_var2
        self.accu_var = accu_var
        self.accu_init = accu_init
        self.condition = condition
        self.step = step
        self.result = result

    def children(self) -> Iterator[Expr]:
        yield self.iter_range
        yield self.accu_init
        yield self.condition
        yield self.step
        yield self.result


def walk(root: Expr) -> Iterator[Expr]:
    """All nodes, parents before children, without recursion."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(list(node.children())))


def depth(root: Expr) -> int:
    """Longest path from the root to a leaf, without recursion."""
    deepest = 0
    stack = [(root, 1)]
    while stack:
        node, level = stack.pop()
        deepest = max(deepest, level)
        stack.extend((child, level + 1) for child in node.children())
    return deepest


def qualified_name(expr: Expr) -> str | None:
    """`a.b.c` for a chain of plain selections on an identifier."""
    parts: list[str] = []
    while isinstance(expr, Select) and not expr.test_only:
        parts.append(expr.field)
        expr = expr.operand
    if not isinstance(expr, Ident):
        return None
    parts.append(expr.name)
    return ".".join(reversed(parts))
