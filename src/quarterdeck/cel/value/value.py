"""Run-time values of CEL that Python lacks, and the names and printed forms of all values.

A CEL value is one of: None, bool, int (int64), `UInt`, float, str, bytes, `Timestamp`, `Duration`, list,
dict, `OptionalValue`, `TypeValue`, `StructValue`, or an opaque object of a library (`Opaque`). JSON data
is used as it is: objects are dicts, arrays lists. Values are immutable by convention: no function changes its
arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from quarterdeck.cel.error import CostLimitExceeded, EvalError
from quarterdeck.wire.gonumber import fixed_text, float_text

# Dynamically typed by nature: which Python types occur is said above.
Value: TypeAlias = Any

MIN_INT: Final = -(1 << 63)
MAX_INT: Final = (1 << 63) - 1
MAX_UINT: Final = (1 << 64) - 1
MOST_ITEMS: Final = 2_000_000
"""Parts of the largest value that is built or written out: more than any object has."""
MOST_TEXT: Final = 1 << 24
"""Characters of the longest text that is built."""
NANOS: Final = 1_000_000_000
MIN_TIME: Final = -62135596800
MAX_TIME: Final = 253402300799


class UInt(int):
    """Unsigned 64-bit integer."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


class Duration:
    """Signed span of time in nanoseconds (int64)."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos

    def __lt__(self, other: Duration) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Duration) -> bool:
        return self.nanos <= other.nanos

    def __hash__(self) -> int:
        return hash(("duration", self.nanos))

    def __repr__(self) -> str:
        return f"Duration({self})"

    def __str__(self) -> str:
        whole, part = divmod(abs(self.nanos), NANOS)
        seconds = whole + part / 1e9
        return f"{fixed_text(-seconds if self.nanos < 0 else seconds)}s"


class Timestamp:
    """Instant in nanoseconds since 1970 UTC; `offset` (seconds east) only matters for printing."""

    __slots__ = ("nanos", "offset")

    def __init__(self, nanos: int, offset: int = 0) -> None:
        self.nanos = nanos
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Timestamp) -> bool:
        return self.nanos <= other.nanos

    def __hash__(self) -> int:
        return hash(("timestamp", self.nanos))

    def __repr__(self) -> str:
        return f"Timestamp({self})"

    def __str__(self) -> str:
        from quarterdeck.cel.value.gotime import format_rfc3339

        return format_rfc3339(self.nanos, self.offset)


class OptionalValue:
    """`optional.of(value)`, or `optional.none()` as `OptionalValue.NONE`."""

    __slots__ = ("_value",)
    NONE: ClassVar[OptionalValue]

    def __init__(self, value: Value) -> None:
        self._value = value

    def has_value(self) -> bool:
        """Whether there is a value."""
        return self is not OptionalValue.NONE

    @property
    def value(self) -> Value:
        """The value; EvalError when there is none."""
        if self is OptionalValue.NONE:
            raise EvalError("optional.none() dereference")
        return self._value

    def __repr__(self) -> str:
        return f"optional.of({self._value!r})" if self.has_value() else "optional.none()"


OptionalValue.NONE = OptionalValue(None)


class TypeValue:
    """A type as a value: `type(1)`, `int`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(("type", self.name))

    def __repr__(self) -> str:
        return self.name


class StructValue:
    """Value built by a message literal such as `Object.spec{replicas: 1}`."""

    __slots__ = ("fields", "type_name")

    def __init__(self, type_name: str, fields: Mapping[str, Value]) -> None:
        self.type_name = type_name
        self.fields = fields

    def __repr__(self) -> str:
        return f"{self.type_name}{dict(self.fields)!r}"


class Opaque:
    """Base of library values (quantity, url, ip ...): equality is the subclass's, size is for cost only."""

    __slots__ = ()
    type_name: ClassVar[str]

    def cost_size(self) -> int | None:
        """Number of units the value counts for in run-time cost, if it has a size."""
        return None


class SetList(list[Value]):
    """List of x-kubernetes-list-type set: `==` ignores order, `+` is a union."""

    __slots__ = ()


class MapList(list[Value]):
    """List of x-kubernetes-list-type map: `==` goes by key, `+` merges by key."""

    __slots__ = ("keys",)

    def __init__(self, items: Iterable[Value], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys


_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    SetList: "list",
    MapList: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    OptionalValue: "optional_type",
    TypeValue: "type",
}


def type_name(value: Value) -> str:
    """Run-time type name: `int`, `map`, `google.protobuf.Duration` ..."""
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    if isinstance(value, (Opaque, StructValue)):
        return value.type_name
    if isinstance(value, Mapping):
        return "map"
    if isinstance(value, list):
        return "list"
    return type(value).__name__


def check_extent(value: Value) -> None:
    """Raises CostLimitExceeded for a value that has more than `MOST_ITEMS` parts when it is written out.

    A value may hold the same part many times over, at many depths: it is small, its text is not.
    """
    if isinstance(value, (list, dict)) and _extent(value, {}) > MOST_ITEMS:
        raise CostLimitExceeded


def _extent(value: list[Value] | dict[Value, Value], known: dict[int, int]) -> int:
    found = known.get(id(value))
    if found is None:
        parts = value.values() if isinstance(value, dict) else value
        found = len(value)
        for part in parts:
            if isinstance(part, (list, dict)):
                found += _extent(part, known)
        known[id(value)] = found
    return found


def display(value: Value) -> str:
    """The form a value takes inside run-time error texts."""
    check_extent(value)
    return _display(value)


def _display(value: Value) -> str:
    if value is None:
        return "NULL_VALUE"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, bytes):
        return "[" + " ".join(str(b) for b in value) + "]"
    if isinstance(value, list):
        return "[" + ", ".join(_display(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_display(k)}: {_display(v)}" for k, v in value.items()) + "}"
    return str(value)


def to_python(value: Value) -> Value:
    """Convert a result for callers: plain lists and dicts, structs as dicts."""
    check_extent(value)
    return _to_python(value)


def _to_python(value: Value) -> Value:
    if isinstance(value, list):
        return [_to_python(item) for item in value]
    if isinstance(value, dict):
        return {key: _to_python(item) for key, item in value.items()}
    return value
