"""HTTP messages and routes: what a handler gets and gives."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import msgspec

__all__ = ["MIB", "Find", "Handler", "Request", "Response", "Route", "text"]

MIB: Final = 1024 * 1024


class Request:
    """One request; header names are compared without regard to case."""

    __slots__ = ("body", "headers", "is_too_large", "method", "path", "query")

    def __init__(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Sequence[tuple[bytes, bytes]] = (),
        body: bytes = b"",
        *,
        is_too_large: bool = False,
    ) -> None:
        self.method: Final = method
        self.path: Final = path
        self.query: Final = query
        self.headers: Final = headers
        self.body: Final = body
        self.is_too_large: Final = is_too_large
        """The body exceeded the route's limit and was thrown away."""

    def header(self, name: bytes) -> str:
        """The first header of a (lower-case) name, or the empty string."""
        for key, value in self.headers:
            if key.lower() == name:
                return value.decode("latin-1")
        return ""


class Response:
    """An answer with its whole body."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        content_type: str = "application/json",
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.status: Final = status
        self.body: Final = body
        self.content_type: Final = content_type
        self.headers: Final = headers


def text(status: int, body: str) -> Response:
    """An answer in plain text."""
    return Response(
        status, body.encode(), "text/plain; charset=utf-8", (("X-Content-Type-Options", "nosniff"),)
    )


Handler: TypeAlias = Callable[[Request], Response | Awaitable[Response]]


class Route(msgspec.Struct, frozen=True):
    """What serves a path."""

    handler: Handler
    body_limit: int = MIB
    """Bytes; larger bodies are not kept and ``Request.is_too_large`` is set."""


Find: TypeAlias = Callable[[str], Route | None]
"""Finds the route of a path."""
