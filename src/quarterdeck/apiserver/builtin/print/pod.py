"""The row of a pod: readiness, the status word and restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from quarterdeck.api.jsonobject import Json

from .text import NONE, UNKNOWN, age, human_duration, is_true

_EMPTY: Mapping[str, Any] = {}


class _Metadata(TypedDict, total=False):
    name: Any
    creationTimestamp: Any
    deletionTimestamp: Any


class _Container(TypedDict, total=False):
    name: Any
    restartPolicy: Any


class _Spec(TypedDict, total=False):
    containers: list[_Container] | None
    initContainers: list[_Container] | None
    nodeName: Any
    readinessGates: Any


class _Status(TypedDict, total=False):
    phase: Any
    reason: Any
    conditions: Any
    initContainerStatuses: Any
    containerStatuses: Any
    nominatedNodeName: Any
    podIP: Any
    podIPs: Any


class PrintedPod(TypedDict, total=False):
    """What `pod_cells` and the row's conditions read of a pod: the rest of its text is skipped."""

    metadata: _Metadata
    spec: _Spec | None
    status: _Status | None


def pod_cells(pod: Json, now: datetime) -> list[Any]:
    meta = pod["metadata"]
    spec: Mapping[str, Any] = pod.get("spec") or _EMPTY
    status: Mapping[str, Any] = pod.get("status") or _EMPTY
    phase = status.get("phase") or ""
    reason = status.get("reason") or phase
    conditions = status.get("conditions")
    if conditions:
        for condition in conditions:
            if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
                reason = "SchedulingGated"
    total = len(spec.get("containers") or ())
    ready = restarts = 0
    last = ""
    initializing = False
    if init_containers := spec.get("initContainers"):
        sidecars = {item.get("name") for item in init_containers if item.get("restartPolicy") == "Always"}
        total += len(sidecars)
        found = _init_state(status.get("initContainerStatuses") or (), sidecars, len(init_containers))
        ready, restarts, last, sidecar_restarts, sidecar_last, init_reason = found
        if init_reason:
            reason = init_reason
            initializing = True
        if not initializing or is_true(conditions, "Initialized"):
            restarts, last = sidecar_restarts, sidecar_last
            initializing = False
    statuses = status.get("containerStatuses")
    if statuses and not initializing:
        reason, running, more, last = _container_state(statuses, reason, last, conditions)
        ready += running
        restarts += more
    if meta.get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            reason = "Terminating"
    restarts_text = str(restarts)
    if restarts and last:
        restarts_text = f"{restarts} ({age(last, now)} ago)"
    stamp = meta.get("creationTimestamp")
    try:
        created = human_duration((now - datetime.fromisoformat(stamp)).total_seconds())
    except (ValueError, TypeError):
        created = UNKNOWN
    addresses = status.get("podIPs")
    address = (addresses[0].get("ip") if addresses else status.get("podIP")) or NONE
    return [
        meta.get("name"),
        f"{ready}/{total}",
        reason,
        restarts_text,
        created,
        address,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec["readinessGates"], conditions) if spec.get("readinessGates") else NONE,
    ]


def _init_state(
    statuses: Sequence[Mapping[str, Any]], sidecars: set[Any], count: int
) -> tuple[int, int, str, int, str, str]:
    """(ready sidecars, restarts, last restart, the same two of sidecars alone, reason or "")."""
    ready = restarts = sidecar_restarts = 0
    last = sidecar_last = ""
    for index, item in enumerate(statuses):
        is_sidecar = item.get("name") in sidecars
        times = item.get("restartCount") or 0
        ended = ((item.get("lastState") or _EMPTY).get("terminated") or _EMPTY).get("finishedAt") or ""
        restarts += times
        last = max(last, ended)
        if is_sidecar:
            sidecar_restarts += times
            sidecar_last = max(sidecar_last, ended)
        state = item.get("state") or _EMPTY
        terminated = state.get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and item.get("started"):
            ready += bool(item.get("ready"))
            continue
        waiting = (state.get("waiting") or _EMPTY).get("reason")
        if terminated is not None:
            reason = f"Init:{_ended(terminated)}"
        elif waiting and waiting != "PodInitializing":
            reason = f"Init:{waiting}"
        else:
            reason = f"Init:{index}/{count}"
        return ready, restarts, last, sidecar_restarts, sidecar_last, reason
    return ready, restarts, last, sidecar_restarts, sidecar_last, ""


def _ended(terminated: Mapping[str, Any]) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _container_state(
    statuses: Sequence[Mapping[str, Any]], reason: str, last: str, conditions: Any
) -> tuple[str, int, int, str]:
    """(reason, ready containers, restarts, last restart)."""
    ready = restarts = 0
    error = ""
    for item in reversed(statuses):
        restarts += item.get("restartCount") or 0
        if previous := item.get("lastState"):
            last = max(last, (previous.get("terminated") or _EMPTY).get("finishedAt") or "")
        state = item.get("state") or _EMPTY
        waiting, terminated = state.get("waiting"), state.get("terminated")
        if waiting is not None and waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _ended(terminated)
            if terminated.get("exitCode"):
                error = reason
        elif state.get("running") is not None and item.get("ready"):
            ready += 1
    if reason == "Completed":
        if ready and is_true(conditions, "Ready"):
            reason = "Running"
        elif error:
            reason = error
        elif ready:
            reason = "NotReady"
    return reason, ready, restarts, last


def _gates(gates: Sequence[Mapping[str, Any]], conditions: Sequence[Mapping[str, Any]] | None) -> str:
    states: dict[Any, Any] = {}
    for item in conditions or ():
        states.setdefault(item.get("type"), item.get("status"))
    passed = sum(states.get(gate.get("conditionType")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"
