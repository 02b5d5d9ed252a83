"""Regular expression search: find and findAll."""

from __future__ import annotations

from collections.abc import Iterable

from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.type.celtype import INT, STRING, list_type
from quarterdeck.cel.value.pattern import Pattern, compile_pattern


def _compile(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern)
    except EvalError as problem:
        raise EvalError(f"Illegal regex: {problem.message}") from problem


def _find(text: str, pattern: str) -> str:
    return _compile(pattern).find(text)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _compile(pattern).find_all(text, limit)


def functions() -> Iterable[Function]:
    """All functions of the library."""
    found = list_type(STRING)
    yield Function("find", [Overload("string_find_string", [STRING, STRING], STRING, _find, is_member=True)])
    yield Function(
        "findAll",
        [
            Overload("string_find_all_string", [STRING, STRING], found, _find_all, is_member=True),
            Overload("string_find_all_string_int", [STRING, STRING, INT], found, _find_all, is_member=True),
        ],
    )
