"""Type checking: resolves names and overloads and gives every node a type.

Type inference is by unification: empty literals and generic signatures introduce variables that later uses
bind; what stays unbound is dyn. Problems are reported in the words of cel-go.
"""

from __future__ import annotations

from collections.abc import Mapping

from quarterdeck.cel.check.unification import Unifier, most_general
from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.error import Issue
from quarterdeck.cel.syntax.tree import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
    qualified_name,
)
from quarterdeck.cel.type.celtype import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    CelType,
    Structs,
    is_dyn,
    is_optional,
    list_type,
    map_type,
    optional_type,
)
from quarterdeck.cel.type.schema import KEYWORDS
from quarterdeck.cel.value.value import UInt, Value


class Checked:
    """Result of checking a tree."""

    __slots__ = ("idents", "overloads", "root", "types", "uses")

    def __init__(self, root: Expr) -> None:
        self.root = root
        self.types: dict[int, CelType] = {}
        # node id -> overloads that may apply
        self.overloads: dict[int, list[Overload]] = {}
        # node id -> name of the variable or type it stands for
        self.idents: dict[int, str] = {}
        self.uses: set[str] = set()


class Names:
    """What names mean: variables, types and functions."""

    __slots__ = ("functions", "structs", "types", "variables")

    def __init__(
        self,
        variables: Mapping[str, CelType],
        types: Mapping[str, CelType],
        functions: Mapping[str, Function],
        structs: Structs,
    ) -> None:
        self.variables = variables
        self.types = types
        self.functions = functions
        self.structs = structs


def check(root: Expr, names: Names) -> tuple[Checked, list[Issue]]:
    """Check a tree; the result is only usable without issues."""
    checker = _Checker(root, names)
    checker.check(root)
    result = checker.result
    for id, t in result.types.items():
        result.types[id] = checker.unifier.substitute(t, to_dyn=True)
    return result, checker.issues


