"""What the cache holds: selectors, namespaces, transforms, per kind and per namespace.

Settings are resolved field by field; the first of these that says something wins:

1. the kind in one namespace   ``by_kind={Pod: KindOptions(namespaces={"a": Settings(...)})}``
2. the kind                    ``by_kind={Pod: KindOptions(labels="app")}``
3. the namespace               ``namespaces={"a": Settings(...)}``
4. the cache                   ``CacheOptions(transform=...)``

``ALL_NAMESPACES`` as a namespace means every namespace that is not listed beside it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from quarterdeck.api import GroupVersionKind, Resource, Selector
from quarterdeck.api.selector import FieldSelector, FieldTerm
from quarterdeck.client.option import Fields, Labels
from quarterdeck.runtime.cache.decoding import DEFAULT_REMEMBERED_BYTES
from quarterdeck.runtime.cache.entry import Transform
from quarterdeck.runtime.cache.transform import strip_managed_fields

ALL_NAMESPACES: Final = ""
"""Key for "all namespaces but those listed"."""

T = TypeVar("T")


class WatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one list/watch is done; whatever is left unset is inherited."""

    labels: Labels | UnsetType = UNSET
    """Only objects with these labels; ``None`` means all."""
    fields: Fields | UnsetType = UNSET
    """Only objects with these field values; ``metadata.namespace=x`` makes the request namespaced."""
    transform: Transform | Sequence[Transform] | UnsetType | None = UNSET
    """Rewrites objects before they are stored; ``None`` keeps them as they came."""
    bookmarks: bool | UnsetType = UNSET
    """Ask the server for bookmarks; default yes."""
    silence: float | UnsetType = UNSET
    """Seconds without a byte after which a watch is reopened; default 70, 0 never."""
    stream_lists: bool | UnsetType = UNSET
    """Ask for the first list as a stream; default yes."""
    internal_error_window: float | UnsetType = UNSET
    """Seconds during which 500s in a stream do not cause a new list; default 0."""
    resync_period: float | UnsetType = UNSET
    """Seconds after which every object is reported as updated; default 0, never. Makes no request."""
    verify_period: float | UnsetType = UNSET
    """Seconds between comparisons with the server's metadata; default 0, never."""
    is_packed: bool | UnsetType = UNSET
    """Keep bodies compressed: a fifth of the memory for some ten microseconds per change; default no. For
    kinds with very many small objects that are seldom read."""


class KindOptions(WatchSettings, frozen=True, kw_only=True):
    """Settings of one kind."""

    namespaces: Mapping[str, WatchSettings] | Sequence[str] | UnsetType = UNSET
    """Only these namespaces; unset inherits the cache's. Ignored for cluster-scoped kinds."""
    remembered_bytes: int | UnsetType = UNSET
    """Bytes kept of objects that are remembered decoded as well; default 16 MiB."""


