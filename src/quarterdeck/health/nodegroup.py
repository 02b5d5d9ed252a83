"""What can be wrong with a NodeGroup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .examined import Examined
from .field import Json, items, of, plural
from .problem import Finding

_START: Final = 300.0
"""Seconds in which machines become nodes, and a configuration is taken over."""


def examine_node_group(obj: Json) -> Iterator[Finding]:
    """What is wrong with a group of nodes."""
    group = Examined("NodeGroup", obj)
    status = group.status
    if of(status, "deckhouse").get("synced") == "False":
        yield group.found(
            "nodegroup-not-synced", "its newest configuration was not taken over", is_dated=False
        )
    summary = of(status, "conditionSummary")
    error = str(status.get("error") or "")
    if error or summary.get("ready") == "False":
        yield group.found(
            "nodegroup-error", error or str(summary.get("statusMessage") or "it is not ready"), is_dated=False
        )
    ready, least = int(status.get("ready") or 0), int(status.get("min") or 0)
    if ready < least:
        text = f"{ready} of the {plural(least, 'node')} that it should have at least are ready"
        yield group.found("nodegroup-below-minimum", text, after=_START, is_dated=False)
    nodes, current = int(status.get("nodes") or 0), status.get("upToDate")
    if current is not None and int(current) < nodes:
        text = f"{nodes - int(current)} of {plural(nodes, 'node')} do not have the newest configuration"
        yield group.found("nodegroup-outdated", text, is_dated=False)
    for each in items(status, "lastMachineFailures")[-1:]:
        told = str(of(each, "lastOperation").get("description") or each.get("name") or "a machine failed")
        yield group.found("machine-failed", told, is_dated=False)
