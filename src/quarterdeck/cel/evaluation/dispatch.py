"""Choice of a function overload by the run-time types of the arguments."""

from __future__ import annotations

from collections.abc import Sequence

from quarterdeck.cel.declaration import Implementation, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.type.celtype import CelType
from quarterdeck.cel.value.value import Duration, Timestamp, TypeValue, UInt, Value, type_name

_EXACT: dict[str, type] = {
    "bool": bool,
    "int": int,
    "uint": UInt,
    "double": float,
    "string": str,
    "bytes": bytes,
    "null": type(None),
    "timestamp": Timestamp,
    "duration": Duration,
    "type": TypeValue,
}


def accepts(t: CelType, value: Value) -> bool:
    """Whether a value may be passed where `t` is declared; of containers the first entry is looked at."""
    kind = t.kind
    exact = _EXACT.get(kind)
    if exact is not None:
        return type(value) is exact
    if kind in ("dyn", "param"):
        return True
    if kind == "list":
        return isinstance(value, list) and (not value or accepts(t.params[0], value[0]))
    if kind == "map":
        if not isinstance(value, dict):
            return False
        for key, item in value.items():
            return accepts(t.params[0], key) and accepts(t.params[1], item)
        return True
    return type_name(value) == t.name


def mismatch(name: str, args: Sequence[Value]) -> EvalError:
    """The error for arguments no overload takes."""
    return EvalError(f"no such overload: {name}({', '.join(type_name(arg) for arg in args)})")


def dispatcher(name: str, overloads: Sequence[Overload]) -> Implementation:
    """A callable that picks the first overload whose declared types accept the arguments."""
    if not overloads[0].is_guarded:
        return overloads[0].implementation

    def call(*args: Value) -> Value:
        for overload in overloads:
            if len(overload.args) == len(args) and all(map(accepts, overload.args, args)):
                return overload.implementation(*args)
        raise mismatch(name, args)

    return call
