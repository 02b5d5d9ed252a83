"""Checks of validation rules when a CRD is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from quarterdeck.cel.environment import Program
from quarterdeck.cel.rule.field_path import FieldPathError, resolve
from quarterdeck.cel.rule.node import RULES, CompiledRule, RuleNode
from quarterdeck.wire.gostyle import quote, trim_space

RULE_COST_LIMIT: Final = 10_000_000
TOTAL_COST_LIMIT: Final = 100_000_000
REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LINE_BREAK: Final = re.compile(r"[\n\r]")

ErrorKind = Literal["Invalid", "Required", "Forbidden", "NotSupported", "InternalError"]


@dataclass(frozen=True, slots=True)
class RuleError:
    """A problem of a rule; `path` is relative to the schema, `value` the offending value (a rule as
    its dict)."""

    path: str
    kind: ErrorKind
    message: str
    value: Any = None
    # A schema path the message ends with, which needs the same prefix as `path`.
    within: str | None = None

    def at(self, prefix: str) -> RuleError:
        """The same error with full field paths below `prefix`."""
        message = self.message
        if self.within is not None:
            message += f" {_join(prefix, self.within)}"
        return replace(self, path=_join(prefix, self.path), message=message, within=None)

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"

    @property
    def body(self) -> str:
        """The error without its field: `Invalid value: ...: text`."""
        detail = f": {self.message}" if self.message else ""
        if self.kind == "Required":
            return f"Required value{detail}"
        if self.kind == "Forbidden":
            return f"Forbidden{detail}"
        if self.kind == "InternalError":
            return f"Internal error{detail}"
        shown = rule_json(self.value) if isinstance(self.value, Mapping) else _scalar(self.value)
        if self.kind == "NotSupported":
            return f"Unsupported value: {shown}{detail}"
        return f"Invalid value: {shown}{detail}"


def rule_json(rule: Mapping[str, Any]) -> str:
    """A rule as it is printed in error texts: Go's JSON of the internal struct."""
    fields = {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return quote(value) if isinstance(value, str) else json.dumps(value)


def _join(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if prefix and path else prefix or path


class _Costs:
    """Sum of all estimates, and the rules that contribute most to it."""

    def __init__(self) -> None:
        self.total = 0
        self.expensive: list[tuple[int, str]] = []

    def add(self, path: str, cost: int) -> None:
        self.total = min(self.total + cost, (1 << 64) - 1)
        if cost >= TOTAL_COST_LIMIT // 100:
            self.expensive.append((cost, path))
            self.expensive.sort(key=lambda entry: -entry[0])
            del self.expensive[4:]


def check_rules(root: RuleNode) -> list[RuleError]:
    """All problems: malformed rules first, then those of their expressions, then the cost of everything."""
    malformed: list[RuleError] = []
    problems: list[RuleError] = []
    costs = _Costs()
    for node in root.walk():
        below = _below(node)
        before = len(malformed)
        malformed.extend(_malformed(node))
        # Expressions are only looked at where nothing at or below the node is malformed.
        if len(malformed) == before and not any(e.path.startswith(below) for e in malformed):
            problems.extend(_expressions(node, costs))
    if costs.total > TOTAL_COST_LIMIT:
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        problems.extend(RuleError(path, "Forbidden", text) for _, path in costs.expensive)
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        problems.append(RuleError("", "Forbidden", _too_expensive(name, costs.total, TOTAL_COST_LIMIT)))
    return malformed + problems


def _below(node: RuleNode) -> str:
    return f"{node.path}." if node.path else ""


def _malformed(node: RuleNode) -> Iterator[RuleError]:
    for index, rule in enumerate(node.rules):
        at = f"{_below(node)}{RULES}[{index}]"
        text = trim_space(rule.get("rule") or "")
        message: str = rule.get("message") or ""
        trimmed = trim_space(message)
        if not text:
            yield RuleError(f"{at}.rule", "Required", "rule is not specified")
        elif message and not trimmed:
            yield RuleError(f"{at}.message", "Invalid", "must be non-empty if specified", message)
        elif _LINE_BREAK.search(trimmed):
            yield RuleError(f"{at}.message", "Invalid", "must not contain line breaks", message)
        elif _LINE_BREAK.search(text) and not trimmed:
            yield RuleError(
                f"{at}.message", "Required", "message must be specified if rule contains line breaks"
            )
        expression = rule.get("messageExpression") or ""
        if expression and not trim_space(expression):
            yield RuleError(
                f"{at}.messageExpression", "Required", "messageExpression must be non-empty if specified"
            )
        reason = rule.get("reason")
        if reason is not None and reason not in REASONS:
            supported = ", ".join(quote(name) for name in REASONS)
            yield RuleError(f"{at}.reason", "NotSupported", f"supported values: {supported}", reason)
        yield from _malformed_path(node, f"{at}.fieldPath", rule.get("fieldPath") or "")


def _malformed_path(node: RuleNode, at: str, field_path: str) -> Iterator[RuleError]:
    if not field_path:
        return
    if not trim_space(field_path):
        yield RuleError(at, "Invalid", "must be non-empty if specified", field_path)
    if _LINE_BREAK.search(field_path):
        yield RuleError(at, "Invalid", "must not contain line breaks", field_path)
    try:
        resolve(field_path, node.schema)
    except FieldPathError:
        yield RuleError(at, "Invalid", "must be a valid path", field_path)


def _expressions(node: RuleNode, costs: _Costs) -> Iterator[RuleError]:
    if not node.rules:
        return
    if node.shape is None:
        yield RuleError(
            f"{_below(node)}{RULES}",
            "InternalError",
            "internal error: failed to construct type information for x-kubernetes-validations rules: "
            "unable to convert structural schema to CEL declarations",
        )
        return
    for index, compiled in enumerate(node.compiled):
        yield from _one_rule(node, f"{_below(node)}{RULES}[{index}]", compiled, costs)


def _one_rule(node: RuleNode, at: str, compiled: CompiledRule, costs: _Costs) -> Iterator[RuleError]:
    rule = compiled.rule
    if compiled.program is not None:
        cost = node.expression_cost(compiled.program)
        if cost > RULE_COST_LIMIT:
            text = _too_expensive("estimated rule cost", cost, RULE_COST_LIMIT)
            yield RuleError(f"{at}.rule", "Forbidden", text)
        costs.add(f"{at}.rule", cost)
    if compiled.error:
        yield RuleError(f"{at}.rule", "Invalid", compiled.error, rule)
    if compiled.message_error:
        yield RuleError(f"{at}.messageExpression", "Invalid", compiled.message_error, rule)
    elif compiled.message is not None:
        yield from _message_cost(f"{at}.messageExpression", compiled.message, costs)
    if compiled.uses_old:
        if node.uncorrelatable is not None:
            yield RuleError(
                f"{at}.rule",
                "Invalid",
                "oldSelf cannot be used on the uncorrelatable portion of the schema within",
                rule["rule"],
                node.uncorrelatable,
            )
    elif rule.get("optionalOldSelf") is not None:
        yield RuleError(
            f"{at}.optionalOldSelf",
            "Invalid",
            "may not be set if oldSelf is not used in rule",
            rule["optionalOldSelf"],
        )


def _message_cost(at: str, message: Program, costs: _Costs) -> Iterator[RuleError]:
    cost = message.estimate_cost()[1]
    if cost > RULE_COST_LIMIT:
        text = _too_expensive("estimated messageExpression cost", cost, RULE_COST_LIMIT)
        yield RuleError(at, "Forbidden", text)
    costs.add(at, cost)


def _too_expensive(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    elif factor < 1.5:
        shown = f"{factor:f}x"
    else:
        shown = f"{factor:.1f}x"
    return (
        f"{name} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, "
        "maxProperties, "
        "and maxLength where arrays, maps, and strings are declared)"
    )
