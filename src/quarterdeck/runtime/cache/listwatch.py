"""The requests of a reflector: lists in pages, and watches of one resource."""

import random
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from quarterdeck.client.call import Call
from quarterdeck.client.clock import Clock
from quarterdeck.client.discovery import ResourceMapping
from quarterdeck.client.transport import Stream
from quarterdeck.errors import Gone
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.feed import Feed, Silence
from quarterdeck.runtime.cache.listing import ListSplitter
from quarterdeck.runtime.cache.reflectoroption import ReflectorOptions
from quarterdeck.runtime.cache.sink import Opener
from quarterdeck.wire.timeslice import TimeSlice

LIST_SILENCE: Final = 60.0
"""Seconds without a byte in the middle of a list after which its connection counts as dead."""
OVERTIME: Final = 60.0
"""Seconds a watch may outlive the time the server was asked to end it at; then it is dead, alarm or not."""

Make: TypeAlias = Callable[[bytes], Entry | None]
"""The entry of an object; nothing for one that cannot be read."""
Query: TypeAlias = list[tuple[str, str]]


class ListWatch:
    """Lists and watches one resource, as the options say."""

    def __init__(
        self,
        opener: Opener,
        mapping: ResourceMapping,
        options: ReflectorOptions,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._opener: Final = opener
        self._mapping: Final = mapping
        self._options: Final = options
        self._clock: Final = clock
        self._random: Final = rng
        self._was_paged = False
        self.verb: Literal["list", "watch"] = "list"
        """What was asked for last."""
        self.watches = 0
        """Watches that were opened."""

    async def list_all(self, version: str, make: Make) -> tuple[list[Entry], str]:
        """All objects as of a version ("" for the latest, "0" for any), and the version they are of.

        What ``make`` gives nothing for is left out. Raises ``ApiError`` and ``TransportError``.
        """
        limit = self._options.page_size if version in ("", "0") or self._was_paged else 0
        entries: list[Entry] = []
        token = ""
        while True:
            query = [("limit", str(limit))] if limit else []
            if token:
                query.append(("continue", token))
            elif version:
                query.append(("resourceVersion", version))
            try:
                page = await self._read_page(query, make, entries)
            except Gone:
                if not token:
                    raise
                # The pages took longer than the server keeps them: all in one piece then.
                entries.clear()
                token, limit = "", 0
                continue
            token = page.continue_token
            if not token:
                return entries, page.resource_version
            if version == "0":
                self._was_paged = True

    async def _read_page(self, query: Query, make: Make, entries: list[Entry]) -> ListSplitter:
        stream = await self._open("list", query, self._options.accept_list)
        page = ListSplitter()
        turn = TimeSlice()
        silence = Silence(LIST_SILENCE, lifetime=LIST_SILENCE)

        async def take(found: Iterable[msgspec.Raw]) -> None:
            for raw in found:
                entry = make(bytes(raw))
                if entry is not None:
                    entries.append(entry)
                if turn.is_over:
                    await turn.end()

        async with stream, silence:
            async for chunk in stream:
                silence.broken()
                await take(page.feed(chunk))
        await take(page.finish())
        return page

    async def watch(self, version: str, *, initial: bool = False) -> Feed:
        """Open a watch from a version; with ``initial`` it begins with all objects, and a bookmark.

        Raises ``ApiError`` and ``TransportError``.
        """
        low, high = self._options.watch_timeout
        query = [("watch", "true")]
        if version:
            query.append(("resourceVersion", version))
        if initial:
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        if initial or self._options.bookmarks:
            query.append(("allowWatchBookmarks", "true"))
        lifetime = self._random.randrange(low, high)
        query.append(("timeoutSeconds", str(lifetime)))
        stream = await self._open("watch", query, self._options.accept_watch)
        self.watches += 1
        return Feed(stream, opened=self._clock.monotonic(), lifetime=lifetime + OVERTIME)

    async def _open(self, verb: Literal["list", "watch"], query: Query, accept: str) -> Stream:
        options, mapping = self._options, self._mapping
        if options.label_selector:
            query.append(("labelSelector", options.label_selector))
        if options.field_selector:
            query.append(("fieldSelector", options.field_selector))
        self.verb = verb
        return await self._opener.open(
            Call(
                verb,
                mapping.gvk,
                mapping.gvr,
                mapping.is_namespaced,
                namespace=options.namespace,
                query=tuple(query),
                accept=accept,
            )
        )
