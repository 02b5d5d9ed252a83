"""Static cost of expressions.

Estimates the least and most an evaluation can cost from the shapes of the variables: comprehensions
multiply the cost of their body by the size of their range, string functions cost a tenth of the text, and
so on. The rules are those of cel-go with Kubernetes' additions, so that a CRD is refused here if and only
if it is upstream.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from quarterdeck.cel.check.checker import Checked
from quarterdeck.cel.cost.function_cost import estimate_call
from quarterdeck.cel.declaration import Overload
from quarterdeck.cel.estimate import (
    LIST_BASE,
    MAP_BASE,
    MAX,
    ONE,
    REGEX_FACTOR,
    STRING_FACTOR,
    STRUCT_BASE,
    UNKNOWN,
    ZERO,
    Estimate,
    Node,
    Path,
    Range,
    Sizer,
    fixed,
)
from quarterdeck.cel.syntax.tree import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)
from quarterdeck.cel.type.celtype import CelType, is_optional
from quarterdeck.cel.value.value import Value

_SCALAR: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_COMPARING: Final = frozenset(
    [
        f"{stem}_{t}"
        for stem in ("less", "greater", "less_equals", "greater_equals")
        for t in ("string", "bytes")
    ]
    + ["equals", "not_equals"]
)


class _Entry(NamedTuple):
    """Sizes of keys and values of a container."""

    kind: str
    key: Range
    value: Range


class _Local(NamedTuple):
    path: Path
    size: Range | None
    entry: _Entry | None


def estimate_cost(checked: Checked, sizer: Sizer) -> tuple[int, int]:
    """Least and most cost of an evaluation."""
    total = _Coster(checked, sizer).cost(checked.root)
    return total.low, total.high


class _Coster:
    def __init__(self, checked: Checked, sizer: Sizer) -> None:
        self._checked = checked
        self._sizer = sizer
        self._paths: dict[int, Path] = {}
        self._locals: dict[str, list[_Local]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entry] = {}

    def _type(self, expr: Expr) -> CelType:
        return self._checked.types[expr.id]

    def _local(self, expr: Expr) -> _Local | None:
        if not isinstance(expr, Ident):
            return None
        known = self._locals.get(expr.name)
        return known[-1] if known else None

    def _path(self, expr: Expr) -> Path:
        local = self._local(expr)
        return self._paths.get(expr.id, ()) if local is None else local.path

    def _size(self, expr: Expr) -> Range | None:
        known = self._sizes.get(expr.id)
        if known is not None:
            return known
        own = _literal_size(expr)
        if own is not None:
            return own
        placed = self._sizer.size(self._path(expr))
        if placed is not None:
            self._sizes[expr.id] = placed
            return placed
        if _is_scalar(self._type(expr)):
            return ONE
        local = self._local(expr)
        return None if local is None else local.size

    def _size_or_unknown(self, expr: Expr) -> Range:
        return self._size(expr) or UNKNOWN

    def _entry(self, expr: Expr) -> _Entry | None:
        known = self._entries.get(expr.id)
        if known is not None:
            return known
        local = self._local(expr)
        return None if local is None else local.entry

    def _node(self, expr: Expr) -> Node:
        path: Path | None = self._path(expr) or None
        if path is not None and path[0] in (ACCUMULATOR, "__result__"):
            path = None
        return Node(self._sizer, path, self._type(expr), expr, self._size(expr))

    def _push(self, name: str, path: Path, size: Range | None, entry: _Entry | None = None) -> None:
        self._locals.setdefault(name, []).append(_Local(path, size, entry))

    def _pop(self, name: str) -> None:
        self._locals[name].pop()

    def cost(self, expr: Expr) -> Range:
        if isinstance(expr, Literal):
            return ZERO
        if isinstance(expr, Ident) or expr.id in self._checked.idents:
            return self._ident(expr)
        if isinstance(expr, Select):
            return self._select(expr)
        if isinstance(expr, Call):
            return self._call(expr)
        if isinstance(expr, ListExpr):
            return self._list(expr)
        if isinstance(expr, MapExpr):
            return self._map(expr)
        if isinstance(expr, StructExpr):
            total = ZERO
            for field in expr.fields:
                total = total.plus(self.cost(field.value))
            return total.plus(fixed(STRUCT_BASE))
        assert isinstance(expr, Comprehension)
        return self._bind(expr) if expr.form == "bind" else self._fold(expr)

    def _ident(self, expr: Expr) -> Range:
        local = self._local(expr)
        self._paths[expr.id] = (self._checked.idents[expr.id],) if local is None else local.path
        return ONE

    def _select(self, expr: Select) -> Range:
        total = self.cost(expr.operand)
        if expr.test_only:
            return total
        if self._type(expr.operand).kind in ("map", "struct", "param"):
            total = total.plus(ONE)
        self._paths[expr.id] = (*self._path(expr.operand), expr.field)
        return total

    def _list(self, expr: ListExpr) -> Range:
        total = ZERO
        items = ZERO if not expr.elements else Range(MAX, 0)
        for item in expr.elements:
            total = total.plus(self.cost(item))
            items = items.union(self._size_or_unknown(item))
        self._entries[expr.id] = _Entry("list", ONE, items)
        return total.plus(fixed(LIST_BASE))

    def _map(self, expr: MapExpr) -> Range:
        total = ZERO
        keys = values = ZERO if not expr.entries else Range(MAX, 0)
        for entry in expr.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self._size_or_unknown(entry.key))
            values = values.union(self._size_or_unknown(entry.value))
        self._entries[expr.id] = _Entry("map", keys, values)
        return total.plus(fixed(MAP_BASE))

    def _begin(self, expr: Comprehension) -> Range:
        """The cost of what a comprehension starts from; its result is a variable from here on."""
        first = expr.accu_init
        total = self.cost(expr.iter_range).plus(self.cost(first))
        self._push(expr.accu_var, self._path(first), self._size(first), self._entry(first))
        return total

    def _fold(self, expr: Comprehension) -> Range:
        total = self._begin(expr)
        self._push_iteration(expr)
        step = self.cost(expr.condition).plus(self.cost(expr.step))
        self._pop(expr.iter_var)
        if expr.iter_var2:
            self._pop(expr.iter_var2)
        total = total.plus(self.cost(expr.result))
        self._pop(expr.accu_var)
        count = self._size_or_unknown(expr.iter_range)
        total = total.plus(count.times(step))
        if isinstance(expr.accu_init, Literal):
            size = self._size(expr.accu_init)
            if size is not None:
                self._sizes[expr.id] = size
        elif isinstance(expr.accu_init, (ListExpr, MapExpr)):
            self._sizes[expr.id] = count
            entry = self._entry(expr.step)
            if entry is not None:
                self._entries[expr.id] = entry
        return total

    def _push_iteration(self, expr: Comprehension) -> None:
        entry = self._entry(expr.iter_range)
        kind = self._type(expr.iter_range).kind if entry is None else entry.kind
        path = self._path(expr.iter_range)
        keys = (*path, "@indices" if kind == "list" else "@keys")
        values = (*path, "@items" if kind == "list" else "@values")
        key_size = None if entry is None else entry.key
        value_size = None if entry is None else entry.value
        if expr.iter_var2:
            self._push(expr.iter_var, keys, key_size)
            self._push(expr.iter_var2, values, value_size)
        elif kind == "list":
            self._push(expr.iter_var, values, value_size)
        else:
            self._push(expr.iter_var, (*path, "@keys"), key_size)

    def _bind(self, expr: Comprehension) -> Range:
        total = self._begin(expr).plus(self.cost(expr.result))
        self._pop(expr.accu_var)
        self._copy_sizes(expr, expr.result)
        return total

    def _copy_sizes(self, to: Expr, source: Expr) -> None:
        size, entry = self._size(source), self._entry(source)
        if size is not None:
            self._sizes[to.id] = size
        if entry is not None:
            self._entries[to.id] = entry

    def _call(self, expr: Call) -> Range:
        if expr.function == "dyn":
            inner = self.cost(expr.args[0])
            self._copy_sizes(expr, expr.args[0])
            return inner.plus(ONE)
        costs = [self.cost(arg) for arg in expr.args]
        overloads = self._checked.overloads.get(expr.id)
        if not overloads:
            return ZERO
        total, target = ZERO, None
        if expr.target is not None:
            total = self.cost(expr.target)
            target = self._node(expr.target)
        args = [self._node(arg) for arg in expr.args]
        call = Range(MAX, 0)
        size: Range | None = None
        for overload in overloads:
            estimate = self._overload(expr, overload, target, args, costs)
            call = call.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            if overload.id in ("index_list", "index_map"):
                entry = self._entry(expr.args[0])
                size = None if entry is None else entry.value
                step = "@items" if overload.id == "index_list" else "@values"
                self._paths[expr.id] = (*self._path(expr.args[0]), step)
            if size is None:
                size = self._size(expr)
        if size is not None:
            self._sizes[expr.id] = size
        return total.plus(call)

    def _overload(
        self, expr: Call, overload: Overload, target: Node | None, args: list[Node], costs: list[Range]
    ) -> Estimate:
        sum_of_args = ZERO
        for cost in costs:
            sum_of_args = sum_of_args.plus(cost)
        estimate = None if overload.static_cost is None else overload.static_cost(target, args)
        if estimate is None:
            estimate = estimate_call(expr.function, overload.id, target, args)
        if estimate is not None:
            return Estimate(estimate.cost.plus(sum_of_args), estimate.size)
        if overload.id in ("logical_and", "logical_or"):
            return Estimate(Range(costs[0].low, costs[0].plus(costs[1]).high))
        if overload.id == "conditional":
            return self._conditional(expr, args, costs)
        if overload.id in ("add_string", "add_bytes", "add_list"):
            return self._addition(expr, overload.id, args, sum_of_args)
        estimate = _standard(overload.id, target, args)
        return Estimate(estimate.cost.plus(sum_of_args), estimate.size)

    def _conditional(self, expr: Call, args: list[Node], costs: list[Range]) -> Estimate:
        size = _known(args[1]).union(_known(args[2]))
        self._join_entries(expr, expr.args[1], expr.args[2])
        return Estimate(costs[0].plus(costs[1].union(costs[2])), size)

    def _addition(self, expr: Call, id: str, args: list[Node], sum_of_args: Range) -> Estimate:
        size = _known(args[0]).plus(_known(args[1]))
        self._join_entries(expr, expr.args[0], expr.args[1])
        own = ONE if id == "add_list" else size.scaled(STRING_FACTOR)
        return Estimate(own.plus(sum_of_args), size)

    def _join_entries(self, expr: Expr, first: Expr, second: Expr) -> None:
        a, b = self._entry(first), self._entry(second)
        if a is not None and b is not None:
            self._entries[expr.id] = _Entry(a.kind, a.key.union(b.key), a.value.union(b.value))


def _known(node: Node) -> Range:
    return node.derived or UNKNOWN


def _literal_size(expr: Expr) -> Range | None:
    if isinstance(expr, Literal):
        return fixed(_value_size(expr.value))
    if isinstance(expr, ListExpr):
        return fixed(len(expr.elements))
    if isinstance(expr, MapExpr):
        return fixed(len(expr.entries))
    return None


def _value_size(value: Value) -> int:
    return len(value) if isinstance(value, (str, bytes)) else 1


def _is_scalar(t: CelType) -> bool:
    return t.kind in _SCALAR or (is_optional(t) and _is_scalar(t.params[0]))


def _standard(id: str, target: Node | None, args: list[Node]) -> Estimate:
    """Standard functions whose cost depends on sizes."""
    if id == "string_format" and target is not None:
        return Estimate(_known(target).scaled(STRING_FACTOR))
    if id == "string_to_bytes":
        size = _known(args[0])
        return Estimate(size.scaled(STRING_FACTOR), Range(size.low, size.high * 4 % (MAX + 1)))
    if id == "bytes_to_string":
        size = _known(args[0])
        return Estimate(size.scaled(STRING_FACTOR), Range(size.low // 4, size.high))
    if id == "strings_quote":
        size = _known(args[0])
        return Estimate(size.scaled(STRING_FACTOR), Range(size.low + 2, (size.high * 2 + 2) % (MAX + 1)))
    if id in ("starts_with_string", "ends_with_string"):
        return Estimate(_known(args[0]).scaled(STRING_FACTOR))
    if id == "in_list":
        return Estimate(_known(args[1]).scaled(1))
    if id == "matches_string" and target is not None:
        text = _known(target).plus(ONE).scaled(STRING_FACTOR)
        return Estimate(text.times(_known(args[0]).scaled(REGEX_FACTOR)))
    if id == "contains_string" and target is not None:
        return Estimate(_known(target).scaled(STRING_FACTOR).times(_known(args[0]).scaled(STRING_FACTOR)))
    if id in _COMPARING:
        smaller = min(_known(args[0]).high, _known(args[1]).high)
        return Estimate(Range(1 if smaller else 0, smaller).scaled(STRING_FACTOR))
    return Estimate(ONE)
