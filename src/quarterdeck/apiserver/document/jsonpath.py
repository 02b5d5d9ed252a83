"""The simple JSONPaths of CRDs: printer columns, selectable fields, scale paths.

Supported: `.a.b`, `['x']`, `[n]`, `[m:n]`, `[*]`, `[?(@.type=="Ready")]`. A path that does not lead
anywhere finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from quarterdeck.errors import QuarterdeckError

_STEP = re.compile(
    r"""
      \.(?P<field>(?:\\.|[^.\[\]\\])+)
    | \[\s*'(?P<quoted>(?:\\.|[^'\\])*)'\s*\]
    | \[\s*"(?P<double>(?:\\.|[^"\\])*)"\s*\]
    | \[\s*(?P<index>-?\d+)\s*\]
    | \[\s*(?P<slice>(?:-?\d+)?\s*:\s*(?:-?\d+)?\s*(?::\s*(?:-?\d+)?)?)\s*\]
    | \[\s*(?P<all>\*)\s*\]
    | \[\s*\?\(\s*@(?P<left>(?:\.[^.\[\]=!<>\s]+)+)\s*(?P<operator>==|!=)\s*
        (?P<right>'[^']*'|"[^"]*"|[^\s)]+)\s*\)\s*\]
    """,
    re.VERBOSE,
)

_Step = Callable[[Any], Iterable[Any]]


class JsonPathError(QuarterdeckError, ValueError):
    """A path outside the supported subset."""


class JsonPath:
    """A compiled path."""

    def __init__(self, text: str) -> None:
        self.text = text
        body = text.removeprefix("$")
        if body.startswith("{") and body.endswith("}"):
            body = body[1:-1].removeprefix("$")
        if body and body[0] not in ".[":
            body = "." + body
        self._steps: list[_Step] = []
        position = 0
        while position < len(body):
            found = _STEP.match(body, position)
            if found is None:
                raise JsonPathError(f"unrecognized JSONPath at {body[position:]!r}")
            self._steps.append(_step(found))
            position = found.end()

    def find(self, document: Any) -> list[Any]:
        """Every value the path leads to."""
        values = [document]
        for step in self._steps:
            values = [found for value in values for found in step(value)]
            if not values:
                break
        return values

    def first(self, document: Any) -> Any:
        """The first value, or None."""
        values = self.find(document)
        return values[0] if values else None


def _step(found: re.Match[str]) -> _Step:
    name = found["field"] or found["quoted"] or found["double"]
    if name is not None:
        key = re.sub(r"\\(.)", r"\1", name)
        if key == "*":
            return _children
        return lambda value: (value[key],) if isinstance(value, dict) and key in value else ()
    if found["index"] is not None:
        index = int(found["index"])
        return lambda value: (
            (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()
        )
    if found["slice"] is not None:
        return _slice(found["slice"])
    if found["all"] is not None:
        return _children
    path = found["left"].split(".")[1:]
    wanted = _literal(found["right"])
    equal = found["operator"] == "=="

    def select(value: Any) -> Iterable[Any]:
        if not isinstance(value, list):
            return ()
        return [item for item in value if (_follow(item, path) == wanted) is equal]

    return select


def _slice(text: str) -> _Step:
    """`start:end:step`, negative ones from the end. Bounds beyond the list find nothing, unlike in Python."""
    start, end, step = ([int(part) if part.strip() else None for part in text.split(":")] + [None])[:3]

    def cut(value: Any) -> Iterable[Any]:
        if not isinstance(value, list):
            return ()
        length = len(value)
        first = 0 if start is None else start + length if start < 0 else start
        last = length if end is None else end + length if end < 0 else end
        if not 0 <= first < last <= length or (step is not None and step <= 0):
            return ()
        return value[first:last:step]

    return cut


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    return list(value.values()) if isinstance(value, dict) else ()


def _follow(value: Any, path: list[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text
