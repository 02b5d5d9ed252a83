"""Markers: what a type declares beyond its Python type, for the CRD schema.

They go into ``Annotated`` on a field, or (``Cel``, ``Preserve``, the ``*Of`` helpers) into the class
keyword ``rules=`` of a model::

    class PoolSpec(Model, rules=[Cel("has(self.cidr)", message="cidr must be set")]):
        cidr: Annotated[str, Format("cidr")]
        size: Annotated[int, Ge(16), Le(28)] = 24
        taints: Annotated[Seq[Taint], ListMap("key", "effect")] = omitempty(())

Markers are data. They change nothing in decoding: the API server enforces them. How each one maps to
OpenAPI and to the kubebuilder marker of the same purpose is written at the marker.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec


class Marker(msgspec.Struct, frozen=True, eq=False):
    """Base of the markers with named values; foreign ``Annotated`` metadata is left alone."""


class _Variadic:
    """Base of the markers that take any number of values."""


class Ge(Marker, frozen=True):
    """``minimum``."""

    value: float


class Gt(Marker, frozen=True):
    """``minimum`` with ``exclusiveMinimum: true``."""

    value: float


class Le(Marker, frozen=True):
    """``maximum``."""

    value: float


class Lt(Marker, frozen=True):
    """``maximum`` with ``exclusiveMaximum: true``."""

    value: float


class MultipleOf(Marker, frozen=True):
    """``multipleOf``."""

    value: float


class Len(Marker, frozen=True):
    """Size limits of a string (characters), list (items) or map (properties)."""

    min: int | None = None
    max: int | None = None


class Pattern(Marker, frozen=True):
    """``pattern``: a regular expression the text must contain a match of (anchor it yourself)."""

    value: str


class Format(Marker, frozen=True):
    """``format``: ``cidr``, ``date-time``, ``int32`` …"""

    value: str


class Enum(_Variadic):
    """``enum`` without a closed Python type: values outside the set still decode."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        self.values = values


class Unique(Marker, frozen=True):
    """Refused by structural schemas (``uniqueItems: true``); here so that the error can say so."""


class Required(Marker, frozen=True):
    """Required in the schema although the Python field has a default.

    For types that must also build apply configurations, where every field is optional.
    """


class Optional(Marker, frozen=True):
    """Not required in the schema although the Python field has no default."""


class Nullable(Marker, frozen=True):
    """``nullable: true`` without ``None`` in the Python type; ``Nullable(False)`` the other way round."""

    value: bool = True


class Default(Marker, frozen=True):
    """``default`` in the schema while the Python default stays ``UNSET`` or empty."""

    value: Any


class Doc(Marker, frozen=True):
    """``description``; wins over docstrings."""

    text: str


class ListMap(_Variadic):
    """``x-kubernetes-list-type: map`` with its keys."""

    keys: tuple[str, ...]

    def __init__(self, *keys: str) -> None:
        self.keys = keys


class ListSet(Marker, frozen=True):
    """``x-kubernetes-list-type: set``."""


class Atomic(Marker, frozen=True):
    """Replaced as a whole by server-side apply: list type or map type ``atomic``."""


CelReason = Literal[
    "", "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"
]


class Cel(Marker, frozen=True):
    """One entry of ``x-kubernetes-validations``."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: CelReason = ""
    field_path: str = ""
    optional_old_self: bool = False


class Preserve(Marker, frozen=True):
    """``x-kubernetes-preserve-unknown-fields: true``: the server does not prune below."""


class Embedded(Marker, frozen=True):
    """``x-kubernetes-embedded-resource: true``: a whole API object inside."""


class XIntOrString(Marker, frozen=True):
    """``x-kubernetes-int-or-string: true``."""


class OneOf(_Variadic):
    """``oneOf``: exactly one branch holds. Branches are value validations in OpenAPI terms."""

    branches: tuple[Mapping[str, Any], ...]

    def __init__(self, *branches: Mapping[str, Any]) -> None:
        self.branches = branches


class AnyOf(_Variadic):
    """``anyOf``: at least one branch holds."""

    branches: tuple[Mapping[str, Any], ...]

    def __init__(self, *branches: Mapping[str, Any]) -> None:
        self.branches = branches


class AllOf(_Variadic):
    """``allOf``: every branch holds."""

    branches: tuple[Mapping[str, Any], ...]

    def __init__(self, *branches: Mapping[str, Any]) -> None:
        self.branches = branches


class Not(Marker, frozen=True):
    """``not``: the branch does not hold."""

    branch: Mapping[str, Any]


class Schema(Marker, frozen=True):
    """Keys laid over the generated schema as they are, for what has no marker of its own."""

    value: Mapping[str, Any]


MARKERS: Final = (Marker, _Variadic)
"""For ``isinstance``."""

Int32 = Format("int32")
"""``Annotated[int, Int32]``: a 32-bit integer."""

Int64 = Format("int64")
"""``Annotated[int, Int64]``: a 64-bit integer."""
