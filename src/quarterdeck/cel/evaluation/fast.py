"""Specialised closures for the operations that static types make simple."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from quarterdeck.cel.error import EvalError
from quarterdeck.cel.value.operators import MISSING, no_such_overload
from quarterdeck.cel.value.value import MAX_INT, MIN_INT, Value

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Value]


def fields(base: Closure, keys: list[tuple[str, str, bool]]) -> Closure:
    """Walk down JSON objects; `keys` are (property, name in the expression, whether null means absent)."""

    def slow(value: Any) -> Value:
        for name, shown, absent_if_null in keys:
            found = value.get(name, MISSING) if isinstance(value, dict) else MISSING
            if found is MISSING or (found is None and absent_if_null):
                raise EvalError(f"no such key: {shown}")
            value = found
        return value

    if len(keys) == 1:
        one = keys[0][0]

        def get_one(f: Frame) -> Value:
            root = base(f)
            value = root.get(one)
            return slow(root) if value is None else value

        return get_one
    if len(keys) == 2:
        first, second = keys[0][0], keys[1][0]

        def get_two(f: Frame) -> Value:
            root = base(f)
            try:
                value = root[first][second]
            except (KeyError, TypeError):
                value = None
            return slow(root) if value is None else value

        return get_two
    return lambda f: slow(base(f))


def invoke(implementation: Callable[..., Value], args: list[Closure]) -> Closure:
    """Call with evaluated arguments."""
    if len(args) == 1:
        one = args[0]
        return lambda f: implementation(one(f))
    if len(args) == 2:
        first, second = args
        return lambda f: implementation(first(f), second(f))
    return lambda f: implementation(*[arg(f) for arg in args])


def size(operand: Closure) -> Closure:
    """`size()` of a string, bytes, list or map."""

    def run(f: Frame) -> int:
        value = operand(f)
        try:
            return len(value)
        except TypeError:
            no_such_overload("size")

    return run


def negation(operand: Closure) -> Closure:
    """`!operand`."""

    def run(f: Frame) -> bool:
        value = operand(f)
        if not isinstance(value, bool):
            no_such_overload()
        return not value

    return run


def equality(left: Closure, right: Closure, constant: Value, wanted: bool) -> Closure:
    """`==` or `!=` of scalars of one type."""
    if constant is not MISSING:
        if wanted:
            return lambda f: left(f) == constant
        return lambda f: left(f) != constant
    if wanted:
        return lambda f: left(f) == right(f)
    return lambda f: left(f) != right(f)


def logic(left: Closure, right: Closure, *, stop: bool) -> Closure:
    """`||` (stop at True) or `&&` (stop at False) of operands that can only be bools."""

    def absorb(f: Frame, problem: EvalError) -> Value:
        try:
            outcome = right(f)
        except EvalError:
            raise problem from None
        if outcome is not stop:
            raise problem
        return outcome

    if stop:

        def disjunction(f: Frame) -> Value:
            try:
                if left(f):
                    return True
            except EvalError as problem:
                return absorb(f, problem)
            return right(f)

        return disjunction

    def conjunction(f: Frame) -> Value:
        try:
            if not left(f):
                return False
        except EvalError as problem:
            return absorb(f, problem)
        return right(f)

    return conjunction


def dynamic_logic(left: Closure, right: Closure, *, stop: bool) -> Closure:
    """`||` or `&&` of operands that may turn out to be no bools."""

    def run(f: Frame) -> Value:
        problem: EvalError | None = None
        for operand in (left, right):
            try:
                value = operand(f)
            except EvalError as error:
                problem = problem or error
                continue
            if value is stop:
                return stop
            if not isinstance(value, bool):
                problem = problem or EvalError("no such overload")
        if problem is not None:
            raise problem
        return not stop

    return run


def _overflow() -> Value:
    raise EvalError("integer overflow")


def _plus(left: Closure, right: Closure) -> Closure:
    def run(f: Frame) -> Value:
        try:
            value = left(f) + right(f)
        except TypeError:
            no_such_overload()
        return value if MIN_INT <= value <= MAX_INT else _overflow()

    return run


def _minus(left: Closure, right: Closure) -> Closure:
    def run(f: Frame) -> Value:
        try:
            value = left(f) - right(f)
        except TypeError:
            no_such_overload()
        return value if MIN_INT <= value <= MAX_INT else _overflow()

    return run


def _ordering(
    test: Callable[[Value, Value], bool],
) -> tuple[Callable[[Closure, Closure], Closure], Callable[[Closure, Value], Closure]]:
    """Closures for a comparison, with a variable and with a constant on the right."""

    def variable(left: Closure, right: Closure) -> Closure:
        def run(f: Frame) -> bool:
            a, b = left(f), right(f)
            try:
                return test(a, b)
            except TypeError:
                no_such_overload()

        return run

    def constant(left: Closure, b: Value) -> Closure:
        def run(f: Frame) -> bool:
            a = left(f)
            try:
                return test(a, b)
            except TypeError:
                no_such_overload()

        return run

    return variable, constant


BINARY: Final[dict[str, Callable[[Closure, Closure], Closure]]] = {
    "add_int64": _plus,
    "subtract_int64": _minus,
}
BINARY_CONSTANT: Final[dict[str, Callable[[Closure, Value], Closure]]] = {}
for _stem, _test in (
    ("less", operator.lt),
    ("less_equals", operator.le),
    ("greater", operator.gt),
    ("greater_equals", operator.ge),
):
    for _suffix in ("int64", "string"):
        BINARY[f"{_stem}_{_suffix}"], BINARY_CONSTANT[f"{_stem}_{_suffix}"] = _ordering(_test)
