"""From a bucket's commits to its watch streams.

Each stream costs a socket write per delivery, however little is in it. So the more it costs to reach all
streams, the more changes go out together: after a round that took a while, the next changes wait for three
times as long, but never longer than anybody would notice. Sending then takes a quarter of the time, also
where hundreds of streams watch a busy kind, and with few streams nothing waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

from quarterdeck.apiserver.registry.watch.unsent import Large
from quarterdeck.apiserver.storage import Bucket, Event
from quarterdeck.wire import wallclock

#: rounds that are cheaper than this, in seconds, are followed by no wait
_CHEAP = 0.001
#: how many times the cost of a round the next changes wait, and how many seconds at most
_WAIT, _LONGEST_WAIT = 3.0, 0.03


class Batch:
    """Changes on their way, in order; `shared` holds encoded forms that many streams need."""

    __slots__ = ("events", "shared")

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.shared: dict[object, bytes | Large] = {}


class Fanout:
    """The streams of one bucket. Every change reaches every stream once, in order."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._streams: dict[object, Callable[[Batch], None]] = {}
        self._held: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, stream: object, notify: Callable[[Batch], None]) -> None:
        """Changes that are held back may reach a new stream too, although it knows them already."""
        if not self._streams:
            self._bucket.subscribers[self] = self._changed
        self._streams[stream] = notify

    def remove(self, stream: object) -> None:
        if self._streams.pop(stream, None) is not None and not self._streams:
            self._bucket.subscribers.pop(self, None)
            self._held = []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def flush(self) -> None:
        """Send what is held back: whoever tells a revision must have sent everything before it."""
        if self._held:
            events, self._held = self._held, []
            self._send(Batch(events))

    def _changed(self, events: list[Event]) -> None:
        if self._timer is not None:
            self._held += events
            return
        started = perf_counter()
        self._send(Batch(events))
        self._rest(perf_counter() - started)

    def _send(self, batch: Batch) -> None:
        for notify in list(self._streams.values()):
            notify(batch)

    def _rest(self, cost: float) -> None:
        if cost > _CHEAP and self._streams and not wallclock.is_virtual():
            wait = min(_WAIT * cost, _LONGEST_WAIT)
            self._timer = asyncio.get_running_loop().call_later(wait, self._rested)

    def _rested(self) -> None:
        self._timer = None
        if self._held:
            started = perf_counter()
            self.flush()
            self._rest(perf_counter() - started)
