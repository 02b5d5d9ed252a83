"""When a container that ended starts again. Pure; numbers are a kubelet's."""

from __future__ import annotations

from typing import Final

_FIRST: Final = 10.0
_LONGEST: Final = 300.0
_FORGIVEN_AFTER: Final = 600.0
"""Seconds of running after which earlier failures do not count any more."""


def next_attempt(attempt: int, ran: float) -> int:
    """The number of a run in a row of failures, after run ``attempt`` that lasted ``ran`` seconds."""
    return 1 if ran >= _FORGIVEN_AFTER else attempt + 1


def restart_delay(attempt: int) -> float:
    """Seconds from the end of a run to the start of the next; the first time there is no wait."""
    return 0.0 if attempt <= 1 else min(_FIRST * 2 ** min(attempt - 2, 10), _LONGEST)


def span(seconds: float) -> str:
    """A time as Go writes it."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
