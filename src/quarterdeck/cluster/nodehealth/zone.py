"""How fast the nodes of a zone may lose their pods: pure.

If most nodes of a zone seem to be down it may as well be the network: then pods are left where they are, or
go slowly; if nothing in the cluster is ready, nobody goes at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

import msgspec

Zone = tuple[str, str]
"""Region and zone."""

_RATE: Final = 0.1
"""Nodes a second."""
_SLOW_RATE: Final = 0.01
_LARGE: Final = 50
"""Zones up to this size lose no pods at all while most of their nodes are down."""
_UNHEALTHY: Final = 0.55
_FEWEST: Final = 2
"""So many nodes may be down in any zone."""


class _State(Enum):
    INITIAL = auto()
    NORMAL = auto()
    PARTIAL = auto()
    FULL = auto()


class Turn(Enum):
    """What a look at all zones has brought."""

    NOTHING = auto()
    ALL_DOWN = auto()
    """Nothing is ready any more."""
    BACK = auto()
    """Something is ready again."""


class _Limiter(msgspec.Struct):
    """A bucket that holds one token."""

    rate: float
    next: float = 0.0

    def take(self, now: float) -> bool:
        if self.rate <= 0 or now < self.next:
            return False
        self.next = now + 1 / self.rate
        return True


class Zones:
    """The zones of a cluster, and who waits in them to be tainted."""

    def __init__(self) -> None:
        self._states: dict[Zone, _State] = {}
        self._limiters: dict[Zone, _Limiter] = {}
        self._waiting: dict[Zone, dict[str, None]] = {}

    def add(self, zone: Zone) -> None:
        """There is a node in a zone."""
        if zone not in self._states:
            self._states[zone] = _State.INITIAL
            self._limiters[zone] = _Limiter(_RATE)
            self._waiting.setdefault(zone, {})

    def wait(self, zone: Zone, node: str) -> None:
        """A node waits to be tainted."""
        self._waiting[zone][node] = None

    def forget(self, node: str) -> None:
        """A node does not wait any longer."""
        for waiting in self._waiting.values():
            waiting.pop(node, None)

    def due(self, now: float) -> list[str]:
        """The nodes whose turn it is; they wait no longer."""
        found = []
        for zone, waiting in self._waiting.items():
            limiter = self._limiters[zone]
            while waiting and limiter.take(now):
                name = next(iter(waiting))
                del waiting[name]
                found.append(name)
        return found

    def next_due(self, now: float) -> float | None:
        """Seconds until the next node may be tainted; ``None`` if none will be."""
        waits = [
            max(limiter.next - now, 0.0)
            for zone, limiter in self._limiters.items()
            if self._waiting[zone] and limiter.rate > 0
        ]
        return min(waits, default=None)

    def judge(self, ready: Mapping[Zone, Iterable[bool]]) -> Turn:
        """Set the pace by which nodes of each zone are ready."""
        counted = {zone: list(each) for zone, each in ready.items()}
        new = {zone: _state(each) for zone, each in counted.items()}
        for zone in new:
            self.add(zone)
        for zone in [each for each in self._states if each not in new]:
            del self._states[zone]
        is_down = all(each is _State.FULL for each in new.values())
        was_down = all(each is _State.FULL for each in self._states.values())
        if is_down and was_down:
            return Turn.NOTHING
        if is_down:
            for zone in self._states:
                self._limiters[zone].rate = 0.0
                self._states[zone] = _State.FULL
            return Turn.ALL_DOWN
        for zone, state in new.items():
            if was_down or self._states[zone] is not state:
                self._limiters[zone].rate = _rate(state, len(counted[zone]))
                self._states[zone] = state
        return Turn.BACK if was_down else Turn.NOTHING


def _state(ready: list[bool]) -> _State:
    down = ready.count(False)
    if down and down == len(ready):
        return _State.FULL
    if down > _FEWEST and down / len(ready) >= _UNHEALTHY:
        return _State.PARTIAL
    return _State.NORMAL


def _rate(state: _State, size: int) -> float:
    if state is _State.PARTIAL:
        return _SLOW_RATE if size > _LARGE else 0.0
    return _RATE
