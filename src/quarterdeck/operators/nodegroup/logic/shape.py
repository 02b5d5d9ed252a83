"""JSON types and unknown fields: does a document fit the schema of its version?

``fit(version, document)`` refuses wrong JSON types, with the path, and drops fields that the version does
not know, as the API server does. Enumerations, patterns and ranges are not its business: an object that was
stored under an older schema must stay convertible. ``null`` is accepted everywhere and kept.

The checks are compiled once per version from the generated schema. A document that fits, as almost all do, is
recognised by ``structure`` and returned as it is; only the others are walked here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from quarterdeck.api.schema import schema_of
from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.nodegroup.types import VERSIONS

from .structure import structure_of

Document = dict[str, Any]
Fit = Callable[[Any], Any]
"""Gives the value without unknown fields: the value itself if there are none."""

_ROOTS: Final = ("spec", "status")
_KEYS: Final = frozenset({"apiVersion", "kind", "metadata", *_ROOTS})
_TYPES: Final[Mapping[str, type]] = {"string": str, "integer": int, "boolean": bool}
_NAMES: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


class ShapeError(QuarterdeckError, ValueError):
    """A value of the wrong JSON type; ``path`` grows while the error travels up."""

    def __init__(self, wanted: str, value: object) -> None:
        super().__init__(wanted, value)
        self.wanted = wanted
        self.found = _NAMES.get(type(value), "null")
        self.path = ""

    def below(self, step: str) -> ShapeError:
        self.path = f".{step}{self.path}" if not step.startswith("[") else f"{step}{self.path}"
        return self

    def __str__(self) -> str:
        return f"{self.path.lstrip('.') or 'object'}: expected {self.wanted}, got {self.found}"


def fit(version: str, document: Document) -> Document:
    """``document`` of an apiVersion without unknown fields; raises ``ShapeError``.

    ``metadata`` is taken as it is.
    """
    if not document.keys() - _KEYS and _fits(version, document):
        return document
    fitted: Document = _fit(version)(document)
    return fitted


def _fits(version: str, document: Document) -> bool:
    try:
        for root in _ROOTS:
            if root in document:
                msgspec.convert(document[root], _structure(version, root))
    except msgspec.ValidationError:
        return False
    return True


@cache
def _structure(version: str, root: str) -> Any:
    return structure_of(schema(version)["properties"][root], strict=False)


@cache
def schema(version: str) -> Mapping[str, Any]:
    """The generated schema of an apiVersion."""
    return schema_of(VERSIONS[version])


@cache
def _fit(version: str) -> Fit:
    properties = schema(version)["properties"]
    checks: dict[str, type | Fit] = {
        "apiVersion": str,
        "kind": str,
        "metadata": _any,
        "spec": _compile(properties["spec"]),
        "status": _compile(properties["status"]),
    }
    return _object(checks)


def _compile(node: Mapping[str, Any]) -> type | Fit:
    if node.get("x-kubernetes-int-or-string"):
        return _int_or_string
    kind = node.get("type", "")
    if kind in _TYPES:
        return _TYPES[kind]
    if kind == "number":
        return _number
    if kind == "array":
        return _array(_compile(node["items"]))
    if "additionalProperties" in node:
        return _map(_compile(node["additionalProperties"]))
    return _object({key: _compile(child) for key, child in node.get("properties", {}).items()})


def _any(value: Any) -> Any:
    return value


def _int_or_string(value: Any) -> Any:
    if type(value) is int or type(value) is str:
        return value
    raise ShapeError("integer or string", value)


def _number(value: Any) -> Any:
    if type(value) is int or type(value) is float:
        return value
    raise ShapeError("number", value)


def _wanted(kind: type) -> str:
    return next(name for name, known in _TYPES.items() if known is kind)


def _object(checks: Mapping[str, type | Fit]) -> Fit:
    known_as = dict(checks).get

    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise ShapeError("object", value)
        changes: Document | None = None
        unknown: list[str] | None = None
        for key, item in value.items():
            known = known_as(key)
            if type(item) is known:
                continue
            if known is None:
                if unknown is None:
                    unknown = []
                unknown.append(key)
            elif item is not None:
                try:
                    if isinstance(known, type):
                        raise ShapeError(_wanted(known), item)
                    fitted = known(item)
                except ShapeError as error:
                    raise error.below(key) from None
                if fitted is not item:
                    if changes is None:
                        changes = {}
                    changes[key] = fitted
        if unknown is None and changes is None:
            return value
        kept = {**value, **changes} if changes is not None else dict(value)
        for key in unknown or ():
            del kept[key]
        return kept

    return check


def _array(of: type | Fit) -> Fit:
    def check(value: Any) -> Any:
        if type(value) is not list:
            raise ShapeError("array", value)
        kept: list[Any] | None = None
        for index, item in enumerate(value):
            if type(item) is of or item is None:
                continue
            try:
                if isinstance(of, type):
                    raise ShapeError(_wanted(of), item)
                fitted = of(item)
            except ShapeError as error:
                raise error.below(f"[{index}]") from None
            if fitted is not item:
                kept = list(value) if kept is None else kept
                kept[index] = fitted
        return value if kept is None else kept

    return check


def _map(of: type | Fit) -> Fit:
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise ShapeError("object", value)
        for key, item in value.items():
            if type(item) is not of and item is not None:
                raise ShapeError("string", item).below(key)
        return value

    return check
