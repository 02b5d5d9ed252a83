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

The functions that compute and apply patches are pure and work on plain documents.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from quarterdeck.api import Writable, decode_json, encode, to_dict
from quarterdeck.errors import SchemaError

__all__ = [
    "JsonPatch",
    "MergePatch",
    "Patch",
    "StrategicMergePatch",
    "apply_json_patch",
    "apply_merge_patch",
    "json_patch",
    "merge_from",
    "merge_patch",
]

Doc = Any


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


def merge_patch(before: Doc, after: Doc) -> dict[str, Any]:
    """The RFC 7386 document that turns one object into the other; empty when they are equal.

    A key with the value ``null`` cannot be told from a missing one: that is the format's limit, so here
    they count as the same.
    """
    patch: dict[str, Any] = {}
    for key, old in before.items():
        new = after.get(key)
        if old is None or _equal(old, new):
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            inner = merge_patch(old, new)
            if inner:
                patch[key] = inner
        else:
            patch[key] = _without_nulls(new)
    for key, new in after.items():
        if new is not None and before.get(key) is None:
            patch[key] = _without_nulls(new)
    return patch


def _without_nulls(value: Doc) -> Doc:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def apply_merge_patch(document: Doc, patch: Doc) -> Doc:
    """RFC 7386; the inputs are left alone."""
    if not isinstance(patch, dict):
        return to_dict(patch)
    result: dict[str, Any] = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


def json_patch(before: Doc, after: Doc) -> list[dict[str, Any]]:
    """RFC 6902 operations that turn one document into the other; empty when they are equal.

    Lists are compared from both ends: a run of elements that was inserted or removed costs that many
    operations, elements in between are compared one by one.
    """
    operations: list[dict[str, Any]] = []
    _diff(before, after, "", operations)
    return operations


def _diff(before: Doc, after: Doc, path: str, out: list[dict[str, Any]]) -> None:
    if _equal(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        out.extend({"op": "remove", "path": f"{path}/{_escape(key)}"} for key in before if key not in after)
        for key, new in after.items():
            where = f"{path}/{_escape(key)}"
            if key in before:
                _diff(before[key], new, where, out)
            else:
                out.append({"op": "add", "path": where, "value": new})
    elif isinstance(before, list) and isinstance(after, list):
        _diff_lists(before, after, path, out)
    else:
        out.append({"op": "replace", "path": path, "value": after})


def _diff_lists(before: list[Any], after: list[Any], path: str, out: list[dict[str, Any]]) -> None:
    start, most = 0, min(len(before), len(after))
    while start < most and _equal(before[start], after[start]):
        start += 1
    tail = 0
    while tail < most - start and _equal(before[-1 - tail], after[-1 - tail]):
        tail += 1
    old, new = before[start : len(before) - tail], after[start : len(after) - tail]
    shared = min(len(old), len(new))
    for i in range(shared):
        _diff(old[i], new[i], f"{path}/{start + i}", out)
    # From the back, so that positions still to be removed do not move.
    out.extend({"op": "remove", "path": f"{path}/{start + i}"} for i in reversed(range(shared, len(old))))
    out.extend({"op": "add", "path": f"{path}/{start + i}", "value": new[i]} for i in range(shared, len(new)))


def _equal(left: Doc, right: Doc) -> bool:
    """JSON equality: unlike Python's, ``True`` is not ``1``."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def apply_json_patch(document: Doc, operations: Sequence[Mapping[str, Any]]) -> Doc:
    """RFC 6902; the inputs are left alone. Raises ``SchemaError`` naming the operation that fails."""
    holder: dict[str, Any] = {"": decode_json(encode(document))}
    for i, operation in enumerate(operations):
        try:
            _apply(holder, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise SchemaError(
                f"operation {i} ({operation.get('op')} {operation.get('path')}) fails: {error}"
            ) from error
    return holder[""]


def _apply(holder: dict[str, Any], operation: Mapping[str, Any]) -> None:
    kind, path = operation["op"], operation["path"]
    if kind == "add":
        _add(holder, path, decode_json(encode(operation["value"])))
    elif kind == "remove":
        _remove(holder, path)
    elif kind == "replace":
        _remove(holder, path)
        _add(holder, path, decode_json(encode(operation["value"])))
    elif kind == "move":
        if path.startswith(f"{operation['from']}/"):
            raise ValueError("cannot move a value into itself")
        _add(holder, path, _remove(holder, operation["from"]))
    elif kind == "copy":
        parent, key = _locate(holder, operation["from"])
        _add(holder, path, decode_json(encode(parent[_index(parent, key)])))
    elif kind == "test":
        parent, key = _locate(holder, path)
        if not _equal(parent[_index(parent, key)], operation["value"]):
            raise ValueError("the value differs")
    else:
        raise ValueError(f"unknown operation {kind!r}")


def _locate(holder: Doc, path: str) -> tuple[Doc, str]:
    if path and not path.startswith("/"):
        raise ValueError("a path must be empty or start with a slash")
    parts = ["", *(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])]
    parent = holder
    for part in parts[:-1]:
        parent = parent[_index(parent, part)]
    return parent, parts[-1]


def _index(parent: Doc, key: str) -> Any:
    if not isinstance(parent, list):
        return key
    if not key.isdigit() or (len(key) > 1 and key[0] == "0"):
        raise ValueError(f"{key!r} is no position in a list")
    return int(key)


def _add(holder: Doc, path: str, value: Doc) -> None:
    parent, key = _locate(holder, path)
    if isinstance(parent, list):
        position = len(parent) if key == "-" else _index(parent, key)
        if position > len(parent):
            raise IndexError(f"position {position} is beyond the end")
        parent.insert(position, value)
    else:
        parent[key] = value


def _remove(holder: Doc, path: str) -> Doc:
    parent, key = _locate(holder, path)
    return parent.pop(_index(parent, key))
