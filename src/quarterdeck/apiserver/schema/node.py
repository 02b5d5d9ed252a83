"""What a structural schema says: an immutable tree of nodes.

Flags such as `has_defaults` say whether a subtree has anything to do for a pass, so that passes skip
the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json


class Absent(Enum):
    """The one value of this type stands for "there is no value", where None is the JSON null."""

    ABSENT = 0


ABSENT: Final = Absent.ABSENT
INT_OR_STRING: Final[tuple[str, ...]] = ("integer", "string")


class SchemaNode(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One node. Texts are "" and limits None where the schema says nothing."""

    type: str
    #: what the type check accepts: `(type,)`, integer and string for int-or-string, or nothing
    types: tuple[str, ...]
    nullable: bool
    #: None means no default: upstream does not tell a null default from none
    default: Any
    properties: Mapping[str, SchemaNode]
    #: the schema of map values
    additional: SchemaNode | None
    #: additionalProperties as written: None not at all, otherwise whether further keys are allowed
    additional_allowed: bool | None
    items: SchemaNode | None
    list_type: str
    list_map_keys: tuple[str, ...]
    map_type: str
    preserve_unknown: bool
    embedded_resource: bool
    int_or_string: bool
    rules: tuple[Json, ...]

    #: only formats that are checked for this type, unless compiled as `loose`
    format: str
    pattern: str
    enum: tuple[Any, ...]
    required: tuple[str, ...]
    minimum: float | None
    maximum: float | None
    exclusive_minimum: bool
    exclusive_maximum: bool
    multiple_of: float | None
    min_length: int | None
    max_length: int | None
    min_items: int | None
    max_items: int | None
    min_properties: int | None
    max_properties: int | None
    all_of: tuple[SchemaNode, ...]
    any_of: tuple[SchemaNode, ...]
    one_of: tuple[SchemaNode, ...]
    not_: SchemaNode | None

    #: a default somewhere in this subtree (this node's own included)
    has_defaults: bool
    #: an embedded resource somewhere in this subtree
    has_embedded: bool
    #: a list of type set or map somewhere in this subtree
    has_keyed_lists: bool
    #: x-kubernetes-validations somewhere in this subtree
    has_rules: bool

    #: properties with a default, properties with defaults below them, properties that hold numbers,
    #: and properties that hold more than a scalar
    defaulted: tuple[tuple[str, SchemaNode], ...]
    filled: tuple[tuple[str, SchemaNode], ...]
    numeric: tuple[str, ...]
    nested: tuple[tuple[str, SchemaNode], ...]

    #: closures derived from this node at first use, by purpose; no part of what the node says
    compiled: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def is_keyed_list(self) -> bool:
        return self.list_type == "map" and self.type == "array" and bool(self.list_map_keys)

    def child(self, key: str) -> SchemaNode | None:
        """The schema of an object's field or a map's value."""
        return self.properties.get(key) or self.additional


def is_numeric(node: SchemaNode) -> bool:
    """Whether a number may stand at a node."""
    return node.type in ("", "integer", "number") or node.int_or_string


def is_scalar(node: SchemaNode) -> bool:
    """Whether only a string, a number or a boolean may stand at a node."""
    return node.type in ("string", "integer", "number", "boolean") or node.int_or_string
