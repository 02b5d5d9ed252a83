"""The HTTP server under webhooks, probes and metrics: routes by path, limits, errors in our log."""

from collections.abc import Callable
from typing import Final

from quarterdeck.runtime.log.field import get_logger
from quarterdeck.wire.http import KIB, MIB, HttpServer, Limits, Request, Response, Route, text

_LIMITS: Final = Limits(
    head=256 * KIB,
    # The API server is told in a review that its object is too large, and keeps its connection.
    discard=512 * MIB,
    # kube-apiserver drops its own idle connections after 90 s.
    idle=120.0,
)
_NOT_FOUND: Final = text(404, "404 page not found\n")
_FAILED: Final = text(500, "500 internal server error\n")
_log: Final = get_logger(__name__)


def path_server(find: Callable[[str], Route | None]) -> HttpServer:
    """A server of what is found by path; it is yet to be started."""
    return HttpServer(lambda request: find(request.path) or _NOT_FOUND, limits=_LIMITS, on_error=_failed)


def _failed(error: Exception, request: Request) -> Response:
    _log.error("http handler failed", error, path=request.path)
    return _FAILED
