"""What an old version cannot hold, kept in an annotation so that a round trip loses nothing.

The annotation ``node.deckhouse.io/conversion-data`` maps the apiVersion an object came from to the
differences that a plain round trip would make: ``{"path", "was", "value"}``, where ``was`` is what the plain
round trip gives and ``value`` is the truth; an absent key means an absent field. On the way back an entry
is applied only if ``was`` still holds: an edit made in the old version wins, and a part that the user
removed does not come back.

Nothing here fails because of a bad annotation: users can write annotations, too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET

from quarterdeck.operators.nodegroup import names

Document = dict[str, Any]


class Difference(msgspec.Struct, gc=False):
    """One difference; the fields are in the order in which they are written."""

    path: str
    """RFC 6901 pointer."""
    value: Any = UNSET
    """The value of the field; unset if it must be deleted."""
    was: Any = UNSET
    """What a plain round trip gives; unset if nothing."""


Memory = dict[str, list[Difference]]
"""apiVersion → what objects of that version held."""

MAX_SIZE: Final = 200 * 1024
"""Bytes of an annotation value above which nothing is stored; all annotations together may have 256 KiB."""

TYPE_PATH: Final = "/spec/cri/type"
CONTAINERD_PATH: Final = "/spec/cri/containerd"
CONTAINERD_V2_PATH: Final = "/spec/cri/containerdV2"
_ROOTS: Final = ("spec", "status")

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder(dict[str, list[Difference]]).decode


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
    try:
        memory = _decode(value)
    except (msgspec.DecodeError, RecursionError, TypeError):
        return {}
    for entries in memory.values():
        for entry in entries:
            if entry.path[:1] != "/":
                return {}
    return memory


def differences(truth: Document, returned: Document) -> list[Difference]:
    """Where a plain round trip (``returned``) differs from the object it started with, by path."""
    entries: list[Difference] = []
    for root in _ROOTS:
        _compare(f"/{root}", truth.get(root, UNSET), returned.get(root, UNSET), entries)
    if truth.get("apiVersion") == names.V1:
        cri = _cri(truth)
        if cri.get("type") == names.CONTAINERD_V2:
            entries = [entry for entry in entries if not _is_within(entry.path, CONTAINERD_PATH)]
            found = _cri(returned).get("containerd", UNSET)
            entries.append(Difference(CONTAINERD_PATH, cri.get("containerd", UNSET), found))
    entries.sort(key=_path_of)
    return entries


def _compare(path: str, truth: Any, returned: Any, entries: list[Difference]) -> None:
    if truth is returned:
        return
    if type(truth) is not dict or type(returned) is not dict:
        if not are_equal(truth, returned):
            entries.append(Difference(path, truth, returned))
        return
    known = 0
    for key, value in truth.items():
        other = returned.get(key, UNSET)
        if other is UNSET:
            entries.append(Difference(f"{path}/{_escape(key)}", value))
            continue
        known += 1
        if other is not value:
            _compare(f"{path}/{_escape(key)}", value, other, entries)
    if known < len(returned):
        for key, value in returned.items():
            if key not in truth:
                entries.append(Difference(f"{path}/{_escape(key)}", UNSET, value))


def _path_of(entry: Difference) -> str:
    return entry.path


def restore(document: Document, entries: list[Difference]) -> Document:
    """The document with every entry applied whose ``was`` still holds; ``document`` is not changed."""
    tree = _Tree(document)
    for entry in _restore_cri(tree, entries):
        parent, key = _place(entry.path)
        part = tree.part(parent) if (parent[0] if parent else key) in _ROOTS else None
        if part is None:
            continue
        present = part.get(key, UNSET)
        if present is entry.was or are_equal(present, entry.was):
            tree.set(parent, key, entry.value)
    return tree.root


def _restore_cri(tree: _Tree, entries: list[Difference]) -> list[Difference]:
    """Treat ContainerdV2, which old versions call Containerd; gives the entries left to apply."""
    by_path = {entry.path: entry for entry in reversed(entries)}  # of several the first counts
    kind, guard = by_path.get(TYPE_PATH), by_path.get(CONTAINERD_PATH)
    if kind is None or (kind.was, kind.value) != (names.CONTAINERD, names.CONTAINERD_V2):
        return entries
    cri = _cri(tree.root)
    is_chosen = cri.get("type") == names.CONTAINERD  # otherwise the user chose another runtime
    if is_chosen and (guard is None or are_equal(cri.get("containerd", UNSET), guard.was)):
        return entries
    if is_chosen:
        edited = {**cri, "type": names.CONTAINERD_V2}
        if "containerd" in edited:
            edited["containerdV2"] = edited.pop("containerd")
        tree.set(("spec",), "cri", edited)
    parts = (TYPE_PATH, CONTAINERD_PATH, CONTAINERD_V2_PATH)
    return [entry for entry in entries if not any(_is_within(entry.path, part) for part in parts)]


class _Tree:
    """A document that is changed in copies of its parts, each made once."""

    __slots__ = ("_parts", "root")

    def __init__(self, document: Document) -> None:
        self.root = dict(document)
        self._parts: dict[tuple[str, ...], Document] = {(): self.root}

    def part(self, path: tuple[str, ...]) -> Document | None:
        """The object at a path, if there is one; it may be changed."""
        found = self._parts.get(path)
        if found is None:
            above = self.part(path[:-1])
            value = above.get(path[-1]) if above is not None else None
            if above is None or type(value) is not dict:
                return None
            found = self._parts[path] = above[path[-1]] = dict(value)
        return found

    def set(self, path: tuple[str, ...], key: str, value: Any) -> None:
        """Set what the object at a path, which is there, has under a key; UNSET removes it."""
        part = self.part(path)
        assert part is not None
        if value is UNSET:
            part.pop(key, None)
        else:
            part[key] = value
        whole = (*path, key)
        if whole in self._parts:  # what is below it is another one now
            known = self._parts.items()
            self._parts = {place: each for place, each in known if place[: len(whole)] != whole}


def _cri(document: Document) -> Document:
    spec = document.get("spec")
    cri = spec.get("cri") if type(spec) is dict else None
    return cri if type(cri) is dict else {}


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


@lru_cache(maxsize=256)
def _place(pointer: str) -> tuple[tuple[str, ...], str]:
    """Where a pointer leads: the object, and its key."""
    *parent, key = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    return tuple(parent), key


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
