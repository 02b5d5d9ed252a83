"""Single changes to a source file that its tests should notice.

A change swaps one operator or one value for its neighbour and leaves the rest of the text as it is. What no
test can be asked to notice is left alone: annotations, decorators, class keywords such as ``frozen``,
assertions (``strict=True`` of ``zip`` is one), ``__all__``, ``raise``, logging calls, and what an object
prints for people.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

SWAPS: Final[dict[type[ast.AST], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
}
LARGE: Final = 1000
"""Sizes and limits from here on are chosen round; one more or less is no other behaviour."""
LOGGING: Final = frozenset(["debug", "info", "warning", "error", "exception", "critical"])
FOR_PEOPLE: Final = frozenset(["__repr__", "__str__", "__rich_repr__", "__dir__"])


@dataclass(frozen=True)
class Change:
    """Bytes ``start`` to ``end`` of the file become ``text``."""

    line: int
    start: int
    end: int
    old: str
    text: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def __str__(self) -> str:
        old = " ".join(self.old.split())
        return f"{old if len(old) <= 60 else old[:57] + '...'} -> {self.text or 'nothing'}"


def changes(source: bytes) -> list[Change]:
    """All changes to the file that leave it a program."""
    found = []
    for change in _Finder(source).find():
        try:
            compile(change.applied(source), "mutant", "exec")
        except SyntaxError:
            continue
        found.append(change)
    return found


class _Finder:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def find(self) -> Iterator[Change]:
        yield from self._visit(ast.parse(self._source))

    def _visit(self, node: ast.AST) -> Iterator[Change]:
        if _is_left_alone(node):
            return
        yield from self._of(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases"):
                continue
            if name == "keywords" and isinstance(node, ast.ClassDef):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._visit(child)

    def _of(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=right):
                for operator, before, after in zip(ops, [left, *right], right, strict=False):
                    yield from self._between(operator, before, after)
            case ast.BoolOp(op=operator, values=values):
                for before, after in pairwise(values):
                    yield from self._between(operator, before, after)
            case ast.BinOp(left=left, op=operator, right=right) if not _is_text(left) and not _is_text(right):
                yield from self._between(operator, left, right)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._change(node, self._offset(node), self._offset(operand), "")
            case ast.Constant(value=bool() as value):
                yield self._change(node, *self._span(node), str(not value))
            case ast.Constant(value=int() as value) if value < LARGE:
                yield self._change(node, *self._span(node), str(value + 1))
                if value > 0:
                    yield self._change(node, *self._span(node), str(value - 1))
            case ast.Return(value=ast.AST() as value) if not _is_truth(value):
                yield self._change(node, *self._span(value), "None")

    def _between(self, operator: ast.AST, before: ast.AST, after: ast.AST) -> Iterator[Change]:
        """The operator somewhere between two operands, where brackets may be, too."""
        if type(operator) not in SWAPS:
            return
        old, new = SWAPS[type(operator)]
        pattern = rb"\b" + rb"\s+".join(old.encode().split()) + rb"\b"
        start = self._end(before)
        gap = self._source[start : self._offset(after)]
        match = re.search(pattern if old[0].isalpha() else re.escape(old).encode(), gap)
        if match is not None:
            yield self._change(before, start + match.start(), start + match.end(), new)

    def _change(self, node: ast.AST, start: int, end: int, text: str) -> Change:
        line = self._source.count(b"\n", 0, start) + 1
        return Change(line, start, end, self._source[start:end].decode(), text)

    def _offset(self, node: ast.AST) -> int:
        return self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]

    def _end(self, node: ast.AST) -> int:
        return self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def _span(self, node: ast.AST) -> tuple[int, int]:
        return self._offset(node), self._end(node)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.Raise():
            return True
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name in FOR_PEOPLE
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Call(
            func=ast.Attribute(
                value=ast.Name(id="log" | "logger" | "_log" | "_logger")
                | ast.Attribute(attr="log" | "logger" | "_log" | "_logger"),
                attr=name,
            )
        ):
            return name in LOGGING
        case ast.keyword(arg="strict", value=ast.Constant(value=True)):
            return True
    return False


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_truth(node: ast.AST) -> bool:
    """``False`` and ``None`` mean the same to most callers, and ``True`` is turned by itself."""
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))
