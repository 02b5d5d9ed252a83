"""Groups as structs: read, checked and written in C.

A carrier is read in one version and has room for the fields of all of them, so turning it into another
version means moving a few fields. It is no closed model: unset and zero differ, and what does not fit
(unknown fields, other JSON types, ``null``) is refused as a whole, for ``conversion`` to treat as a
document.

``read_group(version, raw)`` and ``read_memory(text)`` raise ``msgspec.ValidationError`` for what does not
fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from quarterdeck.api import ObjectMeta
from quarterdeck.operators.nodegroup import names

from .mapping import LOST
from .roundtrip import CONTAINERD_PATH, CONTAINERD_V2_PATH, TYPE_PATH
from .rule import STRUCTS, Holds
from .shape import schema
from .structure import structure_of

Read = Any  # the bound ``decode`` of a msgspec decoder


def read_group(version: str, raw: msgspec.Raw | bytes) -> Any:
    """The group in some JSON, which must be of this version."""
    return _reader(version)(raw)


@cache
def _reader(version: str) -> Read:
    fields: list[Any] = [
        ("apiVersion", Literal[version]),
        ("kind", Literal[names.KIND]),
        ("metadata", _metadata()),
        ("spec", _carrier(version, "spec")),
        ("status", _carrier(version, "status") | UnsetType, UNSET),
    ]
    frame = msgspec.defstruct("Group", fields, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(frame).decode


@cache
def _metadata() -> Any:
    """All metadata is copied as it came; only name and annotations are looked at."""
    looked_at = {"name": str, "annotations": dict[str, str]}
    infos: Any = msgspec.structs.fields(ObjectMeta)  # type: ignore[arg-type]  # a Model is a struct
    known = [info.encode_name for info in infos if info.name != "unknown_fields"]
    fields = [(key, looked_at.get(key, msgspec.Raw) | UnsetType, UNSET) for key in known]
    return msgspec.defstruct("Metadata", fields, forbid_unknown_fields=True, gc=False)


def _carrier(version: str, root: str) -> Any:
    others = [schema(other)["properties"][root] for other in names.VERSIONS if other != version]
    return structure_of(schema(version)["properties"][root], strict=False, beside=others)


def read_memory(version: str, text: str) -> list[Any]:
    """The entries of a group's conversion-data annotation, if it is of the usual kind.

    That is: one that speaks of v1 and nothing else, and of fields that the group's own version has not.
    Every value keeps the v1 schema.
    """
    memory: Mapping[str, list[Any]] = _memory_reader(version)(text)
    return memory.get(names.V1, [])


class Place(msgspec.Struct, frozen=True):
    """Where an entry belongs, and what its value must keep beyond its type."""

    parent: tuple[str, ...]
    """The objects on the way to the field, without the group itself."""
    field: str
    logic: Holds | None


@cache
def _memory_reader(version: str) -> Read:
    kinds: Any = _SPECIAL_ENTRY
    for kind in places(version):
        kinds |= kind
    return msgspec.json.Decoder(dict[Literal[names.V1], list[kinds]]).decode  # type: ignore[valid-type]


@cache
def places(version: str) -> Mapping[type, Place]:
    """Entry types of fields that an old version has not: nothing is there, and the value fills it in v1."""
    lost = dict(LOST)
    if version == names.V1ALPHA1:
        lost["spec", "cri"] = ("notManaged",)
    found: dict[type, Place] = {}
    for parent, keys in lost.items():
        for key in keys:
            node = _node_at(*parent, key)
            kind = _entry(f"/{'/'.join(parent)}/{key}", [("value", structure_of(node, strict=True))])
            found[kind] = Place(parent, key, STRUCTS.logic(node))
    return found


def _node_at(*steps: str) -> Mapping[str, Any]:
    node = schema(names.V1)
    for step in steps:
        node = node["properties"][step]
    return node


def _entry(path: str, fields: list[Any]) -> Any:
    return msgspec.defstruct(
        "Entry", fields, tag=path, tag_field="path", forbid_unknown_fields=True, gc=False, kw_only=True
    )


_SETTINGS: Final = structure_of(_node_at("spec", "cri", "containerd"), strict=True)

NodeTypeEntry: Final = _entry(
    "/spec/nodeType",
    [("value", Literal[names.CLOUD_PERMANENT, names.CLOUD_STATIC]), ("was", Literal[names.HYBRID])],
)
CriTypeEntry: Final = _entry(
    TYPE_PATH, [("value", Literal[names.CONTAINERD_V2]), ("was", Literal[names.CONTAINERD])]
)
ContainerdEntry: Final = _entry(
    CONTAINERD_PATH, [("value", _SETTINGS | UnsetType, UNSET), ("was", _SETTINGS | UnsetType, UNSET)]
)
ContainerdV2Entry: Final = _entry(CONTAINERD_V2_PATH, [("value", _SETTINGS)])
_SPECIAL_ENTRY: Final[Any] = NodeTypeEntry | CriTypeEntry | ContainerdEntry | ContainerdV2Entry


def are_same_settings(one: Any, other: Any) -> bool:
    """Whether two settings of a runtime are equal, also if they were read as different types."""
    if one is UNSET or other is UNSET:
        return one is other
    return msgspec.structs.astuple(one) == msgspec.structs.astuple(other)
