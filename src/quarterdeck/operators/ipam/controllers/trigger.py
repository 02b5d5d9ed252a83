"""The external trigger: ``POST /requeue/subnetpools/{namespace}/{name}`` has a pool audited and looked at.

It is served beside the metrics, to those whom the API server allows to post to the path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

import msgspec

from quarterdeck.api import Key
from quarterdeck.operators.ipam import names
from quarterdeck.wire.http import Request, Response, text

from .shared import SharedState


class Trigger:
    """Takes requests and puts them on the PoolStatus controller's channel."""

    def __init__(self, shared: SharedState, *, is_leading: Callable[[], bool]) -> None:
        self._shared: Final = shared
        self._is_leading: Final = is_leading

    def handle(self, request: Request) -> Response:
        """Answer one request."""
        if request.method != "POST":
            return Response(405, b"method not allowed\n", "text/plain", [("Allow", "POST")])
        key = _pool_of(request.path)
        if key is None:
            return text(404, "no such path: name a namespace and a pool\n")
        if not self._is_leading() or not self._shared.trigger.has_consumers:
            return text(503, "this replica does not look after pools now\n")
        if not self._shared.trigger.offer(key):
            return text(429, "too many requests are waiting\n")
        self._shared.forced.add(key)
        self._shared.metrics.requeues.labelled("external").inc()
        answer = {"queued": True, "namespace": key.namespace, "name": key.name}
        return Response(202, msgspec.json.encode(answer))


def _pool_of(path: str) -> Key | None:
    parts = path.removeprefix(names.TRIGGER_PATH).split("/")
    if len(parts) != 2 or not all(parts):
        return None
    return Key(unquote(parts[0]), unquote(parts[1]))
