"""Schemas as msgspec types, so that documents are checked in C.

``structure_of(node)`` accepts exactly the documents whose JSON types are those of the schema and that hold no
unknown field; with ``strict`` it also demands required fields, enumerations, patterns and ranges. What a type
cannot say (``oneOf`` and its kin, ``null`` where Kubernetes lets it pass) is for the callers, ``shape`` and
``validity``.

Fields have their wire names (``from_`` for ``from``) and are sorted by them, and so is the JSON of a struct.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .rule import python_pattern

Node = Mapping[str, Any]

_Never: Final = Annotated[int, msgspec.Meta(ge=1, le=0)]
"""No JSON value is one."""


def structure_of(node: Node, *, strict: bool, beside: Sequence[Node] = ()) -> Any:
    """The type for a schema.

    ``beside`` are the schemas of the same thing in other versions: their fields get a place as well, which
    is never filled from JSON, so that a document read in one version can be turned into another.
    """
    kind = node.get("type", "")
    if node.get("x-kubernetes-int-or-string"):
        return _text(node, strict=strict) | int
    if kind == "object":
        return _object(node, strict=strict, beside=beside)
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


def _object(node: Node, *, strict: bool, beside: Sequence[Node]) -> Any:
    if "additionalProperties" in node:
        return dict[str, structure_of(node["additionalProperties"], strict=strict)]  # type: ignore[misc]
    required = frozenset(node.get("required", ())) if strict else frozenset()
    own: Mapping[str, Node] = node.get("properties", {})
    others = [other.get("properties", {}) for other in beside]
    fields: list[Any] = []
    wire: dict[str, str] = {}
    for key in sorted({*own, *(key for other in others for key in other)}):
        name = f"{key}_" if keyword.iskeyword(key) else key
        wire[name] = key
        if key not in own:
            fields.append((name, _Never | UnsetType, UNSET))
            continue
        kind = structure_of(own[key], strict=strict, beside=[other[key] for other in others if key in other])
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
