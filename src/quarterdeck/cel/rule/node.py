"""The tree of validation rules of a schema: which nodes have rules, compiled when first needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from quarterdeck.cel.environment import Environment, Program
from quarterdeck.cel.error import CelCompileError, ProgramError
from quarterdeck.cel.rule.field_path import FieldPathError, resolve
from quarterdeck.cel.type.celtype import BOOL, STRING, CelType, optional_type
from quarterdeck.cel.type.schema import MAX_REQUEST_BYTES, Schema, Shape, build_shape, escape_name
from quarterdeck.wire.gostyle import trim_space

RULES: Final = "x-kubernetes-validations"


class CompiledRule:
    """One rule with its programs, or with the reason why there are none."""

    __slots__ = (
        "error",
        "field_path",
        "is_optional",
        "message",
        "message_error",
        "program",
        "rule",
        "uses_old",
    )

    def __init__(self, rule: Mapping[str, Any]) -> None:
        self.rule = rule
        self.program: Program | None = None
        self.message: Program | None = None
        self.error = ""
        self.message_error = ""
        self.uses_old = False
        self.is_optional = bool(rule.get("optionalOldSelf"))
        self.field_path = ""

    @property
    def label(self) -> str:
        """What names the rule in error texts: its message, else the rule itself."""
        message: str = self.rule.get("message") or ""
        return trim_space(message) if message else trim_space(self.rule.get("rule") or "")


class RuleNode:
    """A schema node that has rules or has such nodes below."""

    def __init__(
        self,
        schema: Schema,
        *,
        path: str = "",
        parent: RuleNode | None = None,
        is_resource_root: bool = False,
        cardinality: int | None = 1,
        uncorrelatable: str | None = None,
    ) -> None:
        self.schema = schema
        self.path = path
        self.rules: list[Mapping[str, Any]] = list(schema.get(RULES) or ())
        # How often the node can occur in one object; None when nothing bounds it.
        self.cardinality = cardinality
        # Schema path of the nearest list whose items cannot be matched with old ones.
        self.uncorrelatable = uncorrelatable
        self._is_resource_root = is_resource_root
        self._parent = parent
        self.properties: dict[str, RuleNode] = {}
        self.items: RuleNode | None = None
        self.values: RuleNode | None = None
        self._grow()

    def _grow(self) -> None:
        schema = self.schema
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            self.values = self._child(values, "additionalProperties").if_any
        for name, schema_ in (schema.get("properties") or {}).items():
            child = self._child(schema_, f"properties[{name}]").if_any
            if child is not None:
                self.properties[name] = child
        items = schema.get("items")
        if isinstance(items, Mapping):
            uncorrelatable = self.uncorrelatable
            if uncorrelatable is None and schema.get("x-kubernetes-list-type") != "map":
                uncorrelatable = self.path
            self.items = self._child(items, "items", uncorrelatable).if_any

    @property
    def if_any(self) -> RuleNode | None:
        """The node if there are rules at it or below."""
        is_empty = not self.rules and not self.properties and self.items is None and self.values is None
        return None if is_empty else self

    def _child(self, schema: Schema, step: str, uncorrelatable: str | None = None) -> RuleNode:
        return RuleNode(
            schema,
            path=f"{self.path}.{step}" if self.path else step,
            parent=self,
            is_resource_root=bool(schema.get("x-kubernetes-embedded-resource")),
            cardinality=_multiply(self.cardinality, _max_elements(self.schema)),
            uncorrelatable=self.uncorrelatable if uncorrelatable is None else uncorrelatable,
        )

    def walk(self) -> Iterator[RuleNode]:
        """All nodes, children first; not recursive, because a schema may nest deeply."""
        found = []
        stack = [self]
        while stack:
            node = stack.pop()
            found.append(node)
            if node.values is not None:
                stack.append(node.values)
            stack.extend(node.properties.values())
            if node.items is not None:
                stack.append(node.items)
        return reversed(found)

    @cached_property
    def shape(self) -> Shape | None:
        """How the data looks to expressions, None when they cannot see it."""
        inherited = self._inherited()
        if inherited is not None:
            return inherited
        return build_shape(self.schema, is_resource_root=self._is_resource_root)

    def _inherited(self) -> Shape | None:
        """The shape as part of the parent's, when the parent needs its own anyway."""
        parent = self._parent
        if parent is None or not parent.rules or parent.shape is None:
            return None
        shape = parent.shape
        if self is parent.items or self is parent.values:
            return shape.element
        for name, child in parent.properties.items():
            if child is self and shape.fields is not None:
                return shape.fields.get(escape_name(name) or "")
        return None

    @cached_property
    def compiled(self) -> list[CompiledRule]:
        """The node's rules, compiled."""
        shape = self.shape
        if shape is None:
            return []
        plain = Environment({"self": shape.cel_type, "oldSelf": shape.cel_type})
        result = []
        for rule in self.rules:
            environment = plain
            if rule.get("optionalOldSelf"):
                environment = Environment({"self": shape.cel_type, "oldSelf": optional_type(shape.cel_type)})
            result.append(_compile(rule, environment, self.schema))
        return result

    def expression_cost(self, program: Program) -> int:
        """Most that all evaluations of a rule can cost for one object."""
        cost = program.estimate_cost()[1]
        if self.cardinality is not None:
            return min(cost * self.cardinality, (1 << 64) - 1)
        assert self.shape is not None
        return min(cost * (MAX_REQUEST_BYTES // (self.shape.min_size + 1)), (1 << 64) - 1)


def _compile(rule: Mapping[str, Any], environment: Environment, schema: Schema) -> CompiledRule:
    result = CompiledRule(rule)
    text = rule.get("rule") or ""
    if not trim_space(text):
        return result
    result.program, result.error = _program(text, environment, BOOL, "compilation failed: ", "")
    if result.program is None:
        return result
    result.uses_old = "oldSelf" in result.program.uses
    message = rule.get("messageExpression") or ""
    if message:
        result.message, result.message_error = _program(
            message, environment, STRING, "messageExpression compilation failed: ", "messageExpression "
        )
        if result.message is None:
            return result
    if rule.get("fieldPath"):
        try:
            result.field_path = resolve(rule["fieldPath"], schema)[0]
        except FieldPathError:
            result.field_path = ""
    return result


def _program(
    text: str, environment: Environment, wanted: CelType, prefix: str, subject: str
) -> tuple[Program | None, str]:
    try:
        program = environment.compile(text)
    except ProgramError as problem:
        return None, f"{subject or 'program '}instantiation failed: {problem.message}"
    except CelCompileError as problem:
        return None, prefix + problem.message
    if program.result_type != wanted:
        if wanted == BOOL:
            return None, "cel expression must evaluate to a bool"
        return None, "messageExpression must evaluate to a string"
    return program, ""


def _max_elements(schema: Schema) -> int | None:
    """By how much a node multiplies the occurrences of its children; None when nothing bounds it."""
    if schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        limit = schema.get("maxProperties")
        return None if limit is None else max(limit, 0)
    if schema.get("type") == "array":
        limit = schema.get("maxItems")
        return None if limit is None else max(limit, 0)
    return 1


def _multiply(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return None
    return min(left * right, (1 << 64) - 1)
