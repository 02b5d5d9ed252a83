"""A write's objects in the version that a webhook or a policy asked for.

`VersionedView` follows one pass of mutating admission: it converts when a call wants another
version, and back to the request's version at the end, so that each call sees the changes of those
before it. `VersionedPair` is the read-only form for validating admission.
"""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status

from .attributes import Attributes, GroupVersionKind, Host


class VersionedPair:
    """Object and old object in one version."""

    __slots__ = ("kind", "object", "old_object")

    def __init__(self, kind: GroupVersionKind, object: Json | None, old_object: Json | None) -> None:
        self.kind = kind
        self.object = object
        self.old_object = old_object


class VersionCache:
    """Each version of a write's objects converted at most once; nothing may change them."""

    def __init__(self, attributes: Attributes, host: Host) -> None:
        self._attributes = attributes
        self._host = host
        self._pairs: dict[GroupVersionKind, VersionedPair] = {}

    async def get(self, kind: GroupVersionKind) -> VersionedPair:
        pair = self._pairs.get(kind)
        if pair is None:
            pair = VersionedPair(
                kind,
                await converted(self._attributes.object, self._attributes, kind, self._host),
                await converted(self._attributes.old_object, self._attributes, kind, self._host),
            )
            self._pairs[kind] = pair
        return pair


class VersionedView:
    """The objects as the calls of one mutating pass see and change them."""

    def __init__(self, attributes: Attributes, host: Host) -> None:
        self._attributes = attributes
        self._host = host
        self._pair: VersionedPair | None = None
        self._is_dirty = False

    async def get(self, kind: GroupVersionKind) -> VersionedPair:
        """Object and old object in `kind`, with all changes so far."""
        if self._pair is not None and self._pair.kind == kind:
            return self._pair
        await self.flush()
        self._pair = VersionedPair(
            kind,
            await converted(self._attributes.object, self._attributes, kind, self._host),
            await converted(self._attributes.old_object, self._attributes, kind, self._host),
        )
        return self._pair

    @property
    def current(self) -> Json | None:
        """The object with all changes so far, in whatever version it was last asked for."""
        return self._pair.object if self._pair is not None else self._attributes.object

    def replace(self, obj: Json) -> None:
        """The object of the current version was changed."""
        assert self._pair is not None
        self._pair.object = obj
        if self._pair.kind == self._attributes.gvk:
            self._attributes.object = obj
        else:
            self._is_dirty = True

    async def flush(self) -> None:
        """Bring changes made in another version back into the version of the request."""
        if self._pair is None or not self._is_dirty or self._pair.object is None:
            return
        self._attributes.object = await converted(
            self._pair.object, self._attributes, self._attributes.gvk, self._host
        )
        self._is_dirty = False


async def converted(
    obj: Json | None, attributes: Attributes, kind: GroupVersionKind, host: Host
) -> Json | None:
    """`obj` in `kind`; a failure is an internal error of the request."""
    if obj is None or (obj.get("apiVersion") == kind.api_version and obj.get("kind") == kind.kind):
        return obj
    if kind == attributes.gvk and "apiVersion" not in obj:
        return obj
    try:
        return await host.convert(obj, kind)
    except (ValueError, status.StatusError) as error:
        raise status.internal(str(error)) from error
