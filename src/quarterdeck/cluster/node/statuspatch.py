"""The patch from one status of a pod to another: only what changed, and nothing of other people's. Pure."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import to_dict
from quarterdeck.api.k8s import Pod, PodStatus
from quarterdeck.client import StrategicMergePatch

RESIZE_PENDING: Final = "PodResizePending"
RESIZE_IN_PROGRESS: Final = "PodResizeInProgress"
_TAKEN_AWAY: Final = frozenset({RESIZE_PENDING, RESIZE_IN_PROGRESS})
"""Conditions that are a kubelet's, and gone when they are not true; it has no others of that kind."""

_ADDRESSES: Final = frozenset({"hostIPs", "podIPs"})


def status_patch(pod: Pod, status: PodStatus) -> StrategicMergePatch | None:
    """What turns the status of this very pod into another; None if they are the same."""
    before, after = to_dict(pod.status), to_dict(status)
    changes: dict[str, Any] = {key: value for key, value in after.items() if before.get(key) != value}
    changes |= {key: None for key in before if key not in after}
    if not changes:
        return None
    for key in _ADDRESSES & changes.keys():  # merged by address: one that is not taken away stays
        there = {each["ip"] for each in after.get(key, ())}
        gone = [each["ip"] for each in before.get(key, ()) if each["ip"] not in there]
        changes[key] = [*after.get(key, ()), *({"$patch": "delete", "ip": each} for each in gone)]
    if "conditions" in changes:  # merged by type: those of others stay as they are
        known = {each["type"]: each for each in before.get("conditions", ())}
        changes["conditions"] = [
            {**dict.fromkeys(known.get(each["type"], ())), **each}
            for each in after["conditions"]
            if known.get(each["type"]) != each
        ]
        over = _TAKEN_AWAY & (known.keys() - {each["type"] for each in after["conditions"]})
        changes["conditions"] += [{"$patch": "delete", "type": each} for each in sorted(over)]
    return StrategicMergePatch({"metadata": {"uid": pod.metadata.uid}, "status": changes})
