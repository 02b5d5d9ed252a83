"""How long changes are gathered before the object they concern is looked at.

For ``delay`` of a watch. One object that changes is looked at soon, because nobody else comes. Where
hundreds come up at once, each of them changes several times within a moment, and a look after each change
would be most of the work: then the looks wait until the changes of an object are likely to be complete.
"""

from collections.abc import Callable
from typing import Final

from quarterdeck.api import Key
from quarterdeck.runtime.loop.clock import LoopClock

_WINDOW: Final = 1.0
"""Seconds in which keys are counted."""
_MANY: Final = 16
"""Keys within a window that make a crowd."""
_LONGEST: Final = 1.0


class Gathering:
    """Seconds for a key: ``shortest``, or ``longest`` while many other keys change as well."""

    def __init__(
        self, shortest: float, *, longest: float = _LONGEST, clock: Callable[[], float] | None = None
    ) -> None:
        """``clock`` counts seconds; by default those of the running loop."""
        self._shortest: Final = shortest
        self._longest: Final = longest
        self._clock: Final = clock if clock is not None else LoopClock().monotonic
        self._keys: Final[set[Key]] = set()
        self._ends = 0.0
        """When the present window does."""
        self._was_crowd = False
        """The window before was one; each begins anew, and must not begin as if there were nobody."""

    def __call__(self, key: Key) -> float:
        """Something that concerns a key has changed: seconds until it is to be looked at."""
        now = self._clock()
        if now >= self._ends:
            self._was_crowd = len(self._keys) > _MANY and now < self._ends + _WINDOW
            self._keys.clear()
            self._ends = now + _WINDOW
        self._keys.add(key)
        return self._longest if self._was_crowd or len(self._keys) > _MANY else self._shortest
