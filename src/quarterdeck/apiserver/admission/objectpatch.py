"""JSON patches of webhooks and policies: applied by `patch.jsonpatch`, failures explained.

A client that sends a bad patch is told nothing; who wrote a webhook is told which operation failed,
in the words of the library upstream uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quarterdeck.apiserver import gostyle
from quarterdeck.apiserver.patch import jsonpatch
from quarterdeck.apiserver.status import StatusError

from .attributes import GroupVersionKind

Json = dict[str, Any]
_MISSING = "missing value"


class PatchFault(Exception):
    """An operation that cannot be applied."""


class TestFault(PatchFault):
    """A `test` operation that did not hold."""

    __test__ = False  # not a test case, whatever pytest makes of the name


def patched(document: Json, operations: Sequence[Any]) -> Json:
    """A copy of `document` with the operations applied; raises PatchFault or TestFault."""
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchFault("json: cannot unmarshal value into Go value of type jsonpatch.Operation")
    try:
        result: Json = jsonpatch.apply(document, list(operations))
    except StatusError as error:
        raise _explain(document, operations) from error
    return result


def check_kind(obj: Json, kind: GroupVersionKind) -> None:
    """A patch may change everything but what the object is; raises PatchFault."""
    api_version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
    if (api_version, name) != (kind.api_version, kind.kind):
        raise PatchFault(
            f"no kind {gostyle.quote(str(name))} is registered for version {gostyle.quote(str(api_version))} "
            'in scheme "pkg/runtime/scheme.go:111"'
        )


def plain_decode_error(text: str) -> str:
    """What does not fit a patched object, without the sentence about the request body around it."""
    _, found, rest = text.partition(" cannot be handled as a ")
    return rest.partition(": ")[2] if found else text


def _explain(document: Any, operations: Sequence[Json]) -> PatchFault:
    """Apply one by one to find the operation that fails."""
    for operation in operations:
        try:
            document = jsonpatch.apply(document, [operation])
        except StatusError as error:
            return _fault(document, operation, error.message)
    return PatchFault("the patch cannot be applied")


def _fault(document: Any, operation: Json, otherwise: str) -> PatchFault:
    kind = operation.get("op")
    if kind not in ("add", "remove", "replace", "move", "test", "copy"):
        return PatchFault(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
    path, source = operation.get("path"), operation.get("from")
    if not isinstance(path, str):
        return PatchFault(f"{kind} operation failed to decode path: {_MISSING}")
    if kind in ("move", "copy"):
        return _transfer_fault(document, kind, path, source, otherwise)
    container, key = _locate(document, path)
    if container is None:
        shown = f'"{path}"' if kind in ("add", "remove") else path
        which = "is missing path" if kind == "test" else "doc is missing path"
        return PatchFault(f"{kind} operation does not apply: {which}: {shown}: {_MISSING}")
    if kind == "test" and (isinstance(container, dict) or not _index_fault(container, key)):
        return TestFault(f"testing value {path} failed: test failed")
    if kind == "replace":
        return PatchFault(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}")
    return PatchFault(f"error in {kind} for path: '{path}': {_key_fault(container, key)}")


def _transfer_fault(document: Any, kind: str, path: str, source: Any, otherwise: str) -> PatchFault:
    if not isinstance(source, str):
        return PatchFault(
            f"{kind} operation failed to decode from: operation, missing from field: {_MISSING}"
        )
    container, key = _locate(document, source)
    if container is None:
        return PatchFault(f"{kind} operation does not apply: doc is missing from path: {source}: {_MISSING}")
    if isinstance(container, list) and (why := _index_fault(container, key)):
        place = f"from: '{source}'" if kind == "copy" else f"path: '{key}'"
        return PatchFault(f"error in {kind} for {place}: {why}")
    if kind == "move" and isinstance(container, dict) and key not in container:
        return PatchFault(f"error in move for path: '{key}': {_key_fault(container, key)}")
    target, _ = _locate(document, path)
    if target is None:
        return PatchFault(
            f"{kind} operation does not apply: doc is missing destination path: {path}: {_MISSING}"
        )
    return PatchFault(otherwise)


def _locate(document: Any, path: str) -> tuple[Any, str]:
    """The container a path ends in (None when there is none) and the last step."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]
    if len(steps) < 2:
        return None, ""
    container = document
    for step in steps[1:-1]:
        if isinstance(container, dict):
            container = container.get(step)
        elif isinstance(container, list) and not _index_fault(container, step):
            container = container[int(step)]
        else:
            return None, ""
    return (container, steps[-1]) if isinstance(container, dict | list) else (None, "")


def _index_fault(container: list[Any], key: str) -> str:
    try:
        index = int(key)
    except ValueError:
        return f'strconv.Atoi: parsing "{key}": invalid syntax'
    if -len(container) <= index < len(container):
        return ""
    return f"Unable to access invalid index: {index}: invalid index referenced"


def _key_fault(container: Any, key: str) -> str:
    if isinstance(container, list):
        return (
            _index_fault(container, key) or f"Unable to access invalid index: {key}: invalid index referenced"
        )
    return f"Unable to remove nonexistent key: {key}: {_MISSING}"
