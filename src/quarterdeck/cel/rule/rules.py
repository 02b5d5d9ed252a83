"""x-kubernetes-validations: rules of a structural schema, compiled once and run against objects.

    rules = CompiledRules.compile(schema)
    if rules.compile_errors: ...            # the CRD is refused
    for violation in rules.validate(new, old): ...

Rules run on a budget, per call and per object. As long as static estimates promise that it suffices,
evaluation is not metered; otherwise it is, and stops where upstream would.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from quarterdeck.cel.environment import Program
from quarterdeck.cel.error import CelRuntimeError, CostLimitExceeded
from quarterdeck.cel.rule.check import RuleError, check_rules
from quarterdeck.cel.rule.correlation import Correlated, MapListIndex
from quarterdeck.cel.rule.node import CompiledRule, RuleNode
from quarterdeck.cel.type.schema import Schema
from quarterdeck.cel.value.value import OptionalValue
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire.gonumber import float_text
from quarterdeck.wire.gostyle import quote, trim_space
from quarterdeck.wire.turn import look_up

CALL_LIMIT: Final = 1_000_000
#: rules that surely cost no more are not metered; others may be interrupted
QUICK_LIMIT: Final = 100_000
OBJECT_LIMIT: Final = 10_000_000
_MAX_MESSAGE_BYTES: Final = 5 * 1024
_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class Absent:
    """No value: there is no old object."""

    def __repr__(self) -> str:
        return "ABSENT"


class Omitted:
    """The value is not shown."""

    def __repr__(self) -> str:
        return "OMITTED"


ABSENT: Final = Absent()
OMITTED: Final = Omitted()

ViolationKind = Literal["Invalid", "Forbidden", "Required", "Duplicate", "InternalError"]
_KINDS: Final[dict[str | None, ViolationKind]] = {
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required",
    "FieldValueDuplicate": "Duplicate",
}
_REASONS: Final[dict[ViolationKind, str]] = {
    "Invalid": "FieldValueInvalid",
    "Forbidden": "FieldValueForbidden",
    "Required": "FieldValueRequired",
    "Duplicate": "FieldValueDuplicate",
    "InternalError": "InternalError",
}
_TITLES: Final[dict[ViolationKind, str]] = {
    "Invalid": "Invalid value",
    "Forbidden": "Forbidden",
    "Required": "Required value",
    "Duplicate": "Duplicate value",
    "InternalError": "Internal error",
}


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A rule that is not satisfied.

    `field` is the path of the value ("" for the root); `value` is what to print, OMITTED for objects and
    lists; for a rule that failed to evaluate it is the name of the schema type.
    """

    field: str
    kind: ViolationKind
    value: Any
    message: str

    @property
    def reason(self) -> str:
        """Reason of the status cause."""
        return _REASONS[self.kind]

    @property
    def body(self) -> str:
        """Message of the status cause: `Invalid value: "A": lower`."""
        title = _TITLES[self.kind]
        if self.kind in ("Invalid", "Duplicate") and not isinstance(self.value, Omitted):
            title = f"{title}: {_show(self.value)}"
        return f"{title}: {self.message}" if self.message else title

    def __str__(self) -> str:
        return f"{self.field or '<nil>'}: {self.body}"


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float):
        return float_text(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class CompiledRules:
    """All validation rules of one structural schema; safe to share between threads."""

    def __init__(self, root: RuleNode | None, schema: Schema) -> None:
        self._root = root
        self._schema = schema
        self._meter_always = False

    @classmethod
    def compile(cls, schema: Schema, *, is_root: bool = True) -> CompiledRules:
        """Find the rules of a structural schema; expressions are compiled when first needed.

        `is_root` says that the schema is that of a whole resource.
        """
        return cls(RuleNode(schema, is_resource_root=is_root).if_any, schema)

    @property
    def has_rules(self) -> bool:
        """Whether there are rules at all."""
        return self._root is not None

    @cached_property
    def compile_errors(self) -> list[RuleError]:
        """Problems that refuse the CRD, with paths relative to the schema."""
        return [] if self._root is None else check_rules(self._root)

    def errors(self, prefix: str) -> list[RuleError]:
        """`compile_errors` with full paths below `prefix`, such as `spec.validation.openAPIV3Schema`."""
        return [error.at(prefix) for error in self.compile_errors]

    def validate(
        self,
        new: Any,
        old: Any | Absent = ABSENT,
        *,
        path: str = "",
        ratchet: bool = True,
        forgiven: list[RuleViolation] | None = None,
    ) -> list[RuleViolation]:
        """Violations of an object, a node's before those of its children.

        With `old` this is an update: transition rules run, and with `ratchet` violations at unchanged values
        are forgiven unless the rule looks at the old value. Upstream warns about those it forgives; they are
        added to `forgiven`.
        """
        root = self._root
        if root is None or new is None:
            return []
        before = None if isinstance(old, Absent) else old

        def attempt(*, metered: bool) -> list[RuleViolation]:
            correlated = None
            if ratchet and before is not None:
                correlated = Correlated(new, before, self._schema)
            run = _Run(metered=metered)
            with suppress(_Stop):
                run.node(root, path, new, before, _Ratchet(correlated, None))
            if forgiven is not None:
                forgiven.extend(run.forgiven)
            return run.violations

        if not self._meter_always:
            try:
                return attempt(metered=False)
            except _BudgetUncertain:
                self._meter_always = True
        return attempt(metered=True)


class _Stop(QuarterdeckError):
    """No further rules run."""


class _BudgetUncertain(QuarterdeckError):
    """Estimates no longer promise that the budget suffices: evaluation must be metered."""


class _Ratchet:
    """Where a value stands relative to its old state."""

    __slots__ = ("current", "parent")

    def __init__(self, current: Correlated | None, parent: Correlated | None) -> None:
        self.current = current
        self.parent = parent

    def forgives(self) -> bool:
        """Whether the value, or its nearest ancestor that has an old counterpart, is unchanged."""
        anchor = self.current if self.current is not None else self.parent
        return anchor is not None and anchor.is_equal()

    def key(self, name: str) -> _Ratchet:
        if self.current is None:
            return self
        if self.parent is None and name in ("apiVersion", "kind"):
            return _Ratchet(None, None)
        return _Ratchet(self.current.key(name), self.current)

    def index(self, at: int) -> _Ratchet:
        if self.current is None:
            return self
        return _Ratchet(self.current.index(at), self.current)


class _Run:
    """One validation: walks the object along the rule tree."""

    def __init__(self, *, metered: bool) -> None:
        self.violations: list[RuleViolation] = []
        self.forgiven: list[RuleViolation] = []
        self._metered = metered
        self._budget = OBJECT_LIMIT

    def node(self, node: RuleNode, path: str, value: Any, old: Any, ratchet: _Ratchet) -> None:
        if value is None:
            return
        if node.rules:
            self._rules(node, path, value, old, ratchet)
        if isinstance(value, dict):
            for child, child_path, name in _children(node, path, value):
                before = old.get(name) if isinstance(old, dict) else None
                self.node(child, child_path, value[name], before, ratchet.key(name))
        elif isinstance(value, list) and node.items is not None:
            before_items = MapListIndex(node.schema, old) if isinstance(old, list) else None
            for at, item in enumerate(value):
                before = None if before_items is None else before_items.get(item)
                if node.schema.get("x-kubernetes-list-type") != "map":
                    before = None
                self.node(node.items, f"{path}[{at}]", item, before, ratchet.index(at))

    def _rules(self, node: RuleNode, path: str, value: Any, old: Any, ratchet: _Ratchet) -> None:
        type_name = node.schema.get("type") or ""
        if self._budget <= 0:
            self._fail(path, type_name, _OUT_OF_BUDGET)
            raise _Stop
        for compiled in node.compiled:
            if compiled.error:
                self._fail(path, type_name, f"rule compile error: {compiled.error}")
            elif compiled.program is not None and (
                old is not None or compiled.is_optional or not compiled.uses_old
            ):
                self._rule(compiled, compiled.program, path, value, old, ratchet, type_name)

    def _fail(self, path: str, type_name: str, message: str) -> None:
        self.violations.append(RuleViolation(path, "Invalid", type_name, message))

    def _rule(
        self,
        compiled: CompiledRule,
        program: Program,
        path: str,
        value: Any,
        old: Any,
        ratchet: _Ratchet,
        type_name: str,
    ) -> None:
        before = old
        if compiled.is_optional:
            before = OptionalValue.NONE if old is None else OptionalValue(old)
        try:
            outcome = self._evaluate(program, {"self": value, "oldSelf": before})
        except CostLimitExceeded as problem:
            self._spend(problem.cost, path, type_name)
            self._fail(
                path,
                type_name,
                f"'{problem.message}': no further validation rules will be run due to call cost exceeds "
                f"limit for rule: {compiled.label}",
            )
            raise _Stop from None
        except CelRuntimeError as problem:
            self._spend(problem.cost, path, type_name)
            self._fail(path, type_name, _failure(problem.message, compiled.label))
            return
        cost, satisfied = outcome
        self._spend(cost, path, type_name)
        if satisfied is True:
            return
        where = path
        if compiled.field_path:
            where = f"{path}.{compiled.field_path}" if path else compiled.field_path
        violation = self._violation(compiled, where, value, old, type_name)
        unforgivable = compiled.uses_old or not ratchet.forgives()
        (self.violations if unforgivable else self.forgiven).append(violation)

    def _violation(
        self, compiled: CompiledRule, where: str, value: Any, old: Any, type_name: str
    ) -> RuleViolation:
        detail = self._message(compiled, where, value, old, type_name)
        if detail is None:
            message = compiled.rule.get("message") or ""
            detail = trim_space(message) if message else f"failed rule: {compiled.label}"
        kind = _KINDS.get(compiled.rule.get("reason"), "Invalid")
        shown = OMITTED if type_name in ("object", "array") else value
        return RuleViolation(where, kind, shown, "" if kind == "Duplicate" else detail)

    def _message(
        self, compiled: CompiledRule, where: str, value: Any, old: Any, type_name: str
    ) -> str | None:
        """Text of the message expression, None when there is none or it gives none."""
        program = compiled.message
        if program is None or ("oldSelf" in program.uses and (old is None or compiled.is_optional)):
            return None
        try:
            cost, text = self._evaluate(program, {"self": value, "oldSelf": old})
        except CostLimitExceeded:
            self._fail(
                where,
                type_name,
                "no further validation rules will be run due to call cost exceeds limit for "
                "messageExpression: " + quote(program.expression),
            )
            raise _Stop from None
        except CelRuntimeError as problem:
            self._budget -= problem.cost
            return None
        if self._metered and cost > self._budget:
            self._fail(
                where,
                type_name,
                "messageExpression evaluation failed due to running out of cost budget, no further "
                "validation rules will be run",
            )
            raise _Stop
        self._budget -= cost
        self._check_certain()
        text = trim_space(text)
        if not text or "\n" in text or len(text.encode("utf-8", "surrogatepass")) > _MAX_MESSAGE_BYTES:
            return None
        return str(text)

    def _evaluate(self, program: Program, bindings: dict[str, Any]) -> tuple[int, Any]:
        """Cost (or its upper bound) and value."""
        most = program.estimate_cost()[1]
        look_up()
        if self._metered or most > QUICK_LIMIT:
            value, cost = program.evaluate_metered(bindings, CALL_LIMIT)
            return cost, value
        return most, program.evaluate(bindings, cost_limit=None)

    def _spend(self, cost: int, path: str, type_name: str) -> None:
        if self._metered and cost > self._budget:
            self._fail(path, type_name, _OUT_OF_BUDGET)
            raise _Stop
        self._budget -= cost
        self._check_certain()

    def _check_certain(self) -> None:
        if not self._metered and self._budget <= 0:
            raise _BudgetUncertain


def _failure(error: str, label: str) -> str:
    if error.startswith("no such overload"):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro signature "
            f"for rule: {label}"
        )
    return f"{error} evaluating rule: {label}"


def _children(node: RuleNode, path: str, value: dict[str, Any]) -> Iterator[tuple[RuleNode, str, str]]:
    if node.values is not None:
        for name in value:
            yield node.values, f"{path}[{name}]", name
    if node.properties:
        for name in value:
            child = node.properties.get(name)
            if child is not None:
                yield child, f"{path}.{name}" if path else name, name
