"""How long changes of a set's children are gathered before the set is looked at.

A look at a set costs as much as the set is large. While thousands of children come up, each with several
changes, looks one after the other would take most of the operator's time; a single change must not wait
for others that do not come. So a set is left alone for longer after a look that many changes had led to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from quarterdeck.api import Key

__all__ = ["Crowds"]

_SHORT: Final = 0.03
_MANY: Final = 8
"""Changes between two looks that make a crowd."""
_SHARE: Final = 20
"""A set in a crowd is left alone for so many times as long as the last look took."""
_LONGEST: Final = 1.0


class Crowds:
    """By set."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` counts seconds."""
        self._clock: Final = clock
        self._changes: Final[dict[Key, int]] = {}
        """Since the last look."""
        self._pause: Final[dict[Key, float]] = {}

    def changed(self, key: Key) -> float:
        """A child has changed: seconds until its set is to be looked at."""
        self._changes[key] = self._changes.get(key, 0) + 1
        return self.pause(key)

    def pause(self, key: Key) -> float:
        """Seconds for which a set is left alone."""
        return self._pause.get(key, _SHORT)

    @contextmanager
    def look(self, key: Key) -> Iterator[None]:
        """A set is looked at within the block."""
        is_crowd, started = self._changes.pop(key, 0) > _MANY, self._clock()
        try:
            yield
        finally:
            if is_crowd:
                self._pause[key] = min(_LONGEST, max(_SHORT, _SHARE * (self._clock() - started)))
            else:
                self._pause.pop(key, None)

    def forget(self, key: Key) -> None:
        """A set is gone."""
        self._changes.pop(key, None)
        self._pause.pop(key, None)