def literal_type(value: Value) -> CelType:
    """Type of a constant."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, UInt):
        return UINT
    if isinstance(value, int):
        return INT
    if isinstance(value, float):
        return DOUBLE
    return STRING if isinstance(value, str) else BYTES


class _Checker:
    def __init__(self, root: Expr, names: Names) -> None:
        self.result = Checked(root)
        self.issues: list[Issue] = []
        self.unifier = Unifier()
        self._names = names
        self._scopes: list[dict[str, CelType]] = []

    def _report(self, offset: int, message: str) -> None:
        self.issues.append(Issue(offset, message))

    def _set(self, expr: Expr, t: CelType) -> None:
        self.result.types[expr.id] = t

    def _type(self, expr: Expr) -> CelType:
        return self.result.types.get(expr.id, ERROR)

    def _mismatch(self, offset: int, expected: CelType, actual: CelType) -> None:
        self._report(offset, f"expected type '{expected}' but found '{actual}'")

    def _undeclared(self, offset: int, name: str) -> None:
        self._report(offset, f"undeclared reference to '{name}' (in container '')")

    def _lookup(self, name: str) -> tuple[str, CelType] | None:
        plain = name.removeprefix(".")
        if plain == name:
            for scope in reversed(self._scopes):
                if name in scope:
                    return name, scope[name]
        else:
            for scope in reversed(self._scopes):
                if plain in scope:
                    return plain, scope[plain]
        t = self._names.variables.get(plain)
        if t is not None:
            self.result.uses.add(plain)
            return plain, t
        t = self._names.types.get(plain)
        if t is None:
            struct = self._names.structs.find(plain)
            t = None if struct is None else CelType("type", "type", (struct,))
        return None if t is None else (plain, t)

    def _function(self, name: str) -> Function | None:
        return self._names.functions.get(name.removeprefix("."))

    def check(self, expr: Expr) -> None:
        if isinstance(expr, Literal):
            self._set(expr, literal_type(expr.value))
        elif isinstance(expr, Ident):
            self._ident(expr)
        elif isinstance(expr, Select):
            self._select(expr)
        elif isinstance(expr, Call):
            self._call(expr)
        elif isinstance(expr, ListExpr):
            self._list(expr)
        elif isinstance(expr, MapExpr):
            self._map(expr)
        elif isinstance(expr, StructExpr):
            self._struct(expr)
        elif isinstance(expr, Comprehension):
            self._comprehension(expr)
        else:
            self._set(expr, ERROR)

    def _ident(self, expr: Ident) -> None:
        found = self._lookup(expr.name)
        if found is None:
            self._set(expr, ERROR)
            self._undeclared(expr.offset, expr.name)
            return
        expr.name, t = found
        self.result.idents[expr.id] = expr.name
        self._set(expr, t)

    def _select(self, expr: Select) -> None:
        name = None if expr.test_only else qualified_name(expr)
        if name is not None:
            found = self._lookup(name)
            if found is not None:
                self.result.idents[expr.id] = found[0]
                self._set(expr, found[1])
                return
        t = self._field(expr, expr.operand, expr.field, optional=False)
        self._set(expr, BOOL if expr.test_only else self.unifier.substitute(t))

    def _field(self, expr: Expr, operand: Expr, field: str, *, optional: bool) -> CelType:
        self.check(operand)
        target = self.unifier.substitute(self._type(operand))
        was_optional = is_optional(target)
        if was_optional:
            target = target.params[0]
        result = DYN
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            result = self._struct_field(expr.offset, target, field)
        elif target.kind == "param":
            self.unifier.assignable(DYN, target)
        elif target.kind not in ("dyn", "error"):
            self._report(expr.offset, f"type '{target}' does not support field selection")
        return optional_type(result) if was_optional or optional else result

    def _struct_field(self, offset: int, struct: CelType, field: str) -> CelType:
        found = None
        if struct.fields is not None:
            found = struct.fields.get(field)
            if found is None and field in KEYWORDS:
                found = struct.fields.get(f"__{field}__")
        if found is None:
            found = self._names.structs.field(struct.name, field)
        if found is not None:
            return found
        if struct.fields is None and self._names.structs.find(struct.name) is None:
            self._report(offset, f"unexpected failed resolution of '{struct.name}'")
        else:
            self._report(offset, f"undefined field '{field}'")
        return ERROR

    def _call(self, expr: Call) -> None:
        if expr.function == "_?._":
            field = expr.args[1]
            assert isinstance(field, Literal)
            t = self._field(expr, expr.args[0], field.value, optional=True)
            self._set(expr, self.unifier.substitute(t))
            self._set(field, STRING)
            function = self._function("_?._")
            self.result.overloads[expr.id] = [] if function is None else function.overloads[:1]
            return
        for arg in expr.args:
            self.check(arg)
        if expr.target is None:
            self._resolve(expr, expr.function, None)
            return
        prefix = qualified_name(expr.target)
        if prefix is not None:
            name = f"{prefix}.{expr.function}"
            if self._function(name) is not None:
                expr.target = None
                expr.function = name
                self._resolve(expr, name, None)
                return
        self.check(expr.target)
        self._resolve(expr, expr.function, expr.target)

    def _resolve(self, expr: Call, name: str, target: Expr | None) -> None:
        function = self._function(name)
        if function is None:
            self._undeclared(expr.offset, name)
            self._set(expr, ERROR)
            return
        expr.function = function.name
        types = [self._type(arg) for arg in expr.args]
        if target is not None:
            types.insert(0, self._type(target))
        if name in ("_&&_", "_||_"):
            self._logic(expr, function, types)
            return
        result: CelType | None = None
        matching: list[Overload] = []
        for overload in function.overloads:
            if overload.is_member != (target is not None):
                continue
            signature = self._instantiate(overload)
            if not self.unifier.assignable_all(types, signature[1:]):
                continue
            matching.append(overload)
            outcome = self.unifier.substitute(signature[0])
            if result is None:
                result = outcome
            elif not is_dyn(result) and outcome != result:
                result = DYN
        if result is None:
            shown = [str(self.unifier.substitute(t, to_dyn=True)) for t in types]
            lead = f"{shown.pop(0)}." if target is not None else ""
            self._report(
                expr.offset,
                f"found no matching overload for '{function.name}' applied to '{lead}({', '.join(shown)})'",
            )
            self._set(expr, ERROR)
            return
        self.result.overloads[expr.id] = matching
        self._set(expr, result)

    def _logic(self, expr: Call, function: Function, types: list[CelType]) -> None:
        ok = True
        for arg, t in zip(expr.args, types, strict=True):
            if not self.unifier.assignable(t, BOOL):
                self._mismatch(arg.offset, BOOL, t)
                ok = False
        if ok:
            self.result.overloads[expr.id] = function.overloads
        self._set(expr, BOOL if ok else ERROR)

    def _instantiate(self, overload: Overload) -> list[CelType]:
        signature = [overload.result, *overload.args]
        if not overload.params:
            return signature
        fresh = {name: self.unifier.fresh() for name in sorted(overload.params)}
        return [_replace(t, fresh) for t in signature]

    def _unwrap(self, expr: Expr, t: CelType) -> CelType:
        """Type of the value of an optional entry."""
        if is_optional(t):
            return t.params[0]
        if not is_dyn(t):
            self._mismatch(expr.offset, optional_type(t), t)
        return t

    def _list(self, expr: ListExpr) -> None:
        joined: CelType | None = None
        for index, element in enumerate(expr.elements):
            self.check(element)
            t = self._type(element)
            if index in expr.optional:
                t = self._unwrap(element, t)
            joined = self._join(joined, t)
        self._set(expr, list_type(self.unifier.fresh() if joined is None else joined))

    def _map(self, expr: MapExpr) -> None:
        keys: CelType | None = None
        values: CelType | None = None
        for entry in expr.entries:
            self.check(entry.key)
            keys = self._join(keys, self._type(entry.key))
            self.check(entry.value)
            t = self._type(entry.value)
            if entry.optional:
                t = self._unwrap(entry.value, t)
            values = self._join(values, t)
        if keys is None or values is None:
            keys, values = self.unifier.fresh(), self.unifier.fresh()
        self._set(expr, map_type(keys, values))

    def _join(self, previous: CelType | None, current: CelType) -> CelType:
        if previous is None:
            return current
        # Mixed literals are refused later, unless they are arguments of `format`.
        return most_general(previous, current) if self.unifier.assignable(previous, current) else DYN

    def _struct(self, expr: StructExpr) -> None:
        found = self._lookup(expr.type_name)
        if found is None:
            self._undeclared(expr.offset, expr.type_name)
            self._set(expr, ERROR)
            return
        expr.type_name, t = found
        result = ERROR
        if t.kind != "type":
            self._report(expr.offset, f"'{t.name}' is not a type")
        elif t.params and t.params[0].kind == "struct":
            result = t.params[0]
        else:
            self._report(expr.offset, f"'{t.params[0].name if t.params else 'type'}' is not a message type")
        self._set(expr, result)
        for field in expr.fields:
            self.check(field.value)
            expected = ERROR if result is ERROR else self._struct_field(field.offset, result, field.name)
            actual = self._type(field.value)
            if field.optional:
                actual = self._unwrap(field.value, actual)
            if not self.unifier.assignable(expected, actual):
                self._report(
                    field.offset,
                    f"expected type of field '{field.name}' is '{expected}' but provided type is '{actual}'",
                )

    def _comprehension(self, expr: Comprehension) -> None:
        self.check(expr.iter_range)
        self.check(expr.accu_init)
        accu = self._type(expr.accu_init)
        first, second = self._iteration(expr, self.unifier.substitute(self._type(expr.iter_range)))
        self._scopes.append({expr.accu_var: accu})
        variables = {expr.iter_var: first}
        if expr.iter_var2:
            variables[expr.iter_var2] = second
        self._scopes.append(variables)
        self.check(expr.condition)
        self._assert(expr.condition, BOOL)
        self.check(expr.step)
        self._assert(expr.step, accu)
        self._scopes.pop()
        self.check(expr.result)
        self._scopes.pop()
        self._set(expr, self.unifier.substitute(self._type(expr.result)))

    def _iteration(self, expr: Comprehension, t: CelType) -> tuple[CelType, CelType]:
        if t.kind == "list":
            return (INT, t.params[0]) if expr.iter_var2 else (t.params[0], DYN)
        if t.kind == "map":
            return t.params[0], t.params[1]
        if t.kind in ("dyn", "error", "param"):
            self.unifier.assignable(DYN, t)
            return DYN, DYN
        self._report(
            expr.iter_range.offset,
            f"expression of type '{t}' cannot be range of a comprehension (must be list, map, or dynamic)",
        )
        return ERROR, ERROR

    def _assert(self, expr: Expr, expected: CelType) -> None:
        if not self.unifier.assignable(expected, self._type(expr)):
            self._mismatch(expr.offset, expected, self._type(expr))


def _replace(t: CelType, fresh: Mapping[str, CelType]) -> CelType:
    if t.kind == "param":
        return fresh[t.name]
    if not t.params:
        return t
    return CelType(t.kind, t.name, tuple(_replace(param, fresh) for param in t.params))
