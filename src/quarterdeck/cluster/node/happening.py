"""The events of a kubelet about a pod: found by comparing two states. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from quarterdeck.api import value_or
from quarterdeck.api.k8s import Pod, PodStatus
from quarterdeck.api.k8s.pod import ContainerStatus
from quarterdeck.cluster.node.admission import REJECTED
from quarterdeck.cluster.node.podstatus import STOPPED_BY_SIGNAL

_BACK_OFF: Final = "CrashLoopBackOff"
_PARTS: Final = (
    ("spec.initContainers", "init_container_statuses"),
    ("spec.containers", "container_statuses"),
    ("spec.ephemeralContainers", "ephemeral_container_statuses"),
)


class Happening(NamedTuple):
    """One event."""

    type: Literal["Normal", "Warning"]
    reason: str
    text: str
    field_path: str = ""
    """The container it is about."""


def happenings(pod: Pod, after: PodStatus) -> Iterator[Happening]:
    """What has happened to a pod whose status becomes ``after``."""
    if after.reason == "DeadlineExceeded" != pod.status.reason:
        yield Happening("Normal", "DeadlineExceeded", after.message)
    if after.message.startswith(REJECTED) and pod.status.message != after.message:
        yield Happening("Warning", after.reason, after.message.removeprefix(REJECTED))
    has_ended = after.phase in ("Succeeded", "Failed")
    for path, field in _PARTS:
        known: dict[str, ContainerStatus] = {each.name: each for each in getattr(pod.status, field)}
        for status in getattr(after, field):
            where = f"{path}{{{status.name}}}"
            yield from _of_container(pod, known.get(status.name), status, where, has_ended=has_ended)


def _of_container(
    pod: Pod, before: ContainerStatus | None, after: ContainerStatus, where: str, *, has_ended: bool
) -> Iterator[Happening]:
    if _has_started(before, after):
        text = f'Container image "{after.image}" already present on machine and can be accessed by the pod'
        yield Happening("Normal", "Pulled", text, where)
        yield Happening("Normal", "Created", "Container created", where)
        yield Happening("Normal", "Started", "Container started", where)
    waits = after.state.waiting.reason if after.state.waiting else ""
    waited = before.state.waiting.reason if before is not None and before.state.waiting else ""
    if waits == _BACK_OFF != waited:
        whole = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
        text = f"Back-off restarting failed container {after.name} in pod {whole}"
        yield Happening("Warning", "BackOff", text, where)
    ended = after.state.terminated
    was_running = before is not None and bool(before.state.running)
    if was_running and has_ended and ended and value_or(ended.exit_code, 0) == STOPPED_BY_SIGNAL:
        yield Happening("Normal", "Killing", f"Stopping container {after.name}", where)


def _has_started(before: ContainerStatus | None, after: ContainerStatus) -> bool:
    """Whether a run has begun, even if it is over by now."""
    if not after.state.running and not after.state.terminated:
        return False
    if before is None or before.state.waiting:
        return bool(after.state.running) or value_or(after.started, False) or _ran(after)
    return value_or(after.restart_count, 0) > value_or(before.restart_count, 0)


def _ran(after: ContainerStatus) -> bool:
    """Whether a container that ended had been started at all, and not stopped before."""
    ended = after.state.terminated
    return value_or(ended.exit_code, 0) != STOPPED_BY_SIGNAL if ended else False
