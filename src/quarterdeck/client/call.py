"""A call: one verb on one resource, before it becomes bytes.

Every verb of the client builds a ``Call``. The client's layers are functions from call to call, and an
interceptor sees calls: that is why dry-run, field owners and fault injection are a few lines each, and
why they cannot forget a verb.
"""

import re
from collections.abc import Awaitable, Callable
from functools import cache, lru_cache
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from quarterdeck.api import GroupVersionKind
from quarterdeck.api.kind import GroupVersionResource
from quarterdeck.client.lane import LaneName
from quarterdeck.client.transport import Headers, Response, Stream

Verb = Literal[
    "get", "list", "watch", "create", "update", "patch", "apply", "delete", "deletecollection", "raw"
]

WRITES: Final = frozenset({"create", "update", "patch", "apply", "delete", "deletecollection"})
"""Verbs that change something."""

_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "apply": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_SAFE: Final = re.compile(r"[A-Za-z0-9._~-]*")
_JSON: Final = "application/json"


class Call(msgspec.Struct, frozen=True):
    """One request in the API's own terms."""

    verb: Verb
    gvk: GroupVersionKind
    gvr: GroupVersionResource
    is_namespaced: bool
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = _JSON
    accept: str = _JSON
    timeout: float | None = None
    object_name: str = ""
    """Name in the body of a create, where the path has none."""

    @property
    def is_write(self) -> bool:
        """Whether the call changes something."""
        return self.verb in WRITES

    @property
    def method(self) -> str:
        """The HTTP method."""
        return _METHODS[self.verb]

    @property
    def path(self) -> str:
        """The percent-encoded path."""
        path = _collection(self.gvr, self.namespace if self.is_namespaced else "")
        if self.name:
            path = f"{path}/{encode_part(self.name)}"
        return f"{path}/{self.subresource}" if self.subresource else path

    @property
    def headers(self) -> Headers:
        """Media types of the exchange."""
        return _media_types(self.accept, self.content_type if self.body else "")

    @property
    def lane(self) -> LaneName:
        """Leases have a lane of their own."""
        if self.gvr.resource == "leases" and self.gvr.group == "coordination.k8s.io":
            return LaneName.LEASE
        return LaneName.DEFAULT

    def has_query(self, key: str) -> bool:
        """Whether a query parameter is set."""
        for name, _ in self.query:  # noqa: SIM110  asked for every call: a generator costs more than this
            if name == key:
                return True
        return False

    def with_query(self, key: str, value: str) -> "Call":
        """The call with one more query parameter."""
        return msgspec.structs.replace(self, query=(*self.query, (key, value)))


Layer: TypeAlias = Callable[[Call], Call]
"""Changes calls on their way out, or refuses them by raising."""

Proceed: TypeAlias = Callable[[Call], Awaitable[Response]]
ProceedStream: TypeAlias = Callable[[Call], Awaitable[Stream]]

Interceptor: TypeAlias = Callable[[Call, Proceed], Awaitable[Response]]
"""Replaces a call, fails it, or proceeds with it and looks at the answer."""

StreamInterceptor: TypeAlias = Callable[[Call, ProceedStream], Awaitable[Stream]]
"""The same for watches."""


@lru_cache(maxsize=1024)
def _collection(gvr: GroupVersionResource, namespace: str) -> str:
    if namespace:
        return f"{gvr.prefix}/namespaces/{encode_part(namespace)}/{gvr.resource}"
    return f"{gvr.prefix}/{gvr.resource}"


@cache
def _media_types(accept: str, content_type: str) -> Headers:
    if content_type:
        return (("accept", accept), ("content-type", content_type))
    return (("accept", accept),)


def encode_part(text: str) -> str:
    """Percent-encode one path segment or query value."""
    return text if _SAFE.fullmatch(text) else quote(text, safe="")


@lru_cache(maxsize=256)
def encode_query(pairs: tuple[tuple[str, str], ...]) -> str:
    """The query string of some parameters."""
    return "&".join([f"{key}={encode_part(value)}" for key, value in pairs]) if pairs else ""
