"""Keys that wait for something to be seen in the cache."""

from collections.abc import Callable
from typing import Final

from quarterdeck.api import Key
from quarterdeck.errors import CacheError
from quarterdeck.runtime.cache.cache import Cache
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.reconcile.result import Until


class WaitingKeys:
    """What each key waits for; a key waits for one thing at a time, the last it asked for."""

    def __init__(self) -> None:
        self._cancels: Final[dict[Key, Callable[[], None]]] = {}

    def __len__(self) -> int:
        return len(self._cancels)

    def wait(self, key: Key, until: Until, cache: Cache, arrived: Callable[[], None]) -> None:
        """Call ``arrived`` once, when what the key waits for is in the cache; at once if it is.

        Raises ``CacheError`` for a kind that is not cached.
        """
        if not cache.has_informer(until.kind):
            raise CacheError(f"cannot wait for {until.kind}: it is not cached")
        informer = cache.informer(until.kind)
        shard = informer.shard_for(until.key.namespace)
        if shard is None:
            return
        decode = informer.decoder(until.kind)

        def accepts(entry: Entry | None) -> bool:
            return until.test(decode(entry) if entry is not None else None)

        def has_arrived() -> None:
            self._cancels.pop(key, None)
            arrived()

        self.drop(key)
        self._cancels[key] = _nothing
        cancel = shard.when_entry(until.key.namespace, until.key.name, accepts, has_arrived)
        if key in self._cancels:
            self._cancels[key] = cancel

    def drop(self, key: Key) -> None:
        """Forget what one key waits for: it runs now, or its object is gone."""
        cancel = self._cancels.pop(key, None)
        if cancel is not None:
            cancel()

    def discard(self, unwanted: Callable[[Key], bool]) -> None:
        """Forget what these keys wait for."""
        for key in [key for key in self._cancels if unwanted(key)]:
            self._cancels.pop(key)()


def _nothing() -> None:
    return None
