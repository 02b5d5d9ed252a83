"""JSON patch (RFC 6902) with the behaviour of the library that Kubernetes uses.

Where that library leaves the RFC: `replace` of a missing key adds it, `add` without a value adds null,
`test` of a missing key against null passes, negative positions count from the end, `copy` of a missing
key adds null. The texts of failures are that library's, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from quarterdeck.wire.jsonvalue import deep_copy, equal, same

from .error import OperationFailed, TestFailed

Operation = Mapping[str, Any]

#: what the copy operations of one patch may add together
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
_ABSENT: Final = object()
_MISSING: Final = "missing value"
_position: Final = re.compile(r"[+-]?[0-9]+").fullmatch
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def apply_json_patch(document: Any, operations: Iterable[Operation]) -> Any:
    """A copy of `document` with the operations applied in order; ``OperationFailed`` if one cannot be."""
    patched = _Patched(deep_copy(document))
    for operation in operations:
        patched.run(operation)
    return patched.root


def json_patch(before: Any, after: Any) -> list[dict[str, Any]]:
    """Operations that turn one document into the other; empty when they are equal.

    Lists are compared from both ends: a run of elements that was inserted or removed costs that many
    operations, elements in between are compared one by one. Parts of ``after`` are shared with the patch.
    """
    operations: list[dict[str, Any]] = []
    _diff(before, after, "", operations)
    return operations


class _Patched:
    def __init__(self, root: Any) -> None:
        self.root = root
        self._operation: Operation = {}
        self._copied = 0

    def _failure(self, message: str) -> OperationFailed:
        return OperationFailed(message, self._operation)

    def run(self, operation: Operation) -> None:
        self._operation = operation
        kind, path, source = operation.get("op"), operation.get("path"), operation.get("from")
        if kind not in ("add", "remove", "replace", "move", "test", "copy"):
            raise self._failure(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
        if not isinstance(path, str):
            raise self._failure(f"{kind} operation failed to decode path: {_MISSING}")
        if kind == "add":
            self._add(path, deep_copy(operation.get("value")))
        elif kind == "remove":
            self._remove(path)
        elif kind == "replace":
            self._replace(path, deep_copy(operation.get("value")))
        elif kind == "test":
            self._test(path, operation.get("value"))
        elif not isinstance(source, str):
            text = f"{kind} operation failed to decode from: operation, missing from field: {_MISSING}"
            raise self._failure(text)
        elif kind == "move":
            self._move(source, path)
        else:
            self._copy(source, path)

    def _find(self, path: str) -> tuple[Any, str]:
        """The container that a path ends in (None when there is none), and the key there."""
        steps = path.split("/")
        if len(steps) < 2:
            return None, ""
        # What stands before the first slash is not looked at.
        *parents, last = (step.replace("~1", "/").replace("~0", "~") for step in steps[1:])
        container = self.root
        for step in parents:
            if isinstance(container, dict):
                container = container.get(step)
            elif isinstance(container, list) and not _index_problem(container, step):
                container = container[int(step)]
            else:
                return None, last
        return (container if isinstance(container, dict | list) else None), last

    def _add(self, path: str, value: Any) -> None:
        container, key = self._find(path)
        if container is None:
            raise self._failure(f'add operation does not apply: doc is missing path: "{path}": {_MISSING}')
        if problem := _put(container, key, value):
            raise self._failure(f"error in add for path: '{path}': {problem}")

    def _remove(self, path: str) -> None:
        container, key = self._find(path)
        if container is None:
            raise self._failure(f'remove operation does not apply: doc is missing path: "{path}": {_MISSING}')
        if problem := _take(container, key):
            raise self._failure(f"error in remove for path: '{path}': {problem}")

    def _replace(self, path: str, value: Any) -> None:
        if path == "":
            if not isinstance(value, dict | list):
                raise self._failure("replace operation value must be object or array")
            self.root = value
            return
        container, key = self._find(path)
        if container is None:
            raise self._failure(f"replace operation does not apply: doc is missing path: {path}: {_MISSING}")
        if isinstance(container, dict):
            container[key] = value
        elif _index_problem(container, key):
            raise self._failure(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}")
        else:
            container[int(key)] = value

    def _test(self, path: str, expected: Any) -> None:
        if path == "":
            value = self.root
        else:
            container, key = self._find(path)
            if container is None:
                raise self._failure(f"test operation does not apply: is missing path: {path}: {_MISSING}")
            if isinstance(container, dict):
                value = container.get(key)
            elif problem := _index_problem(container, key):
                raise self._failure(f"error in test for path: '{path}': {problem}")
            else:
                value = container[int(key)]
        if not same(value, expected):
            raise TestFailed(f"testing value {path} failed: test failed", self._operation)

    def _move(self, source: str, path: str) -> None:
        container, key = self._find(source)
        if container is None:
            raise self._failure(
                f"move operation does not apply: doc is missing from path: {source}: {_MISSING}"
            )
        value = _at(container, key)
        if problem := _take(container, key):
            raise self._failure(f"error in move for path: '{key}': {problem}")
        self._arrive("move", path, value)

    def _copy(self, source: str, path: str) -> None:
        container, key = self._find(source)
        if container is None:
            raise self._failure(
                f"copy operation does not apply: doc is missing from path: {source}: {_MISSING}"
            )
        if isinstance(container, list) and (problem := _index_problem(container, key)):
            raise self._failure(f"error in copy for from: '{source}': {problem}")
        value = _at(container, key)
        if value is _ABSENT:
            value = None
        else:
            text = _encode(value)
            self._copied += len(text)
            value = _decode(text)
        if self._copied > MAX_COPIED_BYTES:
            raise self._failure(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied}, exceeding the limit {MAX_COPIED_BYTES}"
            )
        self._arrive("copy", path, value)

    def _arrive(self, kind: str, path: str, value: Any) -> None:
        container, key = self._find(path)
        if container is None:
            text = f"{kind} operation does not apply: doc is missing destination path: {path}: {_MISSING}"
            raise self._failure(text)
        if problem := _put(container, key, value):
            raise self._failure(f"error in {kind} for path: '{path}': {problem}")


def _at(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        return container.get(key, _ABSENT)
    return _ABSENT if _index_problem(container, key) else container[int(key)]


def _put(container: Any, key: str, value: Any) -> str:
    """Set a key or insert at a position; what is wrong with it, else nothing."""
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    elif problem := _index_problem(container, key, extra=1):
        return problem
    else:
        index = int(key)
        container.insert(index if index >= 0 else index + len(container) + 1, value)
    return ""


def _take(container: Any, key: str) -> str:
    """Remove a key or a position; what is wrong with it, else nothing."""
    if isinstance(container, list):
        if problem := _index_problem(container, key):
            return problem
        del container[int(key)]
    elif container.pop(key, _ABSENT) is _ABSENT:
        return f"Unable to remove nonexistent key: {key}: {_MISSING}"
    return ""


def _index_problem(container: list[Any], key: str, *, extra: int = 0) -> str:
    if _position(key) is None:
        return f'strconv.Atoi: parsing "{key}": invalid syntax'
    size = len(container) + extra
    if len(key) > 20 or not -size <= int(key) < size:
        return f"Unable to access invalid index: {key}: invalid index referenced"
    return ""


def _diff(old: Any, new: Any, path: str, operations: list[dict[str, Any]]) -> None:
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        operations += [{"op": "remove", "path": f"{path}/{_escape(key)}"} for key in old if key not in new]
        for key, value in new.items():
            if key not in old:
                operations.append({"op": "add", "path": f"{path}/{_escape(key)}", "value": value})
            elif value is not old[key]:
                _diff(old[key], value, f"{path}/{_escape(key)}", operations)
    elif isinstance(old, list) and isinstance(new, list):
        _diff_lists(old, new, path, operations)
    elif not equal(old, new):
        operations.append({"op": "replace", "path": path, "value": new})


def _diff_lists(old: list[Any], new: list[Any], path: str, operations: list[dict[str, Any]]) -> None:
    head, most = 0, min(len(old), len(new))
    while head < most and equal(old[head], new[head]):
        head += 1
    tail = 0
    while tail < most - head and equal(old[-1 - tail], new[-1 - tail]):
        tail += 1
    ours, theirs = len(old) - tail, len(new) - tail
    for index in range(head, min(ours, theirs)):
        _diff(old[index], new[index], f"{path}/{index}", operations)
    # From the back, so that positions still to be removed do not move.
    operations += [{"op": "remove", "path": f"{path}/{index}"} for index in range(ours - 1, theirs - 1, -1)]
    operations += [
        {"op": "add", "path": f"{path}/{index}", "value": new[index]} for index in range(ours, theirs)
    ]


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
