"""Macro expansion: turns `has`, the quantifiers, `map`, `filter`, the two-variable comprehensions, `optMap`,
`optFlatMap` and `sortBy` calls into core syntax while parsing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quarterdeck.cel.syntax.tree import (
    ACCUMULATOR,
    UNUSED,
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapEntry,
    MapExpr,
    Select,
    StructExpr,
    StructField,
)
from quarterdeck.cel.value.value import Value
from quarterdeck.errors import QuarterdeckError


class MacroError(QuarterdeckError):
    """A macro was called with arguments it cannot take."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


class Builder:
    """Makes nodes that all carry the position of the macro call."""

    __slots__ = ("_next_id", "offset")

    def __init__(self, next_id: Callable[[], int], offset: int) -> None:
        self._next_id = next_id
        self.offset = offset

    def literal(self, value: Value) -> Literal:
        return Literal(self._next_id(), self.offset, value)

    def ident(self, name: str) -> Ident:
        return Ident(self._next_id(), self.offset, name)

    def accu(self) -> Ident:
        return self.ident(ACCUMULATOR)

    def call(self, function: str, *args: Expr) -> Call:
        return Call(self._next_id(), self.offset, function, list(args))

    def member(self, function: str, target: Expr, *args: Expr) -> Call:
        return Call(self._next_id(), self.offset, function, list(args), target)

    def list(self, *elements: Expr) -> ListExpr:
        return ListExpr(self._next_id(), self.offset, list(elements))

    def map(self) -> MapExpr:
        return MapExpr(self._next_id(), self.offset, [])

    def presence(self, operand: Expr, field: str) -> Select:
        return Select(self._next_id(), self.offset, operand, field, True)

    def fold(
        self,
        form: str,
        iter_range: Expr,
        names: tuple[str, str],
        *,
        accu: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Comprehension:
        return Comprehension(
            self._next_id(),
            self.offset,
            form=form,
            iter_range=iter_range,
            iter_var=names[0],
            iter_var2=names[1],
            accu_var=ACCUMULATOR,
            accu_init=accu,
            condition=condition,
            step=step,
            result=result,
        )

    def bind(self, name: str, value: Expr, result: Expr) -> Comprehension:
        """Name a value for one expression, as a fold over nothing."""
        return Comprehension(
            self._next_id(),
            self.offset,
            form="bind",
            iter_range=self.list(),
            iter_var=UNUSED,
            iter_var2="",
            accu_var=name,
            accu_init=value,
            condition=self.literal(False),
            step=self.ident(name),
            result=result,
        )

    def copy(self, expr: Expr) -> Expr:
        """Deep copy with fresh ids and the original positions."""
        fresh, at = self._next_id(), expr.offset
        if isinstance(expr, Literal):
            return Literal(fresh, at, expr.value)
        if isinstance(expr, Ident):
            return Ident(fresh, at, expr.name)
        if isinstance(expr, Select):
            return Select(fresh, at, self.copy(expr.operand), expr.field, expr.test_only)
        if isinstance(expr, Call):
            args = [self.copy(arg) for arg in expr.args]
            target = None if expr.target is None else self.copy(expr.target)
            return Call(fresh, at, expr.function, args, target)
        if isinstance(expr, ListExpr):
            return ListExpr(fresh, at, [self.copy(item) for item in expr.elements], expr.optional)
        if isinstance(expr, MapExpr):
            return MapExpr(
                fresh,
                at,
                [
                    MapEntry(self._next_id(), self.offset, self.copy(e.key), self.copy(e.value), e.optional)
                    for e in expr.entries
                ],
            )
        if isinstance(expr, StructExpr):
            return StructExpr(
                fresh,
                at,
                expr.type_name,
                [
                    StructField(self._next_id(), self.offset, f.name, self.copy(f.value), f.optional)
                    for f in expr.fields
                ],
            )
        if isinstance(expr, Comprehension):
            return Comprehension(
                fresh,
                at,
                form=expr.form,
                iter_range=self.copy(expr.iter_range),
                iter_var=expr.iter_var,
                iter_var2=expr.iter_var2,
                accu_var=expr.accu_var,
                accu_init=self.copy(expr.accu_init),
                condition=self.copy(expr.condition),
                step=self.copy(expr.step),
                result=self.copy(expr.result),
            )
        return type(expr)(fresh, at)


Expander = Callable[[Builder, Expr | None, list[Expr]], Expr]


def _variable(arg: Expr, complaint: str) -> str:
    if not isinstance(arg, Ident):
        raise MacroError(arg.offset, complaint)
    if arg.name in (ACCUMULATOR, "__result__"):
        raise MacroError(arg.offset, "iteration variable overwrites accumulator variable")
    return arg.name


def _two_variables(args: list[Expr]) -> tuple[str, str]:
    complaint = "argument must be a simple name"
    for arg in args[:2]:
        if not isinstance(arg, Ident):
            raise MacroError(arg.offset, complaint)
    first, second = args[0], args[1]
    assert isinstance(first, Ident)
    assert isinstance(second, Ident)
    if first.name == second.name:
        raise MacroError(second.offset, f"duplicate variable name: {first.name}")
    return _variable(first, complaint), _variable(second, complaint)


def _has(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    arg = args[0]
    if isinstance(arg, Select):
        return build.presence(arg.operand, arg.field)
    raise MacroError(arg.offset, "invalid argument to has() macro")


def _names(args: list[Expr], variables: int) -> tuple[str, str]:
    if variables == 2:
        return _two_variables(args)
    return _variable(args[0], "argument must be a simple name"), ""


def _all(variables: int) -> Expander:
    def expand(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        names = _names(args, variables)
        init = build.literal(True)
        condition = build.call("@not_strictly_false", build.accu())
        step = build.call("_&&_", build.accu(), args[variables])
        return build.fold(
            "all", target, names, accu=init, condition=condition, step=step, result=build.accu()
        )

    return expand


def _exists(variables: int) -> Expander:
    def expand(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        names = _names(args, variables)
        init = build.literal(False)
        condition = build.call("@not_strictly_false", build.call("!_", build.accu()))
        step = build.call("_||_", build.accu(), args[variables])
        return build.fold(
            "exists", target, names, accu=init, condition=condition, step=step, result=build.accu()
        )

    return expand


def _exists_one(variables: int) -> Expander:
    def expand(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        names = _names(args, variables)
        init = build.literal(0)
        condition = build.literal(True)
        step = build.call(
            "_?_:_", args[variables], build.call("_+_", build.accu(), build.literal(1)), build.accu()
        )
        result = build.call("_==_", build.accu(), build.literal(1))
        return build.fold(
            "exists_one", target, names, accu=init, condition=condition, step=step, result=result
        )

    return expand


def map_fold(build: Builder, target: Expr, args: list[Expr]) -> Expr:
    """`target.map(x, [filter,] f)`."""
    name = _variable(args[0], "argument is not an identifier")
    init = build.list()
    condition = build.literal(True)
    step = build.call("_+_", build.accu(), build.list(args[-1]))
    if len(args) == 3:
        step = build.call("_?_:_", args[1], step, build.accu())
    return build.fold(
        "list", target, (name, ""), accu=init, condition=condition, step=step, result=build.accu()
    )


def _map(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    return map_fold(build, target, args)


def _filter(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    name = _variable(args[0], "argument is not an identifier")
    init = build.list()
    condition = build.literal(True)
    step = build.call("_+_", build.accu(), build.list(args[0]))
    step = build.call("_?_:_", args[1], step, build.accu())
    return build.fold(
        "list", target, (name, ""), accu=init, condition=condition, step=step, result=build.accu()
    )


def _transform_list(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    names = _two_variables(args)
    step = build.call("_+_", build.accu(), build.list(args[-1]))
    if len(args) == 4:
        step = build.call("_?_:_", args[2], step, build.accu())
    return build.fold(
        "list",
        target,
        names,
        accu=build.list(),
        condition=build.literal(True),
        step=step,
        result=build.accu(),
    )


def _transform_map(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    names = _two_variables(args)
    step = build.call("cel.@mapInsert", build.accu(), build.ident(names[0]), args[-1])
    if len(args) == 4:
        step = build.call("_?_:_", args[2], step, build.accu())
    return build.fold(
        "map", target, names, accu=build.map(), condition=build.literal(True), step=step, result=build.accu()
    )


def _transform_map_entry(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    names = _two_variables(args)
    step = build.call("cel.@mapInsert", build.accu(), args[-1])
    if len(args) == 4:
        step = build.call("_?_:_", args[2], step, build.accu())
    return build.fold(
        "map", target, names, accu=build.map(), condition=build.literal(True), step=step, result=build.accu()
    )


def _optional_map(flat: bool) -> Expander:
    name = "optFlatMap" if flat else "optMap"

    def expand(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        variable = args[0]
        if not isinstance(variable, Ident):
            raise MacroError(variable.offset, f"{name}() variable name must be a simple identifier")
        bound: Expr = build.bind(variable.name, build.member("value", build.copy(target)), args[1])
        if not flat:
            bound = build.call("optional.of", bound)
        return build.call("_?_:_", build.member("hasValue", target), bound, build.call("optional.none"))

    return expand


def _sort_by(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    if not isinstance(target, (ListExpr, Select, Ident, Comprehension, Call)):
        raise MacroError(
            target.offset,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    name = "@__sortBy_input__"
    keys = map_fold(build, build.ident(name), args)
    return build.bind(name, target, build.member("@sortByAssociatedKeys", build.ident(name), keys))


# (function, argument count, receiver style) -> expander
MACROS: Final[dict[tuple[str, int, bool], Expander]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all(1),
    ("exists", 2, True): _exists(1),
    ("exists_one", 2, True): _exists_one(1),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("all", 3, True): _all(2),
    ("exists", 3, True): _exists(2),
    ("exists_one", 3, True): _exists_one(2),
    ("existsOne", 3, True): _exists_one(2),
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("optMap", 2, True): _optional_map(False),
    ("optFlatMap", 2, True): _optional_map(True),
    ("sortBy", 2, True): _sort_by,
}
