"""Defaults in a CRD's schema: each must itself be valid, without unknown fields.

A default inside metadata (of the resource or an embedded one) is judged as part of a whole object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire.fielderror import FieldError, invalid
from quarterdeck.wire.jsonvalue import deep_copy, same

from . import objectmeta, pruning
from .celrules import default_violations
from .node import SchemaNode
from .structural import compile_schema
from .validation import validate

#: builds the smallest embedded resource that has a value at a given place
_Around = Callable[[Any], Json]

_META: Final = ("apiVersion", "kind", "metadata")


def default_errors(root: SchemaNode, path: str, *, require_pruned: bool = True) -> list[FieldError]:
    """What is wrong with the defaults of a schema (compiled as `loose`)."""
    if not root.has_defaults:
        return []
    if not root.embedded_resource:
        root = msgspec.structs.replace(root, embedded_resource=True, has_embedded=True, compiled={})
    return list(_Checker(require_pruned).check(root, path, root, _as_resource, in_meta=False))


def has_unpruned_defaults(raw: object) -> bool:
    """Whether some default has fields its schema does not know; only old CRDs may have such."""
    errors = default_errors(compile_schema(raw, loose=True), "")
    return any(error.body.endswith(": must not have unknown fields") for error in errors)


def _as_resource(value: Any) -> Json:
    obj = value if isinstance(value, dict) else {}
    return {"kind": "Validation", "apiVersion": "validation/v1", **obj}


def _below(around: _Around, key: str) -> _Around:
    return lambda value: around({key: value})


def _in_list(around: _Around) -> _Around:
    return lambda value: around([value])


class _Checker:
    def __init__(self, require_pruned: bool) -> None:
        self._require_pruned = require_pruned

    def check(
        self, node: SchemaNode, path: str, resource: SchemaNode, around: _Around, *, in_meta: bool
    ) -> Iterator[FieldError]:
        if not node.has_defaults:
            return
        if node.embedded_resource:
            in_meta, around, resource = False, _as_resource, node
        if node.default is not None:
            where = f"{path}.default"
            if in_meta:
                yield from self._meta_errors(node, where, resource, around)
            else:
                yield from self._errors(node, where, is_resource=node is resource)
        if node.items is not None:
            yield from self.check(node.items, f"{path}.items", resource, _in_list(around), in_meta=in_meta)
        for key, child in node.properties.items():
            yield from self.check(
                child,
                f"{path}.properties[{key}]",
                resource,
                _below(around, key),
                in_meta=in_meta or (node.embedded_resource and key in _META),
            )

    def _errors(self, node: SchemaNode, where: str, *, is_resource: bool) -> list[FieldError]:
        errors: list[FieldError] = []
        value = deep_copy(node.default)
        if self._require_pruned:
            pruned = deep_copy(value)
            pruning.prune(pruned, node, is_resource=False)
            if not same(pruned, value):
                errors.append(invalid(where, value, "must not have unknown fields"))
        try:
            objectmeta.coerce(value, node, where)
        except objectmeta.DecodeError as error:
            return [*errors, error.error or invalid(where, value, str(error))]
        found = objectmeta.embedded_errors(value, node, where) or validate(value, node, prefix=where)
        return errors + (found or _rule_errors(node, where, is_resource=is_resource))

    def _meta_errors(
        self, node: SchemaNode, where: str, resource: SchemaNode, around: _Around
    ) -> list[FieldError]:
        value = deep_copy(node.default)
        obj = around(deep_copy(value))
        try:
            objectmeta.coerce(obj, resource)
        except objectmeta.DecodeError as error:
            return [invalid(where, value, f"must result in valid metadata: {error}")]
        found = objectmeta.embedded_errors(obj, resource)
        if found:
            texts = list(dict.fromkeys(map(str, found)))
            shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            return [invalid(where, value, f"must result in valid metadata: {shown}")]
        return validate(value, node, prefix=where) or _rule_errors(node, where, is_resource=False)


def _rule_errors(node: SchemaNode, where: str, *, is_resource: bool) -> list[FieldError]:
    return default_violations(node, node.default, where, is_resource) if node.has_rules else []
