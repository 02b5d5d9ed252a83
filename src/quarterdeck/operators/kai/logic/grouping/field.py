"""Reading fields of objects whose kinds belong to others; a wrong type is an error for the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .plan import GroupingError


def object_at(document: Any, *path: str) -> Mapping[str, Any] | None:
    """The object at a path; nothing if it is not there."""
    found = _at(document, path)
    if found is not None and not isinstance(found, Mapping):
        raise _wrong(path, "an object")
    return found


def items_at(document: Any, *path: str) -> Sequence[Any] | None:
    """The list at a path; nothing if it is not there."""
    found = _at(document, path)
    if found is not None and (not isinstance(found, Sequence) or isinstance(found, str)):
        raise _wrong(path, "a list")
    return found


def text_at(document: Any, *path: str) -> str | None:
    """The text at a path; nothing if it is not there."""
    found = _at(document, path)
    if found is not None and not isinstance(found, str):
        raise _wrong(path, "a string")
    return found


def whole_at(document: Any, *path: str) -> int | None:
    """The whole number at a path; nothing if it is not there."""
    found = _at(document, path)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
        raise _wrong(path, "a whole number")
    return found


def flag_at(document: Any, *path: str) -> bool:
    """The boolean at a path; false if it is not there."""
    found = _at(document, path)
    if found is not None and not isinstance(found, bool):
        raise _wrong(path, "true or false")
    return bool(found)


def _at(document: Any, path: tuple[str, ...]) -> Any:
    value = document
    for place, step in enumerate(path):
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise _wrong(path[:place], "an object")
        value = value.get(step)
    return value


def _wrong(path: tuple[str, ...], expected: str) -> GroupingError:
    return GroupingError(f"field {'.'.join(path) or 'itself'} must be {expected}")
