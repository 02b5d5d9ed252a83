"""What schema validation finds, before it is known where the checked value sits in the object.

An `Issue` carries a path relative to the checked value, and the full text by which upstream recognizes
duplicates; `field_errors` turns a list of them into field errors below a prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from quarterdeck.wire.fielderror import (
    ErrorKind,
    FieldError,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from quarterdeck.wire.gostyle import json_text


class Issue(NamedTuple):
    message: str
    kind: ErrorKind = ErrorKind.INVALID
    #: None: about the whole document, as upstream reports combinators and number ranges
    path: str | None = None
    value: Any = ""
    #: the limit of TOO_LONG and TOO_MANY
    limit: int = 0
    allowed: Sequence[Any] = ()


class Findings:
    """Issues in the order found, each text once, and how many checks passed on the way.

    The count decides which alternative of an anyOf or oneOf is the closest to matching.
    """

    __slots__ = ("issues", "matches")

    def __init__(self, issues: Iterable[Issue] = (), matches: int = 0) -> None:
        self.issues: dict[str, Issue] = {issue.message: issue for issue in issues}
        self.matches = matches

    def add(self, issue: Issue | None) -> None:
        if issue is not None:
            self.issues.setdefault(issue.message, issue)

    def merge(self, other: Findings) -> None:
        for message, issue in other.issues.items():
            self.issues.setdefault(message, issue)
        self.matches += other.matches


def field_errors(findings: Findings, prefix: str = "") -> list[FieldError]:
    return [_field_error(issue, prefix) for issue in findings.issues.values()]


def _field_error(issue: Issue, prefix: str) -> FieldError:
    field = prefix if issue.path is None else joined(prefix, issue.path)
    match issue.kind:
        case ErrorKind.REQUIRED:
            return required(field)
        case ErrorKind.NOT_SUPPORTED:
            allowed = [item if isinstance(item, str) else json_text(item) for item in issue.allowed]
            return not_supported(field, issue.value, allowed)
        case ErrorKind.TOO_LONG:
            return too_long(field, issue.limit)
        case ErrorKind.TOO_MANY:
            return too_many(field, issue.value, issue.limit)
        case ErrorKind.TYPE_INVALID:
            return type_invalid(field, issue.value, issue.message)
        case _:
            return invalid(field, issue.value, issue.message)


def joined(prefix: str, path: str) -> str:
    """`path` below `prefix`; upstream puts a dot even before an index (`default.[0]`)."""
    path = path.removeprefix(".")
    if not path:
        return prefix
    return f"{prefix}.{path}" if prefix else path
