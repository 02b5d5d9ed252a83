"""What actions demand of scenarios, where that is simple: nobody is lost, or nobody who is protected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.task import Task
from quarterdeck.scheduler.victim.evictionstep import Step, VictimOutcome


class ConsolidationRules:
    """Every victim keeps its place or gets another."""

    def may_allow(self, tasks: Sequence[Task], steps: Sequence[Step], must_lose: float) -> bool:
        return must_lose <= 0

    def allow(self, tasks: Sequence[Task], steps: Sequence[Step], outcome: VictimOutcome) -> bool:
        return not outcome.lost


class PreemptionRules:
    """Jobs that started lately keep their minimum."""

    def __init__(self, is_protected: Callable[[Job], bool]) -> None:
        self._is_protected: Final = is_protected

    def may_allow(self, tasks: Sequence[Task], steps: Sequence[Step], must_lose: float) -> bool:
        return True

    def allow(self, tasks: Sequence[Task], steps: Sequence[Step], outcome: VictimOutcome) -> bool:
        return spares_minimum(outcome, self._is_protected)


def spares_minimum(outcome: VictimOutcome, is_protected: Callable[[Job], bool]) -> bool:
    """Whether protected jobs lose at most pods above their minimum; to be moved is a loss, too."""
    lost = Counter((task.job, task.leaf) for task in outcome.disturbed)
    for (job, leaf), count in lost.items():
        assert job is not None
        assert leaf is not None
        if job.is_elastic and leaf.used - count < leaf.minimum and is_protected(job):
            return False
    return True
