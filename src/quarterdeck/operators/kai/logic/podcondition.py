"""Conditions of pods that somebody else owns: a patch of one entry, and none if it says that already."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import Time
from quarterdeck.api.k8s import Pod


def condition_patch(
    pod: Pod, type: str, *, is_true: bool, reason: str, message: str, now: Time
) -> dict[str, Any] | None:
    """The strategic merge patch of the pod's status that sets a condition; nothing if it is there."""
    status = "True" if is_true else "False"
    known = next((each for each in pod.status.conditions if each.type == type), None)
    if known is not None and (known.status, known.reason, known.message) == (status, reason, message):
        return None
    changed: dict[str, Any] = {"type": type, "status": status, "reason": reason, "message": message}
    if known is None or known.status != status:
        changed["lastTransitionTime"] = str(now)
    return {"status": {"conditions": [changed]}}
