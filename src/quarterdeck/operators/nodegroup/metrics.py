"""What the operator measures beyond what every controller and webhook does: the size of each group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.runtime.metrics import Registry

STATES: Final = ("nodes", "ready", "upToDate", "instances", "desired", "min", "max")
"""Fields of the status that are counted."""


class NodeGroupMetrics:
    """Gauges by group; made once per registry."""

    def __init__(self, registry: Registry) -> None:
        self._nodes: Final = registry.gauge(
            "quarterdeck_nodegroup_nodes", "Nodes of a group, by what is counted.", ["group", "state"]
        )
        self._error: Final = registry.gauge(
            "quarterdeck_nodegroup_error", "1 while a group cannot be served as wanted.", ["group"]
        )

    def observe(self, group: str, status: Mapping[str, Any]) -> None:
        """Take over the numbers of a status."""
        for state in STATES:
            self._nodes.labelled(group, state).set(status.get(state) or 0)
        summary = status.get("conditionSummary") or {}
        self._error.labelled(group).set(1 if summary.get("ready") == "False" else 0)

    def forget(self, group: str) -> None:
        """A group is gone."""
        for state in STATES:
            self._nodes.remove(group, state)
        self._error.remove(group)
