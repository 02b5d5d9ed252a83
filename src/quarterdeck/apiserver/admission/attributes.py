"""The facts of a write that admission looks at, and what admission needs from the server.

`Attributes` belongs to one write and is changed only by mutating admission, through `object`. The
objects are documents in the version of the request, with apiVersion and kind. `Host` is all it knows of
the rest of the server; nothing in this package reads storage or schemas by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from quarterdeck.api import GroupVersionKind as GroupVersionKind
from quarterdeck.api.jsonobject import Json
from quarterdeck.api.kind import GroupVersionResource as GroupVersionResource
from quarterdeck.apiserver import status
from quarterdeck.apiserver.auth.attributes import AccessAttributes
from quarterdeck.apiserver.auth.user import UserInfo
from quarterdeck.apiserver.resource.strategy import ClusterState, WriteContext

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Served(NamedTuple):
    """One served version of a resource and the kind behind it (or behind its subresource)."""

    resource: GroupVersionResource
    kind: GroupVersionKind


class Decision(NamedTuple):
    """What an authorizer answers."""

    allowed: bool
    reason: str = ""
    error: str = ""


class Host(Protocol):
    """What admission needs from the server around it."""

    @property
    def cluster(self) -> ClusterState: ...

    def equivalents(self, group: str, resource: str, subresource: str) -> Sequence[Served]:
        """Every served form of a resource, itself included: other versions, other groups over one storage."""
        ...

    def kind_of_param(self, api_version: str, kind: str) -> tuple[GroupVersionResource, bool] | None:
        """The resource of a kind and whether it is namespaced; None when it is not served."""
        ...

    async def params(self, kind: GroupVersionResource, namespace: str, name: str) -> Sequence[Json]:
        """The stored objects of a name, or without one of a namespace, in this very version.

        Nobody may change them. Raises StatusError where a webhook cannot convert them.
        """
        ...

    async def convert(self, obj: Json, kind: GroupVersionKind) -> Json:
        """`obj` in another version of its kind; raises StatusError or ValueError."""
        ...

    def settle(self, obj: Json, kind: GroupVersionKind) -> Json:
        """A patched object decoded as its kind and defaulted, as it would be after a request.

        Raises ValueError with Go's text when it no longer has the shape of its kind.
        """
        ...

    def merge(self, live: Json, patch: Json, kind: GroupVersionKind) -> Json:
        """`patch` merged over `live` as an apply would, ownership aside; raises ValueError."""
        ...

    def authorize(self, question: AccessAttributes) -> Decision: ...


class Attributes:
    """One write on its way through admission."""

    __slots__ = (
        "_reinvocation",
        "context",
        "dry_run",
        "group",
        "is_reinvocation",
        "kind",
        "name",
        "namespace",
        "namespaced",
        "needs_reinvocation",
        "object",
        "object_kind",
        "old_object",
        "operation",
        "options",
        "resource",
        "subresource",
        "user",
        "version",
    )

    def __init__(
        self,
        *,
        operation: str,
        group: str,
        version: str,
        kind: str,
        resource: str,
        user: UserInfo,
        context: WriteContext,
        namespaced: bool = True,
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        object: Json | None = None,
        old_object: Json | None = None,
        options: Json | None = None,
        dry_run: bool = False,
    ) -> None:
        self.operation = operation
        self.group = group
        self.version = version
        self.kind = kind
        self.resource = resource
        self.subresource = subresource
        self.namespaced = namespaced
        self.namespace = namespace
        self.name = name
        self.object = object
        #: set where the objects are of another kind than the resource (Scale, Eviction)
        self.object_kind: GroupVersionKind | None = None
        self.old_object = old_object
        self.options = options
        self.user = user
        self.dry_run = dry_run
        self.context = context
        self.needs_reinvocation = False
        self.is_reinvocation = False
        self._reinvocation: dict[str, ReinvocationState] = {}
        if not namespace and self.is_namespace:  # a namespace is within itself
            self.namespace = name or metadata_text(object, "name")

    @property
    def gvk(self) -> GroupVersionKind:
        return self.object_kind or GroupVersionKind(self.group, self.version, self.kind)

    @property
    def gvr(self) -> GroupVersionResource:
        return GroupVersionResource(self.group, self.version, self.resource)

    @property
    def is_namespace(self) -> bool:
        return self.resource == "namespaces" and not self.group

    def warn(self, text: str) -> None:
        """Adds a `Warning: 299` header to the answer."""
        self.context.warn(text)

    def reinvocation(self, plugin: str) -> ReinvocationState:
        """What a mutating plugin remembers between its first and its second run."""
        return self._reinvocation.setdefault(plugin, ReinvocationState())

    def shown_name(self) -> str:
        """The name in a refusal: generateName stands in while there is none."""
        if self.name:
            return self.name
        return metadata_text(self.object, "name") or metadata_text(self.object, "generateName") or "Unknown"

    def object_name(self) -> str:
        """The name of the object, or else its generateName."""
        obj = self.object if self.object is not None else self.old_object
        return metadata_text(obj, "name") or metadata_text(obj, "generateName")

    def forbidden(self, why: str) -> status.StatusError:
        """403 `<resource> "<name>" is forbidden: <why>`."""
        return status.forbidden(self.resource, self.group, self.shown_name(), why)


class ReinvocationState:
    """Which calls of one plugin ran before a later change and so have to run once more."""

    def __init__(self) -> None:
        #: the object after the plugin's last run
        self.output: Json | None = None
        self._ran: set[object] = set()
        self._again: set[object] = set()

    def remember(self, obj: Json | None) -> None:
        """Keep a copy, as built-in checks change the object in place."""
        self.output = _decode(_encode(obj))

    def ran(self, call: object) -> None:
        """A call that wants to run again after later changes has run."""
        self._ran.add(call)

    def object_changed(self) -> None:
        self._again |= self._ran
        self._ran = set()

    def runs_again(self, call: object) -> bool:
        return call in self._again


def metadata_text(obj: Json | None, key: str) -> str:
    metadata = obj.get("metadata") if obj is not None else None
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def labels_of(obj: Json | None) -> dict[str, str]:
    metadata = obj.get("metadata") if obj is not None else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}
