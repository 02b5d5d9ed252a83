"""Watching: the stream of changes, decoded or raw.

A watch is opened by ``async with`` and read by ``async for``. It ends when the server ends it (they all
do, after some minutes) and raises when something is wrong: an ``ERROR`` event becomes its ``ApiError``
(``Expired`` and ``Gone`` ask for a new list), a lost connection ``StreamClosed``. Re-opening, bookmarks
and re-lists are the business of informers, not of this module.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Generic, Literal, Self, TypeAlias, TypeVar, cast

import msgspec

from quarterdeck.api import ObjectMeta, PartialObjectMetadata, decode, decode_json
from quarterdeck.api.codec import UNREADABLE
from quarterdeck.client.line import LineBatches, line_batches
from quarterdeck.client.transport import Stream
from quarterdeck.errors import ApiError, ProtocolError

__all__ = ["Bookmark", "RawEvent", "RawWatch", "Watch", "WatchEvent"]

T = TypeVar("T")
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class RawEvent(msgspec.Struct, frozen=True, gc=False):
    """One line of a watch: the type, and the object as undecoded JSON.

    ``object`` refers to the bytes of its line; ``bytes(event.object)`` copies it out.
    """

    type: str
    object: msgspec.Raw


class WatchEvent(Generic[T]):
    """An object changed."""

    __slots__ = ("object", "type")

    def __init__(self, type: ChangeType, object: T) -> None:
        self.type: Final = type
        self.object: Final = object

    def __repr__(self) -> str:
        return f"WatchEvent({self.type}, {self.object!r})"


class Bookmark:
    """Nothing changed up to this version; the last one of the initial events says so."""

    __slots__ = ("metadata",)

    def __init__(self, metadata: ObjectMeta) -> None:
        self.metadata: Final = metadata

    @property
    def resource_version(self) -> str:
        """The version everything is known up to."""
        return self.metadata.resource_version

    @property
    def ends_initial_events(self) -> bool:
        """Whether the initial state is now complete (``sendInitialEvents``)."""
        return self.metadata.annotations.get(INITIAL_EVENTS_END) == "true"

    def __repr__(self) -> str:
        return f"Bookmark({self.resource_version!r})"


Open: TypeAlias = Callable[[], Awaitable[Stream]]
_decode_event: Final = msgspec.json.Decoder(RawEvent).decode


class RawWatch:
    """A watch in batches of undecoded events: one batch per chunk that arrived."""

    def __init__(self, open: Open, path: str) -> None:
        self._open = open
        self._path = path
        self._stream: Stream | None = None
        self._lines: LineBatches | None = None

    async def __aenter__(self) -> Self:
        self._stream = await self._open()
        self._lines = line_batches(aiter(self._stream))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[RawEvent]:
        if self._lines is None:
            raise RuntimeError("open the watch with 'async with' first")
        batch = await anext(self._lines)
        try:
            return [_decode_event(line) for line in batch]
        except UNREADABLE as error:
            raise ProtocolError(f"not a watch event on {self._path}: {error}") from error

    def error(self, event: RawEvent) -> ApiError:
        """The exception of an ``ERROR`` event."""
        return ApiError.from_status(decode_json(event.object), verb="watch", path=self._path)


class Watch(Generic[T]):
    """A watch of decoded events."""

    def __init__(self, raw: RawWatch, read: Callable[[bytes], T]) -> None:
        self._raw = raw
        self._read = read
        self._pending: deque[RawEvent] = deque()

    async def __aenter__(self) -> Self:
        await self._raw.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._raw.__aexit__(kind, error, trace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent[T] | Bookmark:
        while not self._pending:
            self._pending.extend(await anext(self._raw))
        event = self._pending.popleft()
        if event.type == "ERROR":
            raise self._raw.error(event)
        if event.type == "BOOKMARK":
            return Bookmark(decode(event.object, PartialObjectMetadata).metadata)
        return WatchEvent(cast("ChangeType", event.type), self._read(bytes(event.object)))
