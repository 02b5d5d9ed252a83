"""CEL rules of a schema: the bridge to `quarterdeck.cel`.

The cel package reads schemas in their JSON form and trusts it. `plain_schema` gives it that form back
from a compiled node, with everything in it that rules can see and nothing malformed. It is imported when
the first rule turns up: a server without rules does not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire.fielderror import ErrorKind, FieldError

from .lenient import text
from .node import ABSENT, SchemaNode

if TYPE_CHECKING:
    from quarterdeck.cel.rule.rules import CompiledRules, RuleViolation


_KINDS: Final = {
    "Invalid": ErrorKind.INVALID,
    "Required": ErrorKind.REQUIRED,
    "Forbidden": ErrorKind.FORBIDDEN,
    "Duplicate": ErrorKind.DUPLICATE,
    "NotSupported": ErrorKind.NOT_SUPPORTED,
    "InternalError": ErrorKind.INTERNAL,
}
_RULE_TEXTS: Final = ("rule", "message", "messageExpression", "fieldPath", "reason")


def compile_rules(node: SchemaNode, *, is_resource: bool = True) -> CompiledRules:
    """The rules at and below a node; expressions are compiled when they first run."""
    from quarterdeck.cel.rule.rules import CompiledRules

    return CompiledRules.compile(plain_schema(node), is_root=is_resource)


def rule_violations(
    rules: CompiledRules, new: Any, old: Any, warn: Callable[[str], None]
) -> list[FieldError]:
    """What the rules have against a whole object; `old` is the stored one on an update, else ABSENT.

    What is forgiven, because it was there before, is told to `warn`.
    """
    forgiven: list[RuleViolation] = []
    found = rules.validate(new) if old is ABSENT else rules.validate(new, old, forgiven=forgiven)
    for violation in forgiven:
        warn(str(violation))
    return [FieldError(_KINDS[violation.kind], violation.field, violation.body) for violation in found]


def rule_errors(node: SchemaNode, path: str) -> list[FieldError]:
    """Why the rules of a CRD's schema are refused: they do not compile, or cost too much."""
    errors = compile_rules(node).errors(path)
    return [FieldError(_KINDS[error.kind], error.path, error.body) for error in errors]


def default_violations(node: SchemaNode, value: Any, path: str, is_resource: bool) -> list[FieldError]:
    """What the rules have against a default, both where it stays and where it is new."""
    rules = compile_rules(node, is_resource=is_resource)
    found = rules.validate(value, value, path=path, ratchet=False) or rules.validate(value, path=path)
    return [FieldError(_KINDS[violation.kind], violation.field, violation.body) for violation in found]


class FieldPathError(QuarterdeckError, ValueError):
    """A path that names no field of a schema, in upstream's words."""


class FieldTree:
    """The fields of schemas, for paths that name one of them; each schema is read once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Json]] = {}

    def resolve(self, path: str, schema: object, *, allow_keys: bool = True) -> tuple[str, str]:
        """The field that a path such as `.spec.m['key']` names, and its type. Raises FieldPathError.

        `allow_keys` admits the notation with brackets.
        """
        from quarterdeck.cel.rule import field_path

        try:
            name, found = field_path.resolve(path, self._fields(schema), allow_keys=allow_keys)
        except field_path.FieldPathError as error:
            raise FieldPathError(str(error)) from None
        return name, text(found, "type")

    def _fields(self, raw: object) -> Json:
        if not isinstance(raw, dict):
            return {}
        if id(raw) not in self._known:
            properties, additional = raw.get("properties"), raw.get("additionalProperties")
            fields: Json = {"type": text(raw, "type")}
            if isinstance(properties, dict):
                fields["properties"] = {key: self._fields(child) for key, child in properties.items()}
            if isinstance(additional, dict):
                fields["additionalProperties"] = self._fields(additional)
            self._known[id(raw)] = raw, fields  # kept, so that its id stays its own
        return self._known[id(raw)][1]


def plain_schema(node: SchemaNode) -> Json:
    """The JSON form of a node: types and limits, without what only validation needs."""
    schema: Json = {}
    for key, value in (
        ("type", node.type),
        ("format", node.format),
        ("nullable", node.nullable),
        ("default", node.default),
        ("required", list(node.required)),
        ("enum", list(node.enum)),
        ("maxLength", node.max_length),
        ("maxItems", node.max_items),
        ("maxProperties", node.max_properties),
        ("x-kubernetes-int-or-string", node.int_or_string),
        ("x-kubernetes-preserve-unknown-fields", node.preserve_unknown),
        ("x-kubernetes-embedded-resource", node.embedded_resource),
        ("x-kubernetes-list-type", node.list_type),
        ("x-kubernetes-list-map-keys", list(node.list_map_keys)),
        ("x-kubernetes-map-type", node.map_type),
        ("x-kubernetes-validations", [_plain_rule(rule) for rule in node.rules]),
    ):
        if value is not None and value is not False and value != "" and value != []:
            schema[key] = value
    if node.properties:
        schema["properties"] = {key: plain_schema(child) for key, child in node.properties.items()}
    if node.additional is not None:
        schema["additionalProperties"] = plain_schema(node.additional)
    elif node.additional_allowed is not None:
        schema["additionalProperties"] = node.additional_allowed
    if node.items is not None:
        schema["items"] = plain_schema(node.items)
    return schema


def _plain_rule(rule: Json) -> Json:
    plain: Json = {key: text(rule, key) for key in _RULE_TEXTS if text(rule, key)}
    if isinstance(rule.get("optionalOldSelf"), bool):
        plain["optionalOldSelf"] = rule["optionalOldSelf"]
    return plain
