"""What an old version cannot hold, kept in an annotation so that a round trip loses nothing.

The annotation ``node.deckhouse.io/conversion-data`` maps the apiVersion an object came from to the
differences that a plain round trip would make: ``{"path", "was", "value"}``, where ``was`` is what the plain
round trip gives and ``value`` is the truth; an absent key means an absent field. On the way back an entry
is applied only if ``was`` still holds: an edit made in the old version wins, and a part that the user
removed does not come back.

Nothing here fails because of a bad annotation: users can write annotations, too.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quarterdeck.operators.nodegroup import names

Document = dict[str, Any]
Entry = dict[str, Any]
Memory = dict[str, list[Entry]]
"""apiVersion → what objects of that version held."""

MAX_SIZE: Final = 200 * 1024
"""Bytes of an annotation value above which nothing is stored; all annotations together may have 256 KiB."""

_TYPE: Final = "/spec/cri/type"
_CONTAINERD: Final = "/spec/cri/containerd"
_CONTAINERD_V2: Final = "/spec/cri/containerdV2"
_ROOTS: Final = ("spec", "status")


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder().decode


def take_memory(document: Document) -> tuple[Document, Memory]:
    """The document without the annotation, and what the annotation says; empty if it makes no sense."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if type(metadata) is dict else None
    if type(annotations) is not dict or names.CONVERSION_DATA not in annotations:
        return document, {}
    assert metadata is not None
    kept = dict(annotations)
    memory = _parse(kept.pop(names.CONVERSION_DATA))
    clean = {**metadata, "annotations": kept}
    if not kept:
        del clean["annotations"]
    return {**document, "metadata": clean}, memory


def put_memory(document: Document, memory: Memory) -> Document:
    """The document with the annotation; without one if there is nothing to say or too much."""
    if not memory:
        return document
    value = _encode(memory)
    if len(value) > MAX_SIZE:
        return document
    metadata = document.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), names.CONVERSION_DATA: value.decode()}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def _parse(value: Any) -> Memory:
    if type(value) is not str:
        return {}
    try:
        memory = _decode(value)
    except (msgspec.DecodeError, RecursionError):
        return {}
    if type(memory) is not dict or not all(_are_entries(entries) for entries in memory.values()):
        return {}
    return memory


def _are_entries(entries: Any) -> bool:
    return type(entries) is list and all(
        type(entry) is dict and type(entry.get("path")) is str and entry["path"].startswith("/")
        for entry in entries
    )


# -- remembering ---------------------------------------------------------------------------------------


def differences(truth: Document, returned: Document) -> list[Entry]:
    """Where a plain round trip (``returned``) differs from the object it started with, by path."""
    entries: list[Entry] = []
    for root in _ROOTS:
        _compare(f"/{root}", truth.get(root, ABSENT), returned.get(root, ABSENT), entries)
    if truth.get("apiVersion") == names.V1 and _cri(truth).get("type") == names.CONTAINERD_V2:
        entries = [entry for entry in entries if not _is_within(entry["path"], _CONTAINERD)]
        entries.append(_entry(_CONTAINERD, _cri(truth), _cri(returned), "containerd"))
    entries.sort(key=_path_of)
    return entries


def _compare(path: str, truth: Any, returned: Any, entries: list[Entry]) -> None:
    if truth is returned:
        return
    if type(truth) is not dict or type(returned) is not dict:
        if not are_equal(truth, returned):
            entries.append(_difference(path, truth, returned))
        return
    for key, value in truth.items():
        other = returned.get(key, ABSENT)
        if other is not value:
            _compare(f"{path}/{_escape(key)}", value, other, entries)
    for key, value in returned.items():
        if key not in truth:
            entries.append(_difference(f"{path}/{_escape(key)}", ABSENT, value))


def _entry(path: str, truth: Document, returned: Document, key: str) -> Entry:
    return _difference(path, truth.get(key, ABSENT), returned.get(key, ABSENT))


def _difference(path: str, truth: Any, returned: Any) -> Entry:
    entry: Entry = {"path": path}
    if truth is not ABSENT:
        entry["value"] = truth
    if returned is not ABSENT:
        entry["was"] = returned
    return entry


def _path_of(entry: Entry) -> str:
    path: str = entry["path"]
    return path


# -- restoring -----------------------------------------------------------------------------------------


def restore(document: Document, entries: list[Entry]) -> Document:
    """The document with every entry applied whose ``was`` still holds."""
    document, entries = _restore_cri(document, entries)
    for entry in entries:
        steps = _steps(entry["path"])
        if not steps or steps[0] not in _ROOTS:
            continue
        parent = _parent(document, steps)
        if parent is None:
            continue
        if are_equal(parent.get(steps[-1], ABSENT), entry.get("was", ABSENT)):
            document = _with(document, steps, entry.get("value", ABSENT))
    return document


def _restore_cri(document: Document, entries: list[Entry]) -> tuple[Document, list[Entry]]:
    """Treat ContainerdV2, which old versions call Containerd; gives the entries left to apply."""
    kind = next((entry for entry in entries if entry["path"] == _TYPE), None)
    if kind is None or (kind.get("was"), kind.get("value")) != (names.CONTAINERD, names.CONTAINERD_V2):
        return document, entries
    others = [
        entry
        for entry in entries
        if not any(_is_within(entry["path"], part) for part in (_TYPE, _CONTAINERD, _CONTAINERD_V2))
    ]
    cri = _cri(document)
    if cri.get("type") != names.CONTAINERD:
        return document, others  # the user chose another runtime
    guard = next((entry for entry in entries if entry["path"] == _CONTAINERD), None)
    if guard is None or are_equal(cri.get("containerd", ABSENT), guard.get("was", ABSENT)):
        return document, entries
    edited = {**cri, "type": names.CONTAINERD_V2}
    if "containerd" in edited:
        edited["containerdV2"] = edited.pop("containerd")
    return _with(document, ["spec", "cri"], edited), others


def _parent(document: Document, steps: list[str]) -> Document | None:
    value: Any = document
    for step in steps[:-1]:
        value = value.get(step)
        if type(value) is not dict:
            return None
    parent: Document = value
    return parent


def _with(document: Document, steps: list[str], value: Any) -> Document:
    """A copy with one value set, or removed if it is ABSENT; everything beside the path is shared."""
    copy = dict(document)
    step = steps[0]
    if len(steps) > 1:
        copy[step] = _with(copy[step], steps[1:], value)
    elif value is ABSENT:
        copy.pop(step, None)
    else:
        copy[step] = value
    return copy


# -- paths and values ----------------------------------------------------------------------------------


def _cri(document: Document) -> Document:
    spec = document.get("spec")
    cri = spec.get("cri") if type(spec) is dict else None
    return cri if type(cri) is dict else {}


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def _steps(pointer: str) -> list[str]:
    steps = pointer.split("/")[1:]
    return [step.replace("~1", "/").replace("~0", "~") for step in steps] if "~" in pointer else steps


def are_equal(one: Any, other: Any) -> bool:
    """JSON equality: unlike Python's, ``true`` is not 1; both absent are equal."""
    if one is other:
        return True
    kind, other_kind = type(one), type(other)
    if kind is dict and other_kind is dict:
        return one.keys() == other.keys() and all(are_equal(value, other[key]) for key, value in one.items())
    if kind is list and other_kind is list:
        return len(one) == len(other) and all(map(are_equal, one, other))
    if kind is not other_kind and {kind, other_kind} != {int, float}:
        return False
    return bool(one == other)
