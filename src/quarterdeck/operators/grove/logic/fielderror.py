"""What is wrong with a field, in the words of Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import to_dict

__all__ = [
    "FieldError",
    "duplicate",
    "forbidden",
    "invalid",
    "not_found",
    "required",
    "text_of",
    "too_long",
    "unsupported",
]

_REASONS: Final = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Forbidden": "FieldValueForbidden",
    "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound",
    "Unsupported value": "FieldValueNotSupported",
    "Too long": "FieldValueTooLong",
}


class FieldError(msgspec.Struct, frozen=True):
    """One complaint about one field."""

    path: str
    problem: str
    """``Required value``, ``Invalid value`` …"""
    value: str = ""
    """The value as it is shown; empty where none is."""
    detail: str = ""

    @property
    def reason(self) -> str:
        """The word for clients: ``FieldValueInvalid`` …"""
        return _REASONS[self.problem]

    @property
    def body(self) -> str:
        """The complaint without the field."""
        return ": ".join(part for part in (self.problem, self.value, self.detail) if part)

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


def required(path: str, detail: str) -> FieldError:
    """Something is missing."""
    return FieldError(path, "Required value", "", detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """Something is there that may not be."""
    return FieldError(path, "Invalid value", _shown(value), detail)


def forbidden(path: str, detail: str) -> FieldError:
    """Something must not be done."""
    return FieldError(path, "Forbidden", "", detail)


def duplicate(path: str, value: Any) -> FieldError:
    """Something is there twice."""
    return FieldError(path, "Duplicate value", _shown(value))


def not_found(path: str, value: Any) -> FieldError:
    """Something is named that does not exist."""
    return FieldError(path, "Not found", _shown(value))


def unsupported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Something is not one of a few."""
    choices = ", ".join(json.dumps(each) for each in supported)
    return FieldError(path, "Unsupported value", _shown(value), f"supported values: {choices}")


def too_long(path: str, most: int) -> FieldError:
    """Something has too many bytes."""
    return FieldError(path, "Too long", "", f"may not be more than {most} bytes")


def text_of(errors: Sequence[FieldError]) -> str:
    """All complaints in one line."""
    texts = list(dict.fromkeys(map(str, errors)))  # the same one twice says nothing more
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _shown(value: Any) -> str:
    return json.dumps(to_dict(value), ensure_ascii=False, separators=(",", ":"))
