"""Watching: the stream of changes.

A watch is opened by ``async with`` and read by ``async for``. It ends when the server ends it (they all
do, after some minutes) and raises when something is wrong: an ``ERROR`` event becomes its ``ApiError``
(``Expired`` and ``Gone`` ask for a new list), a lost connection ``StreamClosed``. Re-opening, bookmarks
and re-lists are the business of informers, not of this module.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Generic, Literal, Self, TypeAlias, TypeVar, cast

from quarterdeck.api import ObjectMeta, PartialObjectMetadata, decode
from quarterdeck.client.line import LineBatches, line_batches
from quarterdeck.client.transport import Stream
from quarterdeck.client.watchline import INITIAL_EVENTS_END, error_of, split_line

T = TypeVar("T")
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


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


class Watch(Generic[T]):
    """A watch of decoded events."""

    def __init__(self, open: Open, path: str, read: Callable[[bytes], T]) -> None:
        self._open = open
        self._path = path
        self._read = read
        self._stream: Stream | None = None
        self._lines: LineBatches | None = None
        self._pending: deque[bytes] = deque()

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

    async def __anext__(self) -> WatchEvent[T] | Bookmark:
        if self._lines is None:
            raise RuntimeError("open the watch with 'async with' first")
        while not self._pending:
            self._pending.extend(await anext(self._lines))
        type, raw = split_line(self._pending.popleft())
        if type == "ERROR":
            raise error_of(raw, self._path)
        if type == "BOOKMARK":
            return Bookmark(decode(raw, PartialObjectMetadata).metadata)
        return WatchEvent(cast("ChangeType", type), self._read(raw))
