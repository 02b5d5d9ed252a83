"""How long changes of children are gathered before their owner, a set or a group, is looked at.

A look at an owner costs as much as it has children. While thousands of them come up, each with several
changes, looks one after the other would take most of the operator's time; a single change must not wait
for others that do not come. So an owner is left alone for longer after a look that many changes had led to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from quarterdeck.api import Key

__all__ = ["Crowds"]

_MANY: Final = 8
"""Changes between two looks that make a crowd."""
_SHARE: Final = 20
"""An owner in a crowd is left alone for so many times as long as the last look took."""
_LONGEST: Final = 1.0


class Crowds:
    """By owner."""

    def __init__(self, clock: Callable[[], float], *, shortest: float) -> None:
        """``clock`` counts seconds; ``shortest`` are those for which changes are gathered in any case."""
        self._clock: Final = clock
        self._shortest: Final = shortest
        self._changes: Final[dict[Key, int]] = {}
        """Since the last look."""
        self._pause: Final[dict[Key, float]] = {}

    def changed(self, key: Key) -> float:
        """A child has changed: seconds until its owner is to be looked at."""
        self._changes[key] = self._changes.get(key, 0) + 1
        return self.pause(key)

    def pause(self, key: Key) -> float:
        """Seconds for which an owner is left alone."""
        return self._pause.get(key, self._shortest)

    @contextmanager
    def look(self, key: Key) -> Iterator[None]:
        """An owner is looked at within the block."""
        is_crowd, started = self._changes.pop(key, 0) > _MANY, self._clock()
        try:
            yield
        finally:
            if is_crowd:
                self._pause[key] = min(_LONGEST, max(self._shortest, _SHARE * (self._clock() - started)))
            else:
                self._pause.pop(key, None)

    def forget(self, key: Key) -> None:
        """An owner is gone."""
        self._changes.pop(key, None)
        self._pause.pop(key, None)
