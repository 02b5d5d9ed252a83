"""What every step of a write has at hand: its facts, its moment, copies of documents."""

from __future__ import annotations

import time
from typing import Any

from quarterdeck.apiserver.resource.strategy import ClusterState
from quarterdeck.wire import wallclock
from quarterdeck.wire.jsonvalue import deep_copy

from .request import ApiRequest

__all__ = ["Context", "deep_copy", "timestamp"]

Json = dict[str, Any]

_second: tuple[int, str] = (0, "")


def timestamp() -> str:
    """Now, in RFC 3339 whole seconds; formatted once a second."""
    global _second  # a cache of one value
    now = int(wallclock.now())
    if _second[0] != now:
        _second = (now, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)))
    return _second[1]


class Context:
    """Facts about one write for strategies; see strategy.WriteContext."""

    __slots__ = ("cluster", "dry_run", "is_settled", "now", "request")

    def __init__(self, request: ApiRequest, cluster: ClusterState, *, dry_run: bool) -> None:
        self.request = request
        self.cluster = cluster
        self.dry_run = dry_run
        #: whether the stored object needs no decoding where it is left unchanged, see Resource.is_settled
        self.is_settled = False
        self.now = timestamp()

    @property
    def requester(self) -> Json:
        return self.request.user.to_json()

    def warn(self, text: str) -> None:
        self.request.warn(text)
