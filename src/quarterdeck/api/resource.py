"""Kinds as classes.

A subclass of ``Resource`` is one version of one kind; the class keywords say what the API needs to know
beyond its fields (``ResourceInfo`` lists them)::

    class Pool(
        Resource, group="example.io", version="v1", plural="pools", short_names=["pl"],
        status=True, columns=[Column("CIDR", ".spec.cidr"), Column.age()],
    ):
        spec: PoolSpec
        status: PoolStatus = omitempty(PoolStatus())

``apiVersion`` and ``kind`` are filled in and always written. A class that names its plural and scope
(all do) needs no discovery. Several versions of a kind are several classes of the same group and kind;
``crd`` puts them into one definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, Self, TypeVar, runtime_checkable

import msgspec

from quarterdeck.api.codec import decode, encode, from_dict, to_dict
from quarterdeck.api.frozen import EMPTY_MAP
from quarterdeck.api.kind import GroupVersionKind, GroupVersionResource, Key
from quarterdeck.api.meta import ListMeta, ObjectMeta
from quarterdeck.api.model import Model, ModelMeta, omitempty

Scope = Literal["Namespaced", "Cluster"]


class Column(msgspec.Struct, frozen=True):
    """A printer column: what ``kubectl get`` shows."""

    name: str
    path: str
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    description: str = ""
    format: str = ""
    priority: int = 0

    @classmethod
    def age(cls) -> Column:
        """The usual last column."""
        return cls("Age", ".metadata.creationTimestamp", "date")


class Scale(msgspec.Struct, frozen=True):
    """The scale subresource: where replicas and the selector live."""

    spec_path: str = ".spec.replicas"
    status_path: str = ".status.replicas"
    selector_path: str = ""


class ResourceInfo(msgspec.Struct, frozen=True, dict=True):
    """What the class keywords of a ``Resource`` say."""

    group: str
    """API group; empty (the default) is the core group."""
    version: str
    """API version; the one keyword that makes a class a kind."""
    kind: str
    """Defaults to the class name."""
    plural: str
    """Defaults to the English plural of the lower-case kind."""
    singular: str
    """Defaults to the lower-case kind."""
    scope: Scope = "Namespaced"
    list_kind: str = ""
    """Defaults to the kind with ``List`` appended."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage: bool = True
    """Whether objects are stored in this version; exactly one version of a kind is."""
    served: bool = True
    deprecated: bool | str = False
    """``True``, or the warning clients get."""
    columns: tuple[Column, ...] = ()
    scale: Scale | None = None
    """The scale subresource, if any."""
    status: bool = False
    """Whether the kind has a status subresource."""
    selectable: tuple[str, ...] = ()
    """JSON paths usable in field selectors."""
    crd_labels: Mapping[str, str] = EMPTY_MAP
    crd_annotations: Mapping[str, str] = EMPTY_MAP
    rules: tuple[Any, ...] = ()
    """Markers for the whole object: CEL rules that may see ``self.metadata.name``, for instance."""
    name_rules: tuple[Any, ...] = ()
    """Markers for ``metadata.name``: ``Pattern``, ``Len``."""

    @cached_property
    def gvk(self) -> GroupVersionKind:
        """The full name of the kind."""
        return GroupVersionKind(self.group, self.version, self.kind)

    @cached_property
    def gvr(self) -> GroupVersionResource:
        """The full name of the resource."""
        return GroupVersionResource(self.group, self.version, self.plural)

    @property
    def is_namespaced(self) -> bool:
        """Whether objects live in namespaces."""
        return self.scope == "Namespaced"


_KEYWORDS: Final = (
    "group",
    "version",
    "kind",
    "plural",
    "singular",
    "scope",
    "list_kind",
    "short_names",
    "categories",
    "storage",
    "served",
    "deprecated",
    "columns",
    "scale",
    "status",
    "selectable",
    "crd_labels",
    "crd_annotations",
    "name_rules",
)


