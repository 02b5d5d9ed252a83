"""Function declarations: what a library offers to checker, evaluator and cost estimation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from quarterdeck.cel.estimate import Estimate, Node
from quarterdeck.cel.type.celtype import CelType
from quarterdeck.cel.value.value import Value

Implementation: TypeAlias = Callable[..., Value]
# (target node or None, argument nodes) -> cost and result size, None to use the general rules
StaticCost: TypeAlias = Callable[[Node | None, list[Node]], Estimate | None]
# (arguments, result) -> cost
RuntimeCost: TypeAlias = Callable[[list[Value], Value], int]


class Overload:
    """One signature of a function with its implementation."""

    __slots__ = (
        "args",
        "id",
        "implementation",
        "is_guarded",
        "is_member",
        "params",
        "result",
        "runtime_cost",
        "static_cost",
    )

    def __init__(
        self,
        id: str,
        args: Iterable[CelType],
        result: CelType,
        implementation: Implementation,
        *,
        is_member: bool = False,
        is_guarded: bool = True,
        static_cost: StaticCost | None = None,
        runtime_cost: RuntimeCost | None = None,
    ) -> None:
        self.id = id
        self.args = tuple(args)
        self.result = result
        self.implementation = implementation
        self.is_member = is_member
        # Guarded implementations are only called with arguments of the declared types.
        self.is_guarded = is_guarded
        self.static_cost = static_cost
        self.runtime_cost = runtime_cost
        self.params = frozenset(_params((*self.args, result)))


class Function:
    """A named function with its overloads."""

    __slots__ = ("name", "overloads")

    def __init__(self, name: str, overloads: Iterable[Overload]) -> None:
        self.name = name
        self.overloads = list(overloads)


def merge(libraries: Iterable[Iterable[Function]]) -> Mapping[str, Function]:
    """One table of all functions; overloads of the same name add up in order."""
    table: dict[str, Function] = {}
    for library in libraries:
        for function in library:
            known = table.get(function.name)
            if known is None:
                table[function.name] = Function(function.name, function.overloads)
            else:
                known.overloads.extend(function.overloads)
    return table


def _params(types: Iterable[CelType]) -> Iterable[str]:
    for t in types:
        if t.kind == "param":
            yield t.name
        yield from _params(t.params)
