"""A condition as it should be."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from quarterdeck.api import Condition, Time
from quarterdeck.api.condition import Conditions, ConditionStatus


class Verdict(msgspec.Struct, frozen=True):
    """What a condition says."""

    type: str
    status: ConditionStatus
    reason: str
    message: str


def with_verdicts(
    conditions: Iterable[Condition],
    verdicts: Iterable[Verdict],
    *,
    now: Time,
    without: Iterable[str] = (),
) -> tuple[Condition, ...]:
    """Conditions brought up to date; the time of a transition moves only with the status."""
    edited = Conditions(conditions)
    for verdict in verdicts:
        edited.set(verdict.type, verdict.status, reason=verdict.reason, message=verdict.message, now=now)
    for type in without:
        edited.remove(type)
    return tuple(edited.frozen())