if TYPE_CHECKING:
    ResourceMeta = ModelMeta
else:

    class ResourceMeta(ModelMeta):
        """Reads the class keywords and gives each kind its own ``apiVersion`` and ``kind``."""

        def __new__(mcls, name, bases, namespace, **options):
            given = {key: options.pop(key) for key in _KEYWORDS if key in options}
            if "version" not in given:
                return super().__new__(mcls, name, bases, namespace, **options)
            info = _info(name, given, tuple(options.get("rules", ())))
            # The header sits in a class of its own so that it comes first on the wire.
            header = super().__new__(
                mcls,
                f"_{name}Header",
                bases,
                {
                    "__module__": __name__,
                    "__qualname__": f"_{name}Header",
                    "__annotations__": {"api_version": str, "kind": str, "metadata": ObjectMeta},
                    "api_version": info.gvk.api_version,
                    "kind": info.kind,
                    "metadata": omitempty(ObjectMeta()),
                },
            )
            cls = super().__new__(mcls, name, (header,), namespace, **options)
            cls.type_info = info
            return cls


def _info(name: str, given: Mapping[str, Any], rules: tuple[Any, ...]) -> ResourceInfo:
    values = dict(given)
    kind = values.setdefault("kind", name)
    values.setdefault("group", "")
    values.setdefault("plural", _plural(kind.lower()))
    values.setdefault("singular", kind.lower())
    values.setdefault("list_kind", f"{kind}List")
    for key in ("short_names", "categories", "columns", "selectable", "name_rules"):
        values[key] = tuple(values.get(key, ()))
    return ResourceInfo(**values, rules=rules)


def _plural(singular: str) -> str:
    if singular.endswith(("s", "x", "z", "ch", "sh")):
        return f"{singular}es"
    if singular.endswith("y") and singular[-2:-1] not in "aeiou":
        return f"{singular[:-1]}ies"
    return f"{singular}s"


@runtime_checkable
class Writable(Protocol):
    """What every representation of an object offers: typed, dynamic or metadata-only."""

    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def metadata(self) -> ObjectMeta: ...
    def to_bytes(self) -> bytes: ...
    def to_dict(self) -> dict[str, Any]: ...


class Resource(Model, metaclass=ResourceMeta):
    """Base of every kind."""

    type_info: ClassVar[ResourceInfo]
    """Group, version, plural, scope, columns … of the kind."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = omitempty(ObjectMeta())

    @property
    def gvk(self) -> GroupVersionKind:
        """The full name of the kind this object says it is."""
        return GroupVersionKind.parse(self.api_version, self.kind)

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.metadata.namespace, self.metadata.name)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Decode JSON; unknown fields are kept. Raises ``SchemaError``."""
        return decode(raw, cls)

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any]) -> Self:
        """Build from a plain document; nothing is shared with it. Raises ``SchemaError``."""
        return from_dict(doc, cls)

    def to_bytes(self) -> bytes:
        """The JSON of the object, unknown fields included."""
        return encode(self)

    def to_dict(self) -> dict[str, Any]:
        """A private plain document of the object, unknown fields included."""
        document: dict[str, Any] = to_dict(self)
        return document


R_co = TypeVar("R_co", covariant=True)


class ObjectList(Sequence[R_co]):
    """One page of a list: the items, its version, and the token of the next page."""

    __slots__ = ("items", "metadata")

    def __init__(self, items: Sequence[R_co], metadata: ListMeta) -> None:
        self.items: Final = items
        self.metadata: Final = metadata

    @property
    def resource_version(self) -> str:
        """The version the list was taken at."""
        return self.metadata.resource_version

    @property
    def continue_token(self) -> str:
        """Token of the next page; empty on the last one."""
        return self.metadata.continue_

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"ObjectList({list(self.items)!r}, resource_version={self.resource_version!r})"
