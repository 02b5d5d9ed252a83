"""What is wrong with a field, in the words of the API server."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from quarterdeck.api import to_dict

__all__ = ["Violation"]

_encode = msgspec.json.Encoder().encode


class Violation(msgspec.Struct, frozen=True):
    """One finding; ``str()`` is its text."""

    path: str
    """The field; empty if it concerns none."""
    reason: str
    """As in the causes of a Status: ``FieldValueInvalid`` and the like; empty if it concerns no field."""
    message: str
    """The text without the path."""

    @classmethod
    def invalid(cls, path: str, value: Any, detail: str) -> Self:
        """A value that cannot be."""
        return cls(path, "FieldValueInvalid", f"Invalid value: {_text(value)}: {detail}")

    @classmethod
    def forbidden(cls, path: str, detail: str) -> Self:
        """A change or an entry that is not allowed."""
        return cls(path, "FieldValueForbidden", f"Forbidden: {detail}")

    @classmethod
    def internal(cls, path: str, error: Exception) -> Self:
        """What could not be found out."""
        return cls(path, "InternalError", f"Internal error: {error}")

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def _text(value: Any) -> str:
    return _encode(to_dict(value)).decode()
