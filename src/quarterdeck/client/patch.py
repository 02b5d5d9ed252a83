"""Patches: the four kinds the API takes, and how to compute them.

=============  =============================================  ==========================================
``JsonPatch``  ``application/json-patch+json``                RFC 6902: a list of operations
``MergePatch`` ``application/merge-patch+json``               RFC 7386: lists are replaced whole
``Strategic…`` ``application/strategic-merge-patch+json``     built-in kinds only
(apply)        ``application/apply-patch+yaml``               a verb of its own, ``Client.apply``
=============  =============================================  ==========================================

``merge_from(before)`` is the everyday one: read, change, send the difference::

    draft = pod.draft()
    draft.metadata.labels["stage"] = "canary"
    pod = await client.patch(draft.done(), merge_from(pod))

The functions that compute and apply patches come from ``quarterdeck.wire``: they are pure and work on
plain documents.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from quarterdeck.api import Writable, encode
from quarterdeck.wire.patch import merge_patch


class Patch(Protocol):
    """What ``Client.patch`` needs to know."""

    @property
    def content_type(self) -> str:
        """Media type of the body."""
        ...

    def body(self, obj: Writable) -> bytes:
        """The body for an object; empty bytes when there is nothing to change."""
        ...


class JsonPatch:
    """RFC 6902 operations, sent as they are."""

    content_type = "application/json-patch+json"

    def __init__(self, operations: Sequence[Mapping[str, Any]]) -> None:
        self._operations = operations

    def body(self, obj: Writable) -> bytes:
        """The operations; nothing when the list is empty."""
        return encode(self._operations) if self._operations else b""


class MergePatch:
    """A given RFC 7386 document."""

    content_type = "application/merge-patch+json"

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def body(self, obj: Writable) -> bytes:
        """The document; nothing when it is empty."""
        return encode(self._document) if self._document else b""


class StrategicMergePatch:
    """A given strategic merge document; the server merges lists by their keys."""

    content_type = "application/strategic-merge-patch+json"

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def body(self, obj: Writable) -> bytes:
        """The document; nothing when it is empty."""
        return encode(self._document) if self._document else b""


class _MergeFrom:
    """The difference between an earlier version and the object being patched."""

    content_type = "application/merge-patch+json"

    def __init__(self, before: Writable, optimistic_lock: bool) -> None:
        self._before = before
        self._optimistic_lock = optimistic_lock

    def body(self, obj: Writable) -> bytes:
        patch = merge_patch(self._before.to_dict(), obj.to_dict())
        if not patch:
            return b""
        if self._optimistic_lock:
            version = self._before.metadata.resource_version
            if not version:
                raise ValueError(
                    f'cannot use OptimisticLock, object "{self._before.metadata.name}" '
                    "does not have any resource version we can use"
                )
            patch.setdefault("metadata", {})["resourceVersion"] = version
        return encode(patch)


def merge_from(before: Writable, *, optimistic_lock: bool = False) -> Patch:
    """A merge patch from ``before`` to whatever object is patched.

    With ``optimistic_lock`` the patch carries the version of ``before``: if somebody changed the object
    since, the server answers ``Conflict``. Without it the last writer wins, field by field.
    """
    return _MergeFrom(before, optimistic_lock)
