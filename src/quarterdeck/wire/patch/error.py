"""Why a patch cannot be applied; the texts are those of the libraries that Kubernetes uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.errors import PatchError


class OperationFailed(PatchError):
    """An operation of a JSON patch that does not fit the document."""

    def __init__(self, message: str, operation: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.operation: Final = operation


class TestFailed(OperationFailed):
    """A ``test`` operation that does not hold."""

    __test__ = False  # not a test case, whatever pytest makes of the name


class MalformedDirective(PatchError):
    """A directive of a strategic merge patch that is not written as it must be."""


class NestedList(PatchError):
    """A strategic merge patch of a list of lists, which nothing can merge."""
