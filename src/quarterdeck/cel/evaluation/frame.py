"""The frame of an evaluation: a list that holds what it costs, then one slot per variable."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.cel.error import CostLimitExceeded
from quarterdeck.wire.turn import look_up

COST, LIMIT, MOST, FIRST_SLOT = 0, 1, 2, 3
"""Cost so far, cost at which to look up, cost limit."""
_STEP: Final = 2_000
"""Cost between two looks at the clock: about a millisecond."""


def new_frame(size: int, limit: int) -> list[Any]:
    """A frame for an evaluation that may cost as much as `limit`."""
    frame: list[Any] = [None] * size
    frame[COST], frame[LIMIT], frame[MOST] = 0, min(limit, _STEP), limit
    return frame


def stop(frame: list[Any]) -> None:
    """For an evaluation that has passed `LIMIT`: it is too dear, or its turn is over, or it goes on."""
    if frame[COST] > frame[MOST]:
        raise CostLimitExceeded
    look_up()
    frame[LIMIT] = min(frame[MOST], frame[COST] + _STEP)
