"""What every step of a write can use: the request, its time, and what it has allocated."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Self

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.auth import request_attributes
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.apiserver.resource.strategy import ClusterState
from quarterdeck.wire.wallclock import timestamp


class Context:
    """One attempt to write: its facts, and what is over with it; see strategy.WriteContext.

    Used in a `with` block that ends after the commit: whatever was taken for the write is then held by what
    is stored, or by nobody.
    """

    __slots__ = ("_at_end", "cluster", "dry_run", "is_settled", "now", "request")

    def __init__(self, request: ApiRequest, cluster: ClusterState, *, dry_run: bool) -> None:
        self.request = request
        self.cluster = cluster
        self.dry_run = dry_run
        #: whether the stored object needs no decoding where it is left unchanged, see Resource.is_settled
        self.is_settled = False
        self.now = timestamp()
        self._at_end: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        while self._at_end:
            self._at_end.pop()()

    def at_end(self, work: Callable[[], None]) -> None:
        self._at_end.append(work)

    @property
    def requester(self) -> Json:
        return self.request.user.to_json()

    @property
    def verb(self) -> str:
        return self.request.info.verb

    def denied(self, verb: str, subresource: str, *, in_namespace: bool = False, name: str = "") -> str:
        if self.request.user.is_master:
            return ""
        info = copy(self.request.info)
        info.verb, info.subresource, info.name = verb, subresource, name
        if not in_namespace:
            info.namespace = ""
        return self.cluster.denied(request_attributes(self.request.user, info))

    def warn(self, text: str) -> None:
        self.request.warn(text)
