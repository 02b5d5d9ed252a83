"""Static types of CEL expressions.

Types compare by structure. A type made from a schema carries the schema's description in `shape` (sizes,
field conversion); it plays no part in equality.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from quarterdeck.cel.type.schema import Shape

Kind = Literal[
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "null",
    "timestamp",
    "duration",
    "list",
    "map",
    "struct",
    "opaque",
    "type",
    "param",
    "dyn",
    "error",
]


class CelType:
    """A static type; `str()` gives its name as printed in error texts."""

    __slots__ = ("_hash", "fields", "kind", "name", "params", "shape")

    def __init__(
        self,
        kind: Kind,
        name: str,
        params: tuple[CelType, ...] = (),
        *,
        fields: Mapping[str, CelType] | None = None,
        shape: Shape | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.name = name
        self.params = params
        self.fields = fields
        self.shape = shape
        self._hash = hash((kind, name, params))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, CelType)
            and self._hash == other._hash
            and self.kind == other.kind
            and self.name == other.name
            and self.params == other.params
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if self.params:
            return f"{self.name}({', '.join(map(str, self.params))})"
        return _SHORT.get(self.name, self.name)

    def __repr__(self) -> str:
        return f"CelType({self})"


_SHORT: Final = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "null_type": "null",
}

BOOL: Final = CelType("bool", "bool")
INT: Final = CelType("int", "int")
UINT: Final = CelType("uint", "uint")
DOUBLE: Final = CelType("double", "double")
STRING: Final = CelType("string", "string")
BYTES: Final = CelType("bytes", "bytes")
NULL: Final = CelType("null", "null_type")
TIMESTAMP: Final = CelType("timestamp", "google.protobuf.Timestamp")
DURATION: Final = CelType("duration", "google.protobuf.Duration")
DYN: Final = CelType("dyn", "dyn")
ERROR: Final = CelType("error", "!error!")
TYPE: Final = CelType("type", "type")


def list_type(element: CelType) -> CelType:
    """`list(element)`."""
    return CelType("list", "list", (element,))


def map_type(key: CelType, value: CelType) -> CelType:
    """`map(key, value)`."""
    return CelType("map", "map", (key, value))


def optional_type(inner: CelType) -> CelType:
    """`optional_type(inner)`."""
    return CelType("opaque", "optional_type", (inner,))


def object_type(name: str, fields: Mapping[str, CelType] | None = None) -> CelType:
    """A struct type; without `fields` it is opaque to selection."""
    return CelType("struct", name, fields=fields)


def opaque_type(name: str) -> CelType:
    """A type only its library can look into."""
    return CelType("opaque", name)


def type_param(name: str) -> CelType:
    """A placeholder in a function signature."""
    return CelType("param", name)


def type_type(inner: CelType) -> CelType:
    """The type of a type value."""
    return CelType("type", "type", (inner,))


def is_optional(t: CelType) -> bool:
    """Whether `t` is an optional."""
    return t.kind == "opaque" and t.name == "optional_type"


def is_dyn(t: CelType) -> bool:
    """Whether values of `t` are only known at run time."""
    return t.kind == "dyn"


class Structs:
    """Message types that literals may construct; `find` by name, `field` for the type of a field."""

    def find(self, name: str) -> CelType | None:
        """The type called `name`."""
        return None

    def field(self, name: str, field: str) -> CelType | None:
        """Type of a field of the type called `name`."""
        return None
