"""The short way between v1 and an old version, for groups as almost all of them are.

``express(raw, source, target)`` gives what ``conversion`` gives, or ``None`` for a group that needs more
thought: fields that do not fit, settings of Docker, fields only v1alpha1 has, settings edited while in an
old version. It works on carriers, changes them in place and never builds a document; the tests hold the
two to the same answers.

Lists of all groups are read this way, so it is worth the second description of the same mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET

from quarterdeck.operators.nodegroup import names

from .carrier import (
    ContainerdEntry,
    ContainerdV2Entry,
    CriTypeEntry,
    NodeTypeEntry,
    Place,
    are_same_settings,
    places,
    read_group,
    read_memory,
)
from .mapping import LOST
from .roundtrip import CONTAINERD_PATH, CONTAINERD_V2_PATH, MAX_SIZE, TYPE_PATH, Entry
from .rule import STRUCTS, Holds
from .shape import schema

_encode: Final = msgspec.json.Encoder().encode
_encode_sorted: Final = msgspec.json.Encoder(order="deterministic").encode
_TO_OLD: Final = {
    names.CLOUD_EPHEMERAL: names.CLOUD,
    names.CLOUD_PERMANENT: names.HYBRID,
    names.CLOUD_STATIC: names.HYBRID,
    names.STATIC: names.STATIC,
}
_TO_NEW: Final = {
    names.CLOUD: names.CLOUD_EPHEMERAL,
    names.STATIC: names.STATIC,
    names.HYBRID: names.HYBRID,
}
_ONLY_V1ALPHA1: Final = ("docker", "kubernetesVersion", "static")
_OLD: Final = (names.V1ALPHA1, names.V1ALPHA2)
_LOST_FIELDS: Final = tuple(
    (parent, tuple((key, f"/{'/'.join(parent)}/{key}") for key in keys)) for parent, keys in LOST.items()
)
_path_of: Final = attrgetter("path")


class Open:
    """A group whose node type depends on the provider configuration."""

    __slots__ = ("_group",)

    def __init__(self, group: Any) -> None:
        self._group = group

    @property
    def name(self) -> str:
        """The name of the group."""
        name: str = self._group.metadata.name or ""
        return name

    def settle(self, node_type: str) -> bytes:
        """The converted JSON."""
        self._group.spec.nodeType = node_type
        return _encode(self._group)


def express(raw: msgspec.Raw | bytes, source: str, target: str) -> bytes | Open | None:
    """The group in the other version; ``None`` if it must be converted as a document."""
    try:
        if source == names.V1 and target in _OLD:
            return _down(read_group(source, raw), target)
        if source in _OLD and target == names.V1:
            return _up(read_group(source, raw), source)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None


def _down(group: Any, target: str) -> bytes | None:
    metadata, spec = group.metadata, group.spec
    annotations = metadata.annotations
    node_type = _TO_OLD.get(spec.nodeType)
    if node_type is None or (annotations is not UNSET and names.CONVERSION_DATA in annotations):
        return None
    lost: list[Entry] = []
    if spec.cri is not UNSET and not _old_cri(spec.cri, target, lost):
        return None
    if node_type == names.HYBRID:
        lost.append(Entry("/spec/nodeType", spec.nodeType, names.HYBRID))
    _take_lost(group, lost)
    spec.nodeType = node_type
    group.apiVersion = target
    if lost:
        lost.sort(key=_path_of)
        value = _encode_sorted({names.V1: lost})
        if len(value) <= MAX_SIZE:
            kept = annotations if annotations is not UNSET else {}
            metadata.annotations = {**kept, names.CONVERSION_DATA: value.decode()}
    return _encode(group)


def _take_lost(group: Any, lost: list[Entry]) -> None:
    for steps, fields in _LOST_FIELDS:
        part = group
        for step in steps:
            part = getattr(part, step)
            if part is UNSET:
                break
        else:
            for field, path in fields:
                value = getattr(part, field)
                if value is not UNSET:
                    lost.append(Entry(path, value))
                    setattr(part, field, UNSET)


def _old_cri(cri: Any, target: str, lost: list[Entry]) -> bool:
    if target == names.V1ALPHA1:
        if cri.docker is not UNSET:
            return False
        if cri.notManaged is not UNSET:
            lost.append(Entry("/spec/cri/notManaged", cri.notManaged))
            cri.notManaged = UNSET
    is_v2 = cri.type == names.CONTAINERD_V2
    settings = cri.containerd if cri.containerd is not UNSET else cri.containerdV2
    if is_v2 or settings is not cri.containerd:
        lost.append(Entry(CONTAINERD_PATH, cri.containerd, settings))
    if cri.containerdV2 is not UNSET:
        lost.append(Entry(CONTAINERD_V2_PATH, cri.containerdV2))
    if is_v2:
        lost.append(Entry(TYPE_PATH, names.CONTAINERD_V2, names.CONTAINERD))
        cri.type = names.CONTAINERD
    cri.containerd, cri.containerdV2 = settings, UNSET
    return True


def _up(group: Any, source: str) -> bytes | Open | None:
    metadata, spec = group.metadata, group.spec
    node_type = _TO_NEW.get(spec.nodeType)
    if node_type is None or any(getattr(spec, field) is not UNSET for field in _ONLY_V1ALPHA1):
        return None
    spec.nodeType = node_type
    group.apiVersion = names.V1
    annotations = metadata.annotations
    if annotations is not UNSET and names.CONVERSION_DATA in annotations:
        entries = read_memory(source, annotations.pop(names.CONVERSION_DATA))
        if not annotations:
            metadata.annotations = UNSET
        if entries and not _restore(group, entries, places(source)):
            return None
    if spec.nodeType != names.HYBRID:
        return _encode(group)
    found = Open(group)
    if metadata.name == names.MASTER:
        return found.settle(names.CLOUD_PERMANENT)
    if annotations is not UNSET and annotations.get(names.PERMANENT_NODE_GROUP) == "true":
        return found.settle(names.CLOUD_PERMANENT)
    return found


def _restore(group: Any, entries: list[Any], known: Mapping[type, Place]) -> bool:
    spec = group.spec
    cri: dict[type, Any] = {}
    for entry in entries:
        kind = type(entry)
        place = known.get(kind)
        if place is not None:
            if not _fill(group, place, entry.value):
                return False
        elif kind is NodeTypeEntry:
            if spec.nodeType == names.HYBRID:  # otherwise the user chose another one
                spec.nodeType = entry.value
        elif kind in cri:
            return False
        else:
            cri[kind] = entry
    if cri and not _restore_cri(spec.cri, cri):
        return False
    return spec.nodeType == names.HYBRID or _spec_rule()(spec)


def _fill(group: Any, place: Place, value: Any) -> bool:
    part = group
    for step in place.parent:
        part = getattr(part, step)
        if part is UNSET:
            return True  # the user removed it, so nothing of it comes back
    if getattr(part, place.field) is not UNSET:
        return False
    if place.logic is not None and not place.logic(value):
        return False
    setattr(part, place.field, value)
    return True


def _restore_cri(cri: Any, entries: Mapping[type, Any]) -> bool:
    """ContainerdV2 comes back if the settings are still those it was sent away with."""
    guard = entries.get(ContainerdEntry)
    if CriTypeEntry not in entries or guard is None:
        return False
    if cri is UNSET or cri.type != names.CONTAINERD or not are_same_settings(cri.containerd, guard.was):
        return False
    settings = entries[ContainerdV2Entry].value if ContainerdV2Entry in entries else UNSET
    returned = guard.value if guard.value is not UNSET else settings
    if not are_same_settings(returned, cri.containerd):
        return False
    cri.type, cri.containerd, cri.containerdV2 = names.CONTAINERD_V2, guard.value, settings
    return True


@cache
def _spec_rule() -> Holds:
    """Which parts go with which node type."""
    return STRUCTS.rule("oneOf", schema(names.V1)["properties"]["spec"]["oneOf"])
