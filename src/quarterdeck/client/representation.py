"""How a kind is asked for and what comes back: typed, dynamic or metadata only."""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind, PartialObjectMetadata, Resource, Scheme, decode
from quarterdeck.api.codec import decode_json
from quarterdeck.api.meta import ListMeta
from quarterdeck.errors import SchemaError

T = TypeVar("T")

_JSON: Final = "application/json"
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_SLICE: Final = 0.005  # seconds of decoding before other tasks get their turn


class MetadataKind(msgspec.Struct, frozen=True):
    """Asks for the metadata of a kind only; made by ``metadata_of``."""

    gvk: GroupVersionKind
    cls: type[Resource] | None = None


def metadata_of(kind: type[Resource] | GroupVersionKind) -> MetadataKind:
    """The metadata-only representation of a kind: fewer bytes on the wire and in memory."""
    if isinstance(kind, GroupVersionKind):
        return MetadataKind(kind)
    return MetadataKind(kind.type_info.gvk, kind)


AnyKind: TypeAlias = type[Resource] | GroupVersionKind | MetadataKind


class Representation(Generic[T]):
    """How one kind is addressed and decoded."""

    __slots__ = ("accept", "accept_list", "gvk", "gvr", "is_namespaced", "read")

    def __init__(
        self,
        gvk: GroupVersionKind,
        cls: type[Resource] | None,
        read: Callable[[bytes], T],
        accept: str = _JSON,
        accept_list: str = _JSON,
    ) -> None:
        self.gvk: Final = gvk
        # Known from the class; without one the server has to be asked, and its answer may change.
        self.gvr: Final = cls.type_info.gvr if cls is not None else None
        self.is_namespaced: Final = cls is not None and cls.type_info.is_namespaced
        self.read: Final = read
        self.accept: Final = accept
        self.accept_list: Final = accept_list


def represent(kind: AnyKind, scheme: Scheme | None) -> Representation[Any]:
    """The representation that a caller asks for by naming a kind."""
    if isinstance(kind, MetadataKind):
        cls = kind.cls or (scheme.get(kind.gvk) if scheme is not None else None)
        return Representation(kind.gvk, cls, _partial_reader(kind.gvk), _METADATA, _METADATA_LIST)
    if isinstance(kind, GroupVersionKind):
        return Representation(kind, scheme.get(kind) if scheme is not None else None, _dynamic_reader(kind))
    typed = kind
    return Representation(typed.type_info.gvk, typed, lambda raw: decode(raw, typed))


def _partial_reader(gvk: GroupVersionKind) -> Callable[[bytes], PartialObjectMetadata]:
    def read(raw: bytes) -> PartialObjectMetadata:
        # The server says "PartialObjectMetadata"; callers want to know of what.
        return decode(raw, PartialObjectMetadata).evolve(api_version=gvk.api_version, kind=gvk.kind)

    return read


def _dynamic_reader(gvk: GroupVersionKind) -> Callable[[bytes], DynamicObject]:
    def read(raw: bytes) -> DynamicObject:
        document = decode_json(raw)
        if isinstance(document, dict) and "kind" not in document:
            # Items of built-in lists come without their type.
            document = {"apiVersion": gvk.api_version, "kind": gvk.kind, **document}
        if not isinstance(document, dict):
            raise SchemaError("expected an object")
        return DynamicObject.adopt(document)

    return read


class RawPage(msgspec.Struct, frozen=True):
    """One page of a list with undecoded items; ``bytes(item)`` copies an item out of the page."""

    items: tuple[msgspec.Raw, ...]
    metadata: ListMeta


class _ListFrame(msgspec.Struct):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


def read_page(raw: bytes) -> RawPage:
    """Cut a list answer into its items without decoding them."""
    frame = decode(raw, _ListFrame)
    return RawPage(frame.items or (), frame.metadata)


async def read_items(items: Sequence[msgspec.Raw], read: Callable[[bytes], T]) -> list[T]:
    """Decode the items of a page, giving way to other tasks every few milliseconds.

    Each item is copied out of the page first: one object that lives on must not keep the page alive.
    """
    out: list[T] = []
    turn = perf_counter() + _SLICE
    for item in items:
        out.append(read(bytes(item)))
        if perf_counter() > turn:
            await asyncio.sleep(0)
            turn = perf_counter() + _SLICE
    return out
