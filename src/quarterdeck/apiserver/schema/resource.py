"""What the server asks the schema of one CRD version.

    schema = ResourceSchema(open_api_v3_schema, scale=..., has_status=True)
    unknown = schema.decode(obj)            # a request body, in place
    schema.fill(obj)
    errors = schema.validate_create(obj)

Nothing is compiled before it is needed: a server with many CRDs starts without looking at their schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire.fielderror import ErrorKind, FieldError, invalid

from . import defaulting, objectmeta, pruning
from .celrules import compile_rules, rule_violations
from .digest import digest
from .keyedlist import duplicate_errors
from .node import ABSENT, SchemaNode
from .scale import scale_errors
from .structural import compile_schema
from .validation import validate

if TYPE_CHECKING:
    from quarterdeck.cel.rule.rules import CompiledRules


_BLOCKING: Final = frozenset(
    (
        ErrorKind.REQUIRED,
        ErrorKind.NOT_SUPPORTED,
        ErrorKind.TOO_LONG,
        ErrorKind.TOO_MANY,
        ErrorKind.TYPE_INVALID,
    )
)
_BLOCKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def _keep_number(node: SchemaNode, scale: Mapping[str, Any] | None) -> SchemaNode:
    """A schema that leaves the replicas of a scale as they were sent: 1.0 is no count to upstream."""
    keys = str((scale or {}).get("specReplicasPath") or "").removeprefix(".").split(".")
    return _without_numeric(node, keys)


def _without_numeric(node: SchemaNode, keys: list[str]) -> SchemaNode:
    key, *rest = keys
    if not rest:
        return replace(node, numeric=tuple(name for name in node.numeric if name != key))
    child = node.properties.get(key)
    if child is None:
        return node
    changed = _without_numeric(child, rest)
    nested = tuple((name, changed if name == key else each) for name, each in node.nested)
    return replace(node, properties={**node.properties, key: changed}, nested=nested)


Warn = Callable[[str], None]


def _ignore(text: str) -> None:
    return


class _Compiled:
    """What is made of a schema for its work."""

    def __init__(self, raw: Mapping[str, Any], scale: Json | None) -> None:
        self._raw = raw
        self._scale = scale

    @cached_property
    def node(self) -> SchemaNode:
        return _keep_number(compile_schema(self._raw), self._scale)

    @cached_property
    def rules(self) -> CompiledRules:
        return compile_rules(self.node)


#: the last ones: a definition is served anew at each change of it, and by every server of a process
_compiled: Final[dict[bytes, _Compiled]] = {}
_REMEMBERED: Final = 64


def _compile_once(raw: Mapping[str, Any], scale: Json | None) -> _Compiled:
    key = digest([raw, scale])
    found = _compiled.get(key)
    if found is None:
        found = _Compiled(raw, scale)
        if key:
            _compiled[key] = found
        if len(_compiled) > _REMEMBERED:
            _compiled.pop(next(iter(_compiled)), None)
    return found


class ResourceSchema:
    """The schema of a CRD version at work on custom resources.

    raw: the openAPIV3Schema; None or {} knows no field.
    scale: the scale subresource of the version, whose paths are checked as well.
    """

    def __init__(self, raw: Mapping[str, Any] | None, *, scale: Mapping[str, Any] | None = None) -> None:
        self.raw: Mapping[str, Any] = raw or {}
        self._scale = dict(scale) if scale else None

    @cached_property
    def node(self) -> SchemaNode:
        return self._compiled.node

    @cached_property
    def _compiled(self) -> _Compiled:
        return _compile_once(self.raw, self._scale)

    @cached_property
    def _status(self) -> SchemaNode | None:
        return self.node.properties.get("status")

    @property
    def has_cel(self) -> bool:
        """Whether the schema has CEL rules."""
        return self.node.has_rules

    def decode(self, obj: Json, *, keep_nulls: bool = False) -> list[str]:
        """Bring a parsed document into shape, in place, and return its unknown fields.

        Drops unknown fields and nulls that may not be, cleans the metadata of the object and of embedded
        resources. Unknown fields come in upstream's order: the object's metadata, then everything
        else sorted, then the metadata of embedded resources. Raises DecodeError.
        """
        try:
            clean, keys = objectmeta.normalized(obj.get("metadata"))
            unknown = [f"metadata.{key}" for key in keys]
            unknown += pruning.prune(obj, self.node)
            defaulting.drop_nulls(obj, self.node, keep=keep_nulls)
            unknown += objectmeta.coerce(obj, self.node)
        except RecursionError:
            raise objectmeta.DecodeError("the document is nested too deeply") from None
        obj["metadata"] = clean
        return unknown

    def decode_changed(self, obj: Json, settled: Json) -> list[str]:
        """Like `decode`, for an object that shares fields with one in shape: those are left as they are.

        Only the metadata is made `obj`'s own, because every write edits it.
        """
        changed = {key: value for key, value in obj.items() if value is not settled.get(key, ABSENT)}
        names = list(changed)
        if "metadata" not in changed:
            changed["metadata"] = None
            obj["metadata"] = dict(settled["metadata"])
        unknown = self.decode(changed)
        for name in names:
            if name in changed:
                obj[name] = changed[name]
            else:
                del obj[name]
        return unknown

    def prune(self, obj: Json) -> None:
        """Drop unknown fields; for objects read from storage or converted, whose metadata is in order."""
        pruning.prune(obj, self.node)

    def default(self, obj: Json) -> None:
        """Fill in defaults and drop nulls; for objects read from storage."""
        defaulting.default(obj, self.node)

    def fill(self, obj: Json) -> None:
        """Fill in defaults; for objects that `decode` has seen, whose nulls are in order."""
        defaulting.fill(obj, self.node)

    def validate_create(self, obj: Json) -> list[FieldError]:
        errors = validate(obj, self.node)
        errors += self._scale_errors(obj, with_spec=True)
        errors += objectmeta.embedded_errors(obj, self.node)
        errors += duplicate_errors(obj, self.node)
        return self._with_rules(errors, obj, ABSENT)

    def validate_update(self, obj: Json, old: Json, warn: Warn = _ignore) -> list[FieldError]:
        """Like `validate_create`, but forgives what was already wrong in `old` and has not changed.

        Rules that are forgiven are told to `warn`.
        """
        errors = validate(obj, self.node, old)
        errors += self._scale_errors(obj, with_spec=True)
        errors += objectmeta.embedded_errors(obj, self.node)
        errors += self._new_duplicates(obj, old)
        return self._with_rules(errors, obj, old, warn)

    def validate_status_update(self, obj: Json, old: Json, warn: Warn = _ignore) -> list[FieldError]:
        """A write to /status: only `.status` is checked, but list types and rules of the whole object."""
        errors: list[FieldError] = []
        if "status" in obj and self._status is not None:
            errors += validate(obj["status"], self._status, old.get("status", ABSENT), prefix="status")
        errors += self._scale_errors(obj, with_spec=False)
        errors += self._new_duplicates(obj, old)
        return self._with_rules(errors, obj, old, warn)

    def _new_duplicates(self, obj: Json, old: Json) -> list[FieldError]:
        errors = duplicate_errors(obj, self.node)
        return errors if errors and not duplicate_errors(old, self.node) else []

    def _with_rules(
        self, errors: list[FieldError], obj: Json, old: Any, warn: Warn = _ignore
    ) -> list[FieldError]:
        """`errors` and what the CEL rules add; rules do not run on an object with a broken structure."""
        if not self.has_cel:
            return errors
        if any(error.kind in _BLOCKING for error in errors):
            return [*errors, invalid("", None, _BLOCKED)]
        return errors + rule_violations(self._compiled.rules, obj, old, warn)

    def _scale_errors(self, obj: Json, *, with_spec: bool) -> list[FieldError]:
        return scale_errors(obj, self._scale, with_spec=with_spec) if self._scale else []
