"""Unification of types: finds out what type variables stand for.

Generic signatures and empty literals introduce variables; every use binds them further. Types that cannot
be told apart statically (dyn) agree with everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.cel.type.celtype import DYN, CelType, is_dyn, type_param

_NULLABLE: Final = frozenset({"opaque", "struct", "duration", "timestamp"})
_STRUCTURED: Final = frozenset({"opaque", "list", "map"})


class Unifier:
    """Bindings of type variables."""

    __slots__ = ("_count", "bound")

    def __init__(self) -> None:
        self.bound: dict[str, CelType] = {}
        self._count = 0

    def fresh(self) -> CelType:
        """A variable not used before."""
        self._count += 1
        return type_param(f"_var{self._count - 1}")

    def assignable(self, first: CelType, second: CelType) -> bool:
        """Whether the types agree; binds variables when they do."""
        return self.assignable_all((first,), (second,))

    def assignable_all(self, first: Sequence[CelType], second: Sequence[CelType]) -> bool:
        """Whether types agree one by one; binds variables when all do."""
        saved = self.bound.copy()
        if self._all(first, second):
            return True
        self.bound = saved
        return False

    def _all(self, first: Sequence[CelType], second: Sequence[CelType]) -> bool:
        return len(first) == len(second) and all(map(self._one, first, second))

    def _one(self, t1: CelType, t2: CelType) -> bool:
        if t2.kind == "param":
            valid, bound = self._bind(t1, t2)
            if valid:
                return True
            if bound:
                return False
        if t1.kind == "param":
            return self._bind(t2, t1)[0]
        if t1.kind in ("dyn", "error") or t2.kind in ("dyn", "error"):
            return True
        if t1.kind == "null":
            return t2.kind == "null" or t2.kind in _NULLABLE
        if t2.kind == "null":
            return t1.kind in _NULLABLE
        if t1.kind == "type":
            return t2.kind == "type"
        if t1.kind in _STRUCTURED:
            return t1.kind == t2.kind and t1.name == t2.name and self._all(t1.params, t2.params)
        return t1.kind == t2.kind and t1.name == t2.name

    def _bind(self, t: CelType, variable: CelType) -> tuple[bool, bool]:
        """Whether `t` may stand for `variable`, and whether the variable was bound before."""
        if t == variable:
            return True, True
        known = self.bound.get(variable.name)
        if known is None:
            if self._occurs(variable, t):
                return False, False
            self.bound[variable.name] = t
            return True, False
        if t == known:
            return True, True
        if self._one(t, known):
            general = most_general(t, known)
            if not self._occurs(variable, general):
                self.bound[variable.name] = general
            return True, True
        return False, True

    def _occurs(self, variable: CelType, within: CelType) -> bool:
        if variable == within:
            return True
        if within.kind == "param":
            known = self.bound.get(within.name)
            return known is not None and self._occurs(variable, known)
        return any(self._occurs(variable, param) for param in within.params)

    def substitute(self, t: CelType, *, to_dyn: bool = False) -> CelType:
        """A type with its bound variables replaced, the others by dyn if so wanted."""
        if t.kind == "param":
            known = self.bound.get(t.name)
            if known is not None:
                return self.substitute(known, to_dyn=to_dyn)
            return DYN if to_dyn else t
        if not t.params:
            return t
        params = tuple(self.substitute(param, to_dyn=to_dyn) for param in t.params)
        return t if params == t.params else CelType(t.kind, t.name, params)


def _less_specific(t1: CelType, t2: CelType) -> bool:
    if is_dyn(t1) or t1.kind == "param":
        return True
    if is_dyn(t2) or t2.kind == "param" or t1.kind != t2.kind:
        return False
    if t1.kind == "type":
        return True
    if t1.kind in _STRUCTURED:
        return (
            t1.name == t2.name
            and len(t1.params) == len(t2.params)
            and all(map(_less_specific, t1.params, t2.params))
        )
    return t1 == t2


def most_general(t1: CelType, t2: CelType) -> CelType:
    """The wider of two types that agree."""
    return t1 if _less_specific(t1, t2) else t2
