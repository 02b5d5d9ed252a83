"""What a reflector works between: somebody who opens streams, and somebody who keeps what they bring."""

from collections.abc import Sequence
from typing import Protocol

from quarterdeck.client.call import Call
from quarterdeck.client.transport import Stream
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.health import Health


class Opener(Protocol):
    """Opens streams; a ``quarterdeck.client.Client`` is one."""

    async def open(self, call: Call) -> Stream:
        """Open a stream; raises ``ApiError`` when refused, ``TransportError`` when there is no answer."""
        ...


class Sink(Protocol):
    """Where a reflector puts what it sees."""

    def make(self, raw: bytes) -> Entry:
        """The entry of an object; raises ``SchemaError``."""
        ...

    async def replace(self, entries: Sequence[Entry], version: str) -> None:
        """A complete list as of ``version``."""
        ...

    def put(self, entry: Entry) -> None:
        """An object was added or modified."""
        ...

    def remove(self, entry: Entry) -> None:
        """An object was deleted."""
        ...

    def see(self, version: str) -> None:
        """Everything up to ``version`` has been put and removed."""
        ...

    async def clear(self) -> None:
        """The kind is gone, and every object with it."""
        ...

    def health_changed(self, health: Health) -> None:
        """The reflector is doing better or worse."""
        ...
