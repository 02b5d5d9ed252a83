"""Who may change what the operator has made."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants to do what."""

    operation: str
    user: str
    kind: str
    key: str
    """Namespace and name."""


class Decision(msgspec.Struct, frozen=True):
    """What is said about a request."""

    is_allowed: bool
    message: str = ""
    warning: str = ""


_CHANGES: Final = ("CREATE", "UPDATE")


def unowned(key: str, *, owner: str, label: str) -> Decision:
    """The object belongs to no set, or to one that does not exist: nothing is protected."""
    if owner:
        warning = f"parent PodCliqueSet {owner} not found for resource: {key}"
    else:
        warning = f"missing required label {label} on resource {key}, could not determine parent PodCliqueSet"
    text = f"admission allowed, no PodCliqueSet could be determined for resource: {key}"
    return Decision(True, text, warning)


def decide(request: Request, *, owner: str, is_protected: bool, trusted: Collection[str]) -> Decision:
    """Judge a request about an object of the set ``owner``; ``trusted`` users may do anything."""
    if not is_protected:
        text = f"admission allowed, resource protection is disabled for PodCliqueSet: {owner}"
        return Decision(True, text)
    if request.operation in _CHANGES:
        if request.user in trusted:
            return Decision(True)
        text = f"admission denied, creation/updation of resource: {request.key} is not allowed"
        return Decision(False, text)
    if request.operation == "DELETE":
        if request.kind == "Pod" or request.user in trusted:
            return Decision(True)
        return Decision(False, f"admission denied, deletion of resource: {request.key} is not allowed")
    return Decision(False, "Unhandled operation. Admission denied.")
