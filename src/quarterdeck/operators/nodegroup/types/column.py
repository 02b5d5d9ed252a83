"""Printer columns: what ``kubectl get nodegroups`` shows."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import Column

COLUMNS: Final = (
    Column("Type", ".spec.nodeType"),
    Column("Ready", ".status.ready", "integer"),
    Column("Nodes", ".status.nodes", "integer"),
    Column("UpToDate", ".status.upToDate", "integer"),
    Column("Instances", ".status.instances", "integer"),
    Column("Desired", ".status.desired", "integer"),
    Column("Min", ".status.min", "integer"),
    Column("Max", ".status.max", "integer"),
    Column("Standby", ".status.standby", "integer"),
    Column("Status", ".status.conditionSummary.statusMessage"),
    Column.age(),
)
V1_COLUMNS: Final = (
    *COLUMNS,
    Column("Synced", ".status.deckhouse.synced"),
    Column("Observed", ".status.deckhouse.observed.lastTimestamp", priority=1),
    Column("Processed", ".status.deckhouse.processed.lastTimestamp", priority=1),
)
