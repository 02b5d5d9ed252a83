"""Field paths such as `.spec.ports['my.key']`, as rules and selectable fields name them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .structural import SchemaNode

_token = re.compile(r"[.\[\]]|'(?:[^'\\]|\\.|\\(?='))*'|[^.\[\]]+", re.DOTALL)
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
    tokens = iter(_token.findall(path))
    for token in tokens:
        if token == "[":
            if not allow_keys:
                raise FieldPathError("array notation is not allowed")
            name = _unquoted(_next(tokens))
            node = _step(name, node, steps)
            closing = _next(tokens)
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
        elif token == ".":
            node = _step(_next(tokens), node, steps)
        else:
            raise FieldPathError(f"expected [ or . but got: {token}")
    return steps, node


def _next(tokens: Iterator[str]) -> str:
    token = next(tokens, None)
    if token is None:
        raise FieldPathError("unexpected end of JSON path")
    return token


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


def _unquoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {token}")

    def plain(match: re.Match[str]) -> str:
        char = match[0][1]
        if char not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[char]

    return _escape.sub(plain, token[1:-1])
