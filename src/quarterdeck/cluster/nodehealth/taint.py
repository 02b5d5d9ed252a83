"""The taints that the conditions of a node bring: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from quarterdeck.cluster.nodehealth.nodeview import NodeView
from quarterdeck.cluster.nodetaint import NodeTaint

_NO_SCHEDULE: Final = "NoSchedule"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
NOT_READY: Final = NodeTaint("node.kubernetes.io/not-ready", "", "NoExecute")
UNREACHABLE: Final = NodeTaint("node.kubernetes.io/unreachable", "", "NoExecute")
_KEYS: Final = {
    ("Ready", "False"): NOT_READY.key,
    ("Ready", "Unknown"): UNREACHABLE.key,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS: Final = frozenset({*_KEYS.values(), _UNSCHEDULABLE})


def by_condition(node: NodeView) -> tuple[list[NodeTaint], list[NodeTaint]]:
    """Taints against new pods that a node should get, and those it should lose."""
    pairs = [(each.type, each.status) for each in node.conditions]
    wanted = [NodeTaint(_KEYS[pair], "", _NO_SCHEDULE) for pair in pairs if pair in _KEYS]
    if node.is_unschedulable:
        wanted.append(NodeTaint(_UNSCHEDULABLE, "", _NO_SCHEDULE))
    there = [each for each in node.taints if each.effect == _NO_SCHEDULE and each.key in _OURS]
    return [each for each in wanted if not _has(there, each)], [
        each for each in there if not _has(wanted, each)
    ]


def swapped(
    taints: Sequence[dict[str, Any]], add: Iterable[NodeTaint], remove: Iterable[NodeTaint], now: str
) -> list[dict[str, Any]] | None:
    """The taints of a node, on the wire, after some came and others went; ``None`` if nothing changes."""
    gone = [(each.key, each.effect) for each in remove]
    kept = [each for each in taints if (each.get("key"), each.get("effect")) not in gone]
    known = [(each.get("key"), each.get("effect")) for each in kept]
    new = [
        {"key": each.key, "effect": each.effect, "timeAdded": now}
        for each in add
        if (each.key, each.effect) not in known
    ]
    return [*kept, *new] if new or len(kept) < len(taints) else None


def _has(taints: Iterable[NodeTaint], wanted: NodeTaint) -> bool:
    return any((each.key, each.effect) == (wanted.key, wanted.effect) for each in taints)
