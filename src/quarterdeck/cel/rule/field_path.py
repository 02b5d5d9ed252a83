"""The `fieldPath` of a validation rule: a JSON path through fields and map keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from quarterdeck.cel.type.schema import Schema
from quarterdeck.errors import QuarterdeckError

_TOKEN: Final = re.compile(r"'(?:\\'|[^'])*'|'[^']*\Z|[.\[\]]|[^.\[\]']?[^.\[\]]*", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {
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


class FieldPathError(QuarterdeckError, ValueError):
    """A path that leads to no field of the schema."""


def resolve(json_path: str, schema: Schema, *, allow_keys: bool = True) -> tuple[str, Schema]:
    """Printed field path and the schema it leads to; FieldPathError when there is no such field.

    `allow_keys` admits the bracket notation `.m['key']`.
    """
    tokens = _tokens(json_path)
    path = ""
    at = 0
    while at < len(tokens):
        mark = tokens[at]
        if mark == "[":
            if not allow_keys:
                raise FieldPathError("array notation is not allowed")
            name = _quoted(_take(tokens, at + 1))
            path, schema = _step(path, name, schema)
            closing = _take(tokens, at + 2)
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
            at += 3
        elif mark == ".":
            path, schema = _step(path, _take(tokens, at + 1), schema)
            at += 2
        else:
            raise FieldPathError(f"expected [ or . but got: {mark}")
    return path, schema


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None
        tokens.append(match.group())
        at = match.end()
    return tokens


def _take(tokens: list[str], at: int) -> str:
    if at >= len(tokens):
        raise FieldPathError("unexpected end of JSON path")
    return tokens[at]


def _quoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {token}")

    def replace(match: re.Match[str]) -> str:
        plain = _ESCAPED.get(match.group(1))
        if plain is None:
            raise FieldPathError(f"invalid string literal: invalid escape char {match.group()}")
        return plain

    return _ESCAPE.sub(replace, token[1:-1])


def _step(path: str, name: str, schema: Schema) -> tuple[str, Schema]:
    properties = schema.get("properties")
    if properties:
        child = properties.get(name)
        if child is None:
            raise FieldPathError("does not refer to a valid field")
        return (f"{path}.{name}" if path else name), child
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        return f"{path}[{name}]", values
    raise FieldPathError("does not refer to a valid field")
