"""States of pods that a grove case prescribes, as a kubelet would report them."""

from __future__ import annotations

from typing import Any, Final

from tests.harness.case import CaseFailure

__all__ = ["STATES", "pod_status"]

Json = dict[str, Any]

STATES: Final = ("ready", "starting", "startedNotReady", "crashed", "pending")
_BEGIN: Final = "2030-01-01T00:00:00Z"


def pod_status(pod: Json, state: str) -> Json:
    """The status of a pod in a state."""
    if state not in STATES:
        raise CaseFailure(f"pod state {state} is not understood")
    if state == "pending":
        unscheduled = _condition("PodScheduled", False, "Unschedulable")
        return {"phase": "Pending", "conditions": [unscheduled], "containerStatuses": []}
    is_ready = state == "ready"
    conditions = [
        _condition("PodScheduled", True),
        _condition("Initialized", True),
        _condition("ContainersReady", is_ready, "" if is_ready else "ContainersNotReady"),
        _condition("Ready", is_ready, "" if is_ready else "ContainersNotReady"),
    ]
    containers = [
        _container(each["name"], each.get("image", ""), state) for each in pod["spec"]["containers"]
    ]
    phase = "Pending" if state == "starting" else "Running"
    return {"phase": phase, "conditions": conditions, "containerStatuses": containers}


def _condition(type: str, holds: bool, reason: str = "") -> Json:
    condition: Json = {
        "type": type,
        "status": "True" if holds else "False",
        "lastTransitionTime": _BEGIN,
    }
    return {**condition, "reason": reason} if reason else condition


def _container(name: str, image: str, state: str) -> Json:
    running = {"running": {"startedAt": _BEGIN}}
    waits = {"waiting": {"reason": "CrashLoopBackOff" if state == "crashed" else "ContainerCreating"}}
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": _BEGIN, "finishedAt": _BEGIN}}
    is_started = state in ("ready", "startedNotReady")
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "ready": state == "ready",
        "started": is_started,
        "restartCount": 1 if state == "crashed" else 0,
        "state": running if is_started else waits,
        "lastState": ended if state == "crashed" else {},
    }
