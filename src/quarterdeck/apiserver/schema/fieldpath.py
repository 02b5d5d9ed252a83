"""Field paths such as `.spec.ports['my.key']`, as rules and selectable fields name them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .structural import SchemaNode

_part = re.compile(r"[.\[\]]|'(?:[^'\\]|\\.|\\(?='))*'|[^.\[\]]+", re.DOTALL)
_escape = re.compile(r"\\.", re.DOTALL)
_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "'": "'",
    "\\": "\\",
}


class FieldPathError(ValueError):
    """Why a text names no field of a schema, in upstream's words."""


def resolve(path: str, node: SchemaNode, *, allow_keys: bool = True) -> tuple[list[str], SchemaNode]:
    """The field that a path names: its steps (`spec`, `m`, `[key]`) and its schema.

    `allow_keys` admits the `['name']` notation. Raises FieldPathError.
    """
    steps: list[str] = []
    parts = iter(_part.findall(path))
    for part in parts:
        if part == "[":
            if not allow_keys:
                raise FieldPathError("array notation is not allowed")
            name = _unquoted(_next(parts))
            node = _step(name, node, steps)
            closing = _next(parts)
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
        elif part == ".":
            node = _step(_next(parts), node, steps)
        else:
            raise FieldPathError(f"expected [ or . but got: {part}")
    return steps, node


def _next(parts: Iterator[str]) -> str:
    part = next(parts, None)
    if part is None:
        raise FieldPathError("unexpected end of JSON path")
    return part


def _step(name: str, node: SchemaNode, steps: list[str]) -> SchemaNode:
    if node.properties:
        steps.append(name)
        child = node.properties.get(name)
    else:
        steps.append(f"[{name}]")
        child = node.additional
    if child is None:
        raise FieldPathError("does not refer to a valid field")
    return child


def _unquoted(part: str) -> str:
    if len(part) < 2 or part[0] != "'" or part[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {part}")

    def plain(match: re.Match[str]) -> str:
        char = match[0][1]
        if char not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[char]

    return _escape.sub(plain, part[1:-1])
