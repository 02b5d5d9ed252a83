"""The scheme: which class stands for which kind.

A scheme is a plain value that somebody builds and passes on; there is no global one. It holds one class
per group, version and kind, and any number of versions of a kind. ``k8s_scheme()`` in
``quarterdeck.api.k8s`` gives one with all built-in kinds.
"""

from collections.abc import Iterable, Iterator

import msgspec

from quarterdeck.api.codec import UNREADABLE, decode
from quarterdeck.api.dynamic import DynamicObject
from quarterdeck.api.kind import GroupKind, GroupVersionKind
from quarterdeck.api.resource import Resource


class _TypeHead(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class Scheme:
    """A registry of classes by kind."""

    def __init__(self, classes: Iterable[type[Resource]] = ()) -> None:
        self._by_kind: dict[GroupVersionKind, type[Resource]] = {}
        self.add(*classes)

    def add(self, *classes: type[Resource]) -> "Scheme":
        """Register classes; a second class for the same kind and version is refused."""
        for cls in classes:
            gvk = cls.type_info.gvk
            known = self._by_kind.setdefault(gvk, cls)
            if known is not cls:
                raise ValueError(f"{gvk} is already registered with {known.__module__}.{known.__qualname__}")
        return self

    def get(self, gvk: GroupVersionKind) -> type[Resource] | None:
        """The class of a kind, or ``None``."""
        return self._by_kind.get(gvk)

    def versions(self, group_kind: GroupKind) -> tuple[type[Resource], ...]:
        """All registered versions of a kind, in order of registration."""
        return tuple(cls for gvk, cls in self._by_kind.items() if gvk.group_kind == group_kind)

    def decode(self, raw: bytes) -> Resource | DynamicObject:
        """Decode an object as its class, or as a dynamic object when the kind is not registered."""
        try:
            head = _head.decode(raw)
        except UNREADABLE:
            return DynamicObject.from_bytes(raw)
        cls = self._by_kind.get(GroupVersionKind.parse(head.api_version, head.kind))
        return decode(raw, cls) if cls is not None else DynamicObject.from_bytes(raw)

    def __contains__(self, gvk: object) -> bool:
        return gvk in self._by_kind

    def __iter__(self) -> Iterator[type[Resource]]:
        return iter(self._by_kind.values())

    def __len__(self) -> int:
        return len(self._by_kind)


_head = msgspec.json.Decoder(_TypeHead)
