"""The functions that templates of Stages may call: Go's own, KWOK's, and the usual ones of its library.

Those that depend on the time and on the pod are made anew for each rendering.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import yaml

from quarterdeck.cluster.stage.template import is_true, shown

_VERB: Final = re.compile(r"%[svdqt%]")
_CONDITIONS: Final = (
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
)


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a template may ask beside its object."""

    now: str
    """As RFC 3339 has it."""
    started: str
    """The same, when the simulation began."""
    node_ip: str
    pod_ip: str


def functions(around: Surroundings) -> dict[str, Callable[..., Any]]:
    """All of them, for one rendering."""
    return {
        **_PURE,
        "Now": lambda: around.now,
        "StartTime": lambda: around.started,
        "NodeIP": lambda: around.node_ip,
        "NodeIPWith": lambda _: around.node_ip,
        "NodeIPsWith": lambda _: [around.node_ip],
        "PodIP": lambda: around.pod_ip,
        "PodIPWith": lambda *_: around.pod_ip,
        "PodIPsWith": lambda *_: [around.pod_ip],
    }


def _quote(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return msgspec.json.encode(text).decode()


def _yaml(value: Any, indent: int = 0) -> str:
    text: str = yaml.safe_dump(value, sort_keys=True, default_flow_style=False)
    return text if not indent else f"\n{text}".replace("\n", f"\n{'  ' * indent}")


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list | str) and isinstance(key, int):
            if not 0 <= key < len(value):
                raise IndexError(f"index {key} is out of range")
            value = value[key]
        else:
            raise TypeError(f"cannot take {shown(key)} of {shown(value)}")
    return value


def _printf(form: str, *values: Any) -> str:
    if "%" in _VERB.sub("", form):
        raise ValueError(f"{form!r} has a verb that is not available here")
    left = list(values)

    def put(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        value = left.pop(0) if left else None
        return _quote(value) if found[0] == "%q" else shown(value)

    return _VERB.sub(put, form)


def _number(value: Any) -> int:
    return int(float(value or 0))


def _over(whole: Callable[[int, int], int]) -> Callable[..., int]:
    def result(first: Any, *others: Any) -> int:
        found = _number(first)
        for each in others:
            found = whole(found, _number(each))
        return found

    return result


def _first_of(*values: Any) -> Any:
    return next((each for each in values if is_true(each)), None)


def _pairs(*values: Any) -> dict[str, Any]:
    return {shown(key): value for key, value in zip(values[::2], (*values[1::2], ""), strict=False)}


_PURE: Final[Mapping[str, Callable[..., Any]]] = {
    # Go's own; `and` and `or` are the template's
    "and": lambda *_: None,
    "or": lambda *_: None,
    "not": lambda value: not is_true(value),
    "eq": lambda one, *others: any(one == each for each in others),
    "ne": lambda one, other: one != other,
    "lt": lambda one, other: one < other,
    "le": lambda one, other: one <= other,
    "gt": lambda one, other: one > other,
    "ge": lambda one, other: one >= other,
    "index": _index,
    "len": lambda value: len(value),
    "print": lambda *values: "".join(map(shown, values)),
    "printf": _printf,
    # KWOK's
    "Quote": _quote,
    "YAML": _yaml,
    "NodeConditions": lambda: [
        {"type": kind, "status": status, "reason": reason, "message": text}
        for kind, status, reason, text in _CONDITIONS
    ],
    # the usual ones of its library
    "add": _over(lambda one, other: one + other),
    "sub": _over(lambda one, other: one - other),
    "mul": _over(lambda one, other: one * other),
    "div": _over(lambda one, other: one // other),
    "mod": _over(lambda one, other: one % other),
    "max": _over(max),
    "min": _over(min),
    "int": _number,
    "int64": _number,
    "coalesce": _first_of,
    "contains": lambda part, text: part in text,
    "default": lambda other, value=None: value if is_true(value) else other,
    "dict": _pairs,
    "empty": lambda value: not is_true(value),
    "hasKey": lambda value, key: key in value,
    "hasPrefix": lambda part, text: text.startswith(part),
    "hasSuffix": lambda part, text: text.endswith(part),
    "join": lambda mark, values: mark.join(map(shown, values)),
    "list": lambda *values: list(values),
    "lower": lambda text: text.lower(),
    "quote": lambda *values: " ".join(_quote(shown(each)) for each in values if each is not None),
    "replace": lambda old, new, text: text.replace(old, new),
    "ternary": lambda one, other, condition: one if condition else other,
    "toJson": lambda value: msgspec.json.encode(value).decode(),
    "toString": shown,
    "trim": lambda text: text.strip(),
    "trimPrefix": lambda part, text: text.removeprefix(part),
    "trimSuffix": lambda part, text: text.removesuffix(part),
    "upper": lambda text: text.upper(),
}

KNOWN: Final = frozenset(functions(Surroundings(now="", started="", node_ip="", pod_ip="")))
"""The names of all functions."""
