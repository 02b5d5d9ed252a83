"""JSON patch (RFC 6902) with the behaviour of the library that Kubernetes uses.

Where that library leaves the RFC: `replace` of a missing key adds it, `add` without a value adds null,
`test` of a missing key against null passes, negative positions count from the end, `copy` of a missing
key adds null. Everything that cannot be applied is one 422 without any detail.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

import msgspec

from quarterdeck.apiserver.status import StatusError, bad_request, too_large

from .decode import decode_json, unmarshal_error

__all__ = ["MAX_COPIED_BYTES", "MAX_OPERATIONS", "Operation", "apply", "decode", "diff", "unknown_fields"]

Operation = dict[str, Any]

MAX_OPERATIONS: Final = 10_000
#: what the copy operations of one patch may add together
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
_FIELDS: Final = frozenset(["op", "path", "from", "value"])
_ABSENT: Final = object()
_position: Final = re.compile(r"[+-]?[0-9]+").fullmatch
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def decode(body: bytes) -> list[Operation]:
    """The operations of a patch body: 400 if it is no list of operations, 413 if there are too many."""
    patch = decode_json(body, prefix="error decoding patch: ")
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise _undecodable(patch, "Go value of type []handlers.jsonPatchOp")
    if None in patch:  # decodes, but into nothing that can be done
        _reject()
    for operation in patch:
        if not isinstance(operation, dict):
            raise _undecodable(operation, "Go value of type handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            text = operation.get(name)
            if text is not None and not isinstance(text, str):
                raise _undecodable(text, f"Go struct field jsonPatchOp.{name} of type string")
    if len(patch) > MAX_OPERATIONS:
        raise too_large(
            "Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {MAX_OPERATIONS}, got {len(patch)}"
        )
    return patch


def unknown_fields(operations: list[Operation]) -> list[str]:
    """What field validation says about fields that no operation has."""
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations)
        for name in operation
        if name not in _FIELDS
    ]


def apply(document: Any, operations: list[Operation]) -> Any:
    """A copy of `document` with the operations applied in order; 422 if one cannot be."""
    patched = _Patched(_decode(_encode(document)))
    for operation in operations:
        patched.run(operation)
    return patched.root


def diff(old: Any, new: Any) -> list[Operation]:
    """Operations that turn `old` into `new`."""
    operations: list[Operation] = []
    _diff(old, new, "", operations)
    return operations


class _Patched:
    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied = 0

    def run(self, operation: Operation) -> None:
        path = operation.get("path")
        kind = operation.get("op")
        if path is None or (kind in ("move", "copy") and operation.get("from") is None):
            _reject()
        if kind == "add":
            self._add(path, _value(operation))
        elif kind == "remove":
            self._remove(path)
        elif kind == "replace":
            self._replace(path, operation)
        elif kind == "move":
            value = self._get(operation["from"])
            self._remove(operation["from"])
            self._add(path, None if value is _ABSENT else value)
        elif kind == "test":
            self._test(path, operation)
        elif kind == "copy":
            self._copy(operation["from"], path)
        else:
            _reject()

    def _find(self, path: str) -> tuple[Any, str]:
        """The container that a path ends in, and the key there."""
        steps = path.split("/")
        if len(steps) < 2:
            _reject()
        # What stands before the first slash is not looked at.
        *parents, last = (step.replace("~1", "/").replace("~0", "~") for step in steps[1:])
        container = self.root
        for step in parents:
            container = (
                container.get(step) if isinstance(container, dict) else container[_index(container, step)]
            )
            if not isinstance(container, dict | list):
                _reject()
        return container, last

    def _get(self, path: str) -> Any:
        container, key = self._find(path)
        if isinstance(container, dict):
            return container.get(key, _ABSENT)
        return container[_index(container, key)]

    def _add(self, path: str, value: Any) -> None:
        container, key = self._find(path)
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            container.insert(_index(container, key, extra=1), value)

    def _remove(self, path: str) -> None:
        container, key = self._find(path)
        if isinstance(container, list):
            del container[_index(container, key)]
        elif container.pop(key, _ABSENT) is _ABSENT:
            _reject()

    def _replace(self, path: str, operation: Operation) -> None:
        value = _value(operation)
        if path == "":
            if not isinstance(value, dict | list):
                _reject()
            self.root = value
            return
        container, key = self._find(path)
        if isinstance(container, dict):
            container[key] = value
        else:
            container[_index(container, key)] = value

    def _test(self, path: str, operation: Operation) -> None:
        value = self.root if path == "" else self._get(path)
        expected = operation.get("value")
        if not _equal(None if value is _ABSENT else value, expected):
            _reject()

    def _copy(self, source: str, path: str) -> None:
        value = self._get(source)
        if value is _ABSENT:
            value = None
        else:
            text = _encode(value)
            self._copied += len(text)
            value = _decode(text)
        if self._copied > MAX_COPIED_BYTES:
            _reject()
        self._add(path, value)


def _value(operation: Operation) -> Any:
    value = operation.get("value")
    # A later operation may reach into it.
    return _decode(_encode(value)) if isinstance(value, dict | list) else value


def _index(container: list[Any], key: str, *, extra: int = 0) -> int:
    if _position(key) is None:
        _reject()
    size = len(container) + extra
    index = int(key)
    if not -size <= index < size:
        _reject()
    return index if index >= 0 else index + size


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    # By text: 1 is neither 1.0 nor true.
    return type(left) is type(right) and bool(left == right)


def _reject() -> NoReturn:
    raise StatusError(
        422,
        "the server rejected our request due to an error in our request",
        reason="Invalid",
        details={},
    )


def _undecodable(value: Any, target: str) -> StatusError:
    return bad_request("error decoding patch: " + unmarshal_error(value, target))


def _diff(old: Any, new: Any, path: str, operations: list[Operation]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        operations += [{"op": "remove", "path": f"{path}/{_escape(key)}"} for key in old if key not in new]
        for key, value in new.items():
            below = f"{path}/{_escape(key)}"
            if key in old:
                _diff(old[key], value, below, operations)
            else:
                operations.append({"op": "add", "path": below, "value": value})
    elif isinstance(old, list) and isinstance(new, list):
        _diff_lists(old, new, path, operations)
    elif not _equal(old, new):
        operations.append({"op": "replace", "path": path, "value": new})


def _diff_lists(old: list[Any], new: list[Any], path: str, operations: list[Operation]) -> None:
    """Items are matched by position between the common head and the common tail."""
    head = 0
    while head < min(len(old), len(new)) and _equal(old[head], new[head]):
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and _equal(old[-1 - tail], new[-1 - tail]):
        tail += 1
    ours, theirs = len(old) - tail, len(new) - tail
    for index in range(head, min(ours, theirs)):
        _diff(old[index], new[index], f"{path}/{index}", operations)
    operations += [{"op": "remove", "path": f"{path}/{index}"} for index in range(ours - 1, theirs - 1, -1)]
    operations += [
        {"op": "add", "path": f"{path}/{index}", "value": new[index]} for index in range(ours, theirs)
    ]


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
