"""How long changes of children are gathered before their owner, a set or a group, is looked at.

A look at an owner costs as much as it has children. While thousands of them come up, each with several
changes, looks one after the other would take most of the operator's time; a single change must not wait
for others that do not come. So an owner is left alone for longer after a look that many changes had led to.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api import Key

_MANY: Final = 8
"""Changes between two looks that make a crowd."""
_PER_CHILD: Final = 0.001
"""Seconds for which an owner in a crowd is left alone, for each of its children."""
_LONGEST: Final = 1.0


class Crowds:
    """By owner."""

    def __init__(self, *, shortest: float) -> None:
        """``shortest`` are the seconds for which changes are gathered in any case."""
        self._shortest: Final = shortest
        self._changes: Final[dict[Key, int]] = {}
        """Since the last look."""
        self._pause: Final[dict[Key, float]] = {}

    def changed(self, key: Key) -> float:
        """A child has changed: seconds until its owner is to be looked at."""
        self._changes[key] = self._changes.get(key, 0) + 1
        return self._pause.get(key, self._shortest)

    def looked(self, key: Key, children: int) -> None:
        """A look at an owner with so many children begins."""
        if self._changes.pop(key, 0) > _MANY:
            self._pause[key] = min(_LONGEST, max(self._shortest, children * _PER_CHILD))
        else:
            self._pause.pop(key, None)

    def forget(self, key: Key) -> None:
        """An owner is gone."""
        self._changes.pop(key, None)
        self._pause.pop(key, None)
