"""What can be wrong with a pod: one that was placed, and one that waits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .examined import Examined
from .field import ENDED, Json, condition, items, of, plural
from .problem import Finding

_IMAGE: Final = (
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
)
_CONFIGURATION: Final = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PostStartHookError",
)
_START: Final = 300.0
"""Seconds in which a container starts, a pod is ready, and a gate is lifted."""
_RESTARTS: Final = 3
_LATELY: Final = 600.0
_MEMORY: Final = 3600.0
_UNSEEN: Final = 60.0
_STOP: Final = 60.0
"""Seconds beyond its grace period in which a pod is gone."""
_WAIT: Final = 5.0
"""Seconds in which a scheduler may change its mind."""
_STARTED_AGAIN_BY: Final = (
    "Job",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "PodClique",
    "ReplicationController",
)
_COUNTED: Final = re.compile(r"(?:^|, |: )\d+ (?=[A-Z(a-z])")
_REASONS: Final = (
    (r"Insufficient \S*/gpu\b", "waits-for-gpus", "not enough free GPUs"),
    (r"Insufficient cpu", "waits-for-cpu", "not enough free CPU"),
    (r"Insufficient memory", "waits-for-memory", "not enough free memory"),
    (r"Too many pods", "waits-for-pod-slots", "the nodes have as many pods as they take"),
    (r"Insufficient (\S+?)[,. ]", "waits-for-resource", "not enough of {0}"),
    (
        r"untolerated taint\(?s?\)? ?(\{[^}]*\})?",
        "waits-for-toleration",
        "it does not tolerate the taint {0}",
    ),
    (r"node affinity/selector", "waits-for-labels", "no node has the labels that it selects"),
    (r"pod (?:anti-)?affinity", "waits-for-pod-affinity", "no node satisfies its rules about other pods"),
    (r"topology spread constraints", "waits-for-spread", "no node satisfies its spread constraints"),
    (r"(?i:volume)", "waits-for-volume", "a volume is not there, or is elsewhere"),
    (r"free ports", "waits-for-port", "its host ports are taken on every node"),
    (r"(?i:resourceclaim)|DRA|devices", "waits-for-devices", "devices that it claims are not free"),
    (r"were unschedulable", "waits-for-uncordon", "the nodes take no new pods"),
    (r"no nodes available|0/0 nodes", "waits-for-nodes", "the cluster has no node for pods"),
)
"""What schedulers say of single nodes, the most telling first."""


def examine_pod(obj: Json) -> Iterator[Finding]:
    """What is wrong with a pod."""
    pod = Examined("Pod", obj, queue=of(of(obj, "metadata"), "labels").get("kai.scheduler/queue", ""))
    phase = str(pod.status.get("phase") or "Pending")
    if ends := pod.metadata.get("deletionTimestamp"):
        yield pod.found("pod-terminating", "it should be gone by now", since=ends, after=_STOP)
    elif phase in ENDED:
        yield from _ended(pod, phase)
    elif not pod.spec.get("nodeName"):
        yield from _waiting(pod, obj)
    else:
        yield from _placed(pod, obj, phase)


def _ended(pod: Examined, phase: str) -> Iterator[Finding]:
    if phase != "Failed":
        return
    reason = str(pod.status.get("reason") or "")
    if reason == "Evicted":
        yield pod.found(
            "pod-evicted", str(pod.status.get("message") or "its node evicted it"), is_dated=False
        )
    elif not _is_started_again(pod):
        code = next((each.get("exitCode") for each in _terminated(pod)), None)
        why = reason or ("it has failed" if code is None else f"it ended with exit code {code}")
        yield pod.found("pod-failed", why, is_dated=False)


def _terminated(pod: Examined) -> Iterator[Json]:
    for each in items(pod.status, "containerStatuses"):
        ended = of(of(each, "state"), "terminated")
        if ended.get("exitCode"):
            yield ended


def _is_started_again(pod: Examined) -> bool:
    owners = items(pod.metadata, "ownerReferences")
    return any(each.get("kind") in _STARTED_AGAIN_BY for each in owners)


def _placed(pod: Examined, obj: Json, phase: str) -> Iterator[Finding]:
    troubled = False
    statuses = items(pod.status, "initContainerStatuses") + items(pod.status, "containerStatuses")
    for each in statuses:
        for finding in _container(pod, each):
            troubled = True
            yield finding
    ready = condition(obj, "Ready")
    since = str(ready.get("lastTransitionTime") or "")
    if phase == "Running" and ready.get("status") == "False" and not troubled:
        why = str(ready.get("message") or ready.get("reason") or "it is not ready")
        yield pod.found("pod-not-ready", why, since=since, after=_START)
    elif phase == "Pending" and not statuses:
        yield pod.found("pod-starting", "its node has not started it", after=_START)


def _container(pod: Examined, status: Json) -> Iterator[Finding]:
    name = str(status.get("name") or "")
    restarts = int(status.get("restartCount") or 0)
    waiting = of(of(status, "state"), "waiting")
    last = of(of(status, "lastState"), "terminated")
    reason, told = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    detail = plural(restarts, "restart") if restarts else ""
    ended = str(last.get("finishedAt") or "")
    if reason == "CrashLoopBackOff":
        code = last.get("exitCode")
        killed = last.get("reason") == "OOMKilled"
        why = (
            "was killed for its memory"
            if killed
            else "ends"
            if code is None
            else f"ends with exit code {code}"
        )
        text = f"container {name} {why} again and again"
        yield pod.found("pod-crash-loop", text, since=ended, about=name, detail=detail)
    elif reason in _IMAGE:
        text = f"image {status.get('image') or '?'} cannot be pulled ({reason})"
        yield pod.found("pod-image", text, about=name)
    elif reason in _CONFIGURATION:
        yield pod.found("pod-configuration", f"container {name}: {told or reason}", about=name)
    elif waiting:
        text = f"container {name} has not started: {told or reason or 'no reason is given'}"
        yield pod.found("pod-starting", text, after=_START, about=name)
    elif last.get("reason") == "OOMKilled":
        text = f"container {name} was killed for its memory"
        yield pod.found("pod-out-of-memory", text, since=ended, until=_MEMORY, about=name, detail=detail)
    elif restarts >= _RESTARTS and ended:
        text = f"container {name} was restarted lately"
        yield pod.found("pod-restarting", text, since=ended, until=_LATELY, about=name, detail=detail)


def _waiting(pod: Examined, obj: Json) -> Iterator[Finding]:
    gates = [str(each.get("name") or "") for each in items(pod.spec, "schedulingGates")]
    scheduled = condition(obj, "PodScheduled")
    since = str(scheduled.get("lastTransitionTime") or "")
    if gates:
        text = f"scheduling gate {', '.join(gates)} has not been lifted"
        yield pod.found("pod-gated", text, after=_START, about=", ".join(gates))
    elif not scheduled:
        scheduler = str(pod.spec.get("schedulerName") or "default-scheduler")
        text = f"scheduler {scheduler} has not looked at it"
        yield pod.found("pod-unseen", text, after=_UNSEEN, about=scheduler)
    elif scheduled.get("reason") == "BindingError":
        yield pod.found(
            "pod-binding-failed", str(scheduled.get("message") or "it could not be bound"), since=since
        )
    elif scheduled.get("status") == "False":
        situation, text = _why_it_waits(str(scheduled.get("message") or ""))
        yield pod.found(situation, text, since=since, after=_WAIT)


def _why_it_waits(message: str) -> tuple[str, str]:
    """The most telling reason that a scheduler gives; numbers of nodes change and are left out."""
    for pattern, situation, text in _REASONS:
        if match := re.search(pattern, message):
            return situation, text.format(*(each or "" for each in match.groups())).strip()
    plain = _COUNTED.sub("", message.partition("\n")[0]).strip()
    return "waits", plain or "no scheduler has a place for it"