class CacheOptions(KindOptions, frozen=True, kw_only=True):
    """Settings of a whole cache."""

    by_kind: Mapping[type[Resource] | GroupVersionKind, KindOptions] = msgspec.field(default_factory=dict)
    """Exceptions for single kinds."""
    fail_on_uncached: bool = True
    """Reading a kind nobody declared raises ``NotCached``; otherwise it starts an informer for all of it."""

    disable_for: Sequence[type[Resource] | GroupVersionKind] = ()
    """Kinds that reconciles read from the server, whether they are watched or not."""

    def resolve(self, gvk: GroupVersionKind, *, is_namespaced: bool) -> "list[ShardSettings]":
        """What to list and watch for a kind: one entry per namespace, or one for everything."""
        kind = self._kind(gvk)
        spaces = kind.namespaces if kind.namespaces is not UNSET else self.namespaces
        own = by_namespace(kind.namespaces)
        shared = by_namespace(self.namespaces)
        if not is_namespaced or not by_namespace(spaces):
            return [_shard("", (kind, self))]
        names = tuple(by_namespace(spaces))
        listed = tuple(name for name in names if name != ALL_NAMESPACES)
        shards = []
        for name in names:
            layers = (own.get(name), kind, shared.get(name), self)
            shard = _shard(name, tuple(layer for layer in layers if layer is not None))
            shards.append(shard.without(listed) if name == ALL_NAMESPACES else shard)
        return shards

    def holds_whole(self, gvk: GroupVersionKind) -> bool:
        """Whether all objects of a kind are cached, with all their metadata but the managed fields."""
        shards = self.resolve(gvk, is_namespaced=True)
        return all(
            not shard.namespace
            and not shard.request_namespace
            and shard.labels.is_empty
            and not shard.fields.terms
            and all(transform is strip_managed_fields for transform in shard.transforms)
            for shard in shards
        )

    def remembered(self, gvk: GroupVersionKind) -> int:
        """Bytes of JSON whose decoded objects are remembered for a kind."""
        for layer in (self._kind(gvk), self):
            if not isinstance(layer.remembered_bytes, UnsetType):
                return layer.remembered_bytes
        return DEFAULT_REMEMBERED_BYTES

    def _kind(self, gvk: GroupVersionKind) -> KindOptions:
        for kind, options in self.by_kind.items():
            if (kind if isinstance(kind, GroupVersionKind) else kind.type_info.gvk) == gvk:
                return options
        return _NO_OPTIONS


class ShardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The resolved settings of one list/watch."""

    namespace: str
    """The namespace reads are served for; empty means all others."""
    request_namespace: str
    """The namespace in the URL; differs from ``namespace`` when a field selector demands one."""
    labels: Selector
    fields: FieldSelector
    transforms: tuple[Transform, ...]
    bookmarks: bool
    silence: float
    stream_lists: bool
    internal_error_window: float
    resync_period: float
    verify_period: float
    is_packed: bool

    def without(self, namespaces: Sequence[str]) -> "ShardSettings":
        """The same for all namespaces but some."""
        terms = tuple(FieldTerm("metadata.namespace", name, False) for name in namespaces)
        return msgspec.structs.replace(self, fields=FieldSelector((*self.fields.terms, *terms)))


_NO_OPTIONS: Final = KindOptions()


def by_namespace(
    namespaces: Mapping[str, WatchSettings] | Sequence[str] | UnsetType,
) -> Mapping[str, WatchSettings]:
    """The namespaces that are named, each with its settings; none if that is not limited."""
    if isinstance(namespaces, UnsetType):
        return {}
    if isinstance(namespaces, Mapping):
        return namespaces
    return dict.fromkeys(namespaces, WatchSettings())


def _shard(namespace: str, layers: Sequence[WatchSettings]) -> ShardSettings:
    def pick(name: str, default: Any) -> Any:
        for layer in layers:
            value = getattr(layer, name)
            if value is not UNSET:
                return value
        return default

    labels, fields = pick("labels", None), pick("fields", None)
    selector = FieldSelector.of(fields) if fields is not None else FieldSelector()
    request = namespace
    only = selector.exact_value("metadata.namespace")
    if not namespace and only is not None:
        # A namespaced request works with namespaced permissions; the selector alone would not.
        request = only
        selector = FieldSelector(tuple(t for t in selector.terms if t.field != "metadata.namespace"))
    return ShardSettings(
        namespace=namespace,
        request_namespace=request,
        labels=Selector.of(labels) if labels is not None else Selector.everything(),
        fields=selector,
        transforms=_transforms(pick("transform", strip_managed_fields)),
        bookmarks=pick("bookmarks", True),
        silence=pick("silence", 70.0),
        stream_lists=pick("stream_lists", True),
        internal_error_window=pick("internal_error_window", 0.0),
        resync_period=pick("resync_period", 0.0),
        verify_period=pick("verify_period", 0.0),
        is_packed=pick("is_packed", False),
    )


def _transforms(given: Transform | Sequence[Transform] | None) -> tuple[Transform, ...]:
    if given is None:
        return ()
    return tuple(given) if isinstance(given, Sequence) else (given,)
