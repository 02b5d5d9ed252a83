"""Checks of a type-checked tree beyond types: literal regexes, durations and timestamps, literals of one
type, format strings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from quarterdeck.cel.check.checker import Checked
from quarterdeck.cel.error import EvalError, Issue
from quarterdeck.cel.library.conversion import to_duration, to_timestamp
from quarterdeck.cel.library.formatting import Clause, FormatProblem, clauses, complaint, is_need
from quarterdeck.cel.syntax.tree import Call, Expr, ListExpr, Literal, MapExpr, walk
from quarterdeck.cel.type.celtype import CelType
from quarterdeck.cel.value.pattern import compile_pattern
from quarterdeck.cel.value.value import Value

_LITERALS: Final[dict[str, Callable[[Value], object]]] = {
    "duration": to_duration,
    "timestamp": to_timestamp,
    "matches": compile_pattern,
}


def validate(checked: Checked) -> list[Issue]:
    """All problems found."""
    issues: list[Issue] = []
    calls = [node for node in walk(checked.root) if isinstance(node, Call)]
    for function, read in _LITERALS.items():
        for call in calls:
            if call.function == function:
                issues.extend(_literal_argument(call, read))
    issues.extend(_one_type(checked))
    for call in calls:
        if _is_constant_format(call):
            issues.extend(_format(checked, call))
    return issues


def _literal_argument(call: Call, read: Callable[[Value], object]) -> Iterator[Issue]:
    arg = call.args[0] if call.args else None
    if not isinstance(arg, Literal):
        return
    if call.function == "matches" and type(arg.value) is not str:
        return
    try:
        read(arg.value)
    except EvalError:
        yield Issue(arg.offset, f"invalid {call.function} argument")


def _equivalent(a: CelType, b: CelType) -> bool:
    return a.kind == b.kind and a.name == b.name and all(map(_equivalent, a.params, b.params))


def _one_type(checked: Checked) -> Iterator[Issue]:
    """List and map literals must not mix types, except inside `format` arguments."""
    stack: list[tuple[Expr, bool]] = [(checked.root, False)]
    lists: list[ListExpr] = []
    maps: list[MapExpr] = []
    while stack:
        node, exempt = stack.pop()
        if isinstance(node, ListExpr) and not exempt:
            lists.append(node)
        elif isinstance(node, MapExpr) and not exempt:
            maps.append(node)
        inside = exempt or (isinstance(node, Call) and node.function == "format")
        stack.extend((child, inside) for child in node.children())
    for item in lists:
        yield from _one_list(checked, item)
    for table in maps:
        yield from _one_map(checked, table)


def _mismatch(expr: Expr, expected: CelType, actual: CelType) -> Issue:
    return Issue(expr.offset, f"expected type '{expected}' but found '{actual}'")


def _one_list(checked: Checked, expr: ListExpr) -> Iterator[Issue]:
    expected: CelType | None = None
    for at, element in enumerate(expr.elements):
        t = _unwrapped(checked.types[element.id], at in expr.optional)
        if expected is None:
            expected = t
        elif not _equivalent(expected, t):
            yield _mismatch(element, expected, t)
            return


def _one_map(checked: Checked, expr: MapExpr) -> Iterator[Issue]:
    expected: tuple[CelType, CelType] | None = None
    for entry in expr.entries:
        key, value = checked.types[entry.key.id], checked.types[entry.value.id]
        value = _unwrapped(value, entry.optional)
        if expected is None:
            expected = key, value
            continue
        if not _equivalent(expected[0], key):
            yield _mismatch(entry.key, expected[0], key)
        if not _equivalent(expected[1], value):
            yield _mismatch(entry.value, expected[1], value)


def _unwrapped(t: CelType, optional: bool) -> CelType:
    return t.params[0] if optional and t.params else t


def _is_constant_format(call: Call) -> bool:
    return (
        call.function == "format"
        and isinstance(call.target, Literal)
        and type(call.target.value) is str
        and len(call.args) == 1
        and isinstance(call.args[0], ListExpr)
    )


_ACCEPTED: Final = {
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "x": ("int", "uint", "string", "bytes"),
    "X": ("int", "uint", "string", "bytes"),
    "o": ("int", "uint"),
    "s": (
        "list",
        "map",
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "timestamp",
        "bytes",
        "duration",
        "type",
        "null",
    ),
}


def _format(checked: Checked, call: Call) -> Iterator[Issue]:
    assert isinstance(call.target, Literal)
    args = call.args[0]
    assert isinstance(args, ListExpr)
    taken = 0
    try:
        for piece in clauses(call.target.value):
            if is_need(piece) or isinstance(piece, str):
                continue
            if taken >= len(args.elements):
                yield Issue(call.offset, f"index {taken} out of range")
                return
            bad = _refused(checked, args.elements[taken], piece)
            taken += 1
            if bad is not None:
                text = complaint(piece.letter, checked.types[bad.id].name)
                yield Issue(bad.offset, f"error during formatting: {text}")
                return
    except FormatProblem as problem:
        if taken >= len(args.elements) and not str(problem).startswith("unexpected end"):
            yield Issue(call.offset, f"index {taken} out of range")
        else:
            yield Issue(call.offset, str(problem))
        return
    if len(args.elements) > taken:
        yield Issue(
            call.offset,
            f"too many arguments supplied to string.format (expected {taken}, got {len(args.elements)})",
        )


def _refused(checked: Checked, expr: Expr, clause: Clause) -> Expr | None:
    """The part of an argument the clause does not take."""
    kind = checked.types[expr.id].kind
    if kind == "dyn":
        return None
    if kind not in _ACCEPTED[clause.letter]:
        return expr
    if clause.letter == "s" and isinstance(expr, (ListExpr, MapExpr)):
        for child in expr.children():
            bad = _refused(checked, child, clause)
            if bad is not None:
                return bad
    return None
