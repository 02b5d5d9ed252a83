"""Field errors: what is wrong with one field of an object, in the API server's words.

Paths are plain strings (`spec.containers[0].name`); the empty path is the object itself.
Validation collects these and never stops at the first; `joined_text` is how an answer shows them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import msgspec

from . import gostyle


class ErrorKind(Enum):
    """The value is the reason of the Status cause."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    TYPE_INVALID = "FieldValueTypeInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    NOT_FOUND = "FieldValueNotFound"
    INTERNAL = "InternalError"


class FieldError(msgspec.Struct, frozen=True):
    """One error. `body` is the text after `<field>: `."""

    kind: ErrorKind
    field: str
    body: str

    def __str__(self) -> str:
        return f"{self.field or '<nil>'}: {self.body}"

    def cause(self) -> dict[str, str]:
        """The entry of `details.causes`."""
        return {"reason": self.kind.value, "message": self.body, "field": self.field or "<nil>"}


def joined_text(errors: Iterable[FieldError]) -> str:
    """All errors in one line; equal texts are shown once, as upstream's aggregate does."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(ErrorKind.REQUIRED, field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(ErrorKind.INVALID, field, f"Invalid value: {gostyle.scalar(value)}: {detail}")


def invalid_without_value(field: str, detail: str) -> FieldError:
    """CEL on objects, lists and maps: the value is left out of the text."""
    return FieldError(ErrorKind.INVALID, field, f"Invalid value: {detail}")


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(ErrorKind.TYPE_INVALID, field, f"Invalid value: {gostyle.scalar(value)}: {detail}")


def not_supported(field: str, value: Any, allowed: Iterable[str]) -> FieldError:
    values = ", ".join(gostyle.quote(item) for item in allowed)
    body = f"Unsupported value: {gostyle.scalar(value)}"
    return FieldError(
        ErrorKind.NOT_SUPPORTED, field, f"{body}: supported values: {values}" if values else body
    )


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError(ErrorKind.DUPLICATE, field, f"Duplicate value: {gostyle.scalar(value)}")


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError(ErrorKind.FORBIDDEN, field, f"Forbidden: {detail}")


def too_long(field: str, limit: int) -> FieldError:
    return FieldError(ErrorKind.TOO_LONG, field, f"Too long: may not be more than {_count(limit, 'byte')}")


def too_many(field: str, count: int, limit: int) -> FieldError:
    body = f"Too many: {count}: must have at most {_count(limit, 'item')}"
    return FieldError(ErrorKind.TOO_MANY, field, body)


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def not_found(field: str, value: Any) -> FieldError:
    return FieldError(ErrorKind.NOT_FOUND, field, f"Not found: {gostyle.scalar(value)}")


def internal(field: str, detail: str) -> FieldError:
    return FieldError(ErrorKind.INTERNAL, field, f"Internal error: {detail}")
