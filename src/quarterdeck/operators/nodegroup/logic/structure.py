"""Schemas as msgspec types, for a quick yes: most documents are in order, and that is seen in C.

``structure_of(node)`` accepts documents whose JSON types are those of the schema and that hold no unknown
field; with ``strict`` it also demands required fields, enumerations, patterns and ranges. What it refuses is
looked at again by those who can say what is wrong, and who let ``null`` pass: ``shape`` and ``validity``.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .rule import python_pattern

Node = Mapping[str, Any]


def structure_of(node: Node, *, strict: bool) -> Any:
    """The type for a schema."""
    kind = node.get("type", "")
    if node.get("x-kubernetes-int-or-string"):
        return _text(node, strict=strict) | int
    if kind == "object":
        return _object(node, strict=strict)
    if kind == "array":
        items: Any = list.__class_getitem__(structure_of(node["items"], strict=strict))
        return _sized(items, node, "Items") if strict else items
    if kind == "string":
        return _text(node, strict=strict)
    if kind == "boolean":
        return bool
    plain: Any = int if kind == "integer" else int | float
    bounds = {"ge": node.get("minimum"), "le": node.get("maximum")}
    if not strict or bounds == {"ge": None, "le": None}:
        return plain
    limits = msgspec.Meta(**bounds)
    return Annotated[int, limits] if kind == "integer" else Annotated[int, limits] | Annotated[float, limits]


def _object(node: Node, *, strict: bool) -> Any:
    if "additionalProperties" in node:
        return dict[str, structure_of(node["additionalProperties"], strict=strict)]  # type: ignore[misc]
    required = frozenset(node.get("required", ())) if strict else frozenset()
    fields: list[Any] = []
    wire: dict[str, str] = {}
    for key, child in node.get("properties", {}).items():
        name = f"{key}_" if keyword.iskeyword(key) else key
        wire[name] = key
        kind = structure_of(child, strict=strict)
        fields.append((name, kind) if key in required else (name, kind | UnsetType, UNSET))
    return msgspec.defstruct(
        "Checked", fields, rename=wire, forbid_unknown_fields=True, kw_only=True, gc=False
    )


def _text(node: Node, *, strict: bool) -> Any:
    if not strict:
        return str
    if "enum" in node:
        return Literal[tuple(node["enum"])]
    if "pattern" not in node:
        return _sized(str, node, "Length")
    pattern = msgspec.Meta(pattern=python_pattern(node["pattern"]))
    return _sized(Annotated[str, pattern], node, "Length")


def _sized(kind: Any, node: Node, what: str) -> Any:
    low, high = node.get(f"min{what}"), node.get(f"max{what}")
    if low is None and high is None:
        return kind
    return Annotated[kind, msgspec.Meta(min_length=low, max_length=high)]
