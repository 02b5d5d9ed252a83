"""What the checks of a grove case look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import msgspec

from quarterdeck.operators.grove import names

from .caseobjects import CaseObjects
from .history import History
from .operator import OperatorRun

__all__ = ["Check", "Evidence", "Json", "Lines", "Marked"]

Json = dict[str, Any]
Lines = list[str]


class Marked(msgspec.Struct, frozen=True):
    """A pod as it was when it was marked."""

    clique: str
    labels: dict[str, str]


class Evidence:
    """What checks look at."""

    def __init__(self, objects: CaseObjects, operator: OperatorRun, history: History) -> None:
        self.objects: Final = objects
        self.operator: Final = operator
        self.history: Final = history
        self.error = ""
        """What the last action was refused for."""
        self.parsed: dict[str, int] = {}
        self.trace_from = 0
        self.recorded_from = 0
        self.marked: dict[str, Marked] = {}
        self.asked_before = 0

    async def mark_pods(self) -> None:
        """Remember the pods there are."""
        self.marked = {}
        for pod in await self.objects.items("Pod"):
            labels = pod["metadata"].get("labels") or {}
            self.marked[pod["metadata"]["uid"]] = Marked(labels.get(names.PODCLIQUE, ""), labels)

    def mark_calls(self) -> None:
        """Remember what backends were asked."""
        self.asked_before = len(self.operator.backends.calls)


Check: TypeAlias = Callable[[Any, Evidence], Awaitable[Lines]]
"""Compares what a case says after a word with what there is."""
