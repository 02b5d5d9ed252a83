"""How far the resize of a pod has come, as a kubelet tells it: two conditions, and events.

``PodResizePending`` while the node has no room for what the pod wants, ``PodResizeInProgress`` from the
moment it is granted until all running containers have it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from quarterdeck.api import Time, to_dict, value_or
from quarterdeck.api.k8s import Pod
from quarterdeck.api.k8s.pod import PodCondition
from quarterdeck.cluster.agent.machine.allocation import Allocations, Given, with_given, write_given
from quarterdeck.cluster.agent.pod.control import PodEvents
from quarterdeck.cluster.agent.record.folder import PodFolder
from quarterdeck.cluster.node.statuspatch import RESIZE_IN_PROGRESS, RESIZE_PENDING

_DEFERRED: Final = "Deferred"
_ERROR: Final = "Error"


def resize_text(what: str, pod: Pod, generation: int, error: str = "") -> str:
    """What an event says of a resize: which, and what every container is to have. Pure."""
    summary: dict[str, Any] = {}
    for field, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
    ):
        if containers:
            summary[field] = [
                {"name": each.name, "resources": to_dict(each.resources)} for each in containers
            ]
    summary["generation"] = generation
    if error:
        summary["error"] = error
    return f"Pod resize {what}: {msgspec.json.encode(summary).decode()}"


class PodResize:
    """The resizes of one pod."""

    def __init__(
        self,
        allocations: Allocations,
        folder: PodFolder,
        tell: PodEvents,
        wake: Callable[[Iterable[str]], None],
    ) -> None:
        """``wake`` is called with other pods that got the resources they waited for."""
        self._allocations: Final = allocations
        self._folder: Final = folder
        self._tell: Final = tell
        self._wake: Final = wake
        self._known: Given | None = None
        self._pending: PodCondition | None = None
        self._progress: PodCondition | None = None

    @property
    def conditions(self) -> list[PodCondition]:
        """Those that are true."""
        return [each for each in (self._pending, self._progress) if each is not None]

    async def granted(self, pod: Pod) -> Pod:
        """The pod with what it has been given, which may be less than it asks for."""
        uid, generation = pod.metadata.uid, value_or(pod.metadata.generation, 0)
        if self._known is None:
            self._known = self._allocations.of(uid)
        rejection, others = self._allocations.follow(pod)
        self._wake(others)
        if rejection is None:
            self._pending = None
        else:
            before = self._pending
            self._pending = _condition(RESIZE_PENDING, before, _DEFERRED, rejection.message, generation)
            if before is None or before.observed_generation != generation:
                text = resize_text(_DEFERRED, pod, generation, rejection.message)
                self._tell("Warning", "ResizeDeferred", text)
        given = self._allocations.of(uid)
        assert given is not None  # following it has seen to that
        made = with_given(pod, given)
        if given is not self._known:
            is_new, self._known = self._known is not None, given
            if await asyncio.to_thread(self._folder.path.exists):
                await asyncio.to_thread(write_given, self._folder, given)
            if is_new:
                self._progress = _condition(RESIZE_IN_PROGRESS, None, "", "", generation)
                self._tell("Normal", "ResizeStarted", resize_text("started", made, generation))
        return made

    def settle(self, pod: Pod, *, problem: str, is_done: bool) -> None:
        """The containers have what the pod was given, or there is a problem with that."""
        before = self._progress
        if problem:
            generation = value_or(pod.metadata.generation, 0)
            if before is not None:
                generation = value_or(before.observed_generation, generation)
            self._progress = _condition(RESIZE_IN_PROGRESS, before, _ERROR, problem, generation)
            if before is None or (before.reason, before.message) != (_ERROR, problem):
                self._tell("Warning", "ResizeError", resize_text("error", pod, generation, problem))
        elif is_done and before is not None:
            self._progress = None
            generation = value_or(before.observed_generation, 0)
            self._tell("Normal", "ResizeCompleted", resize_text("completed", pod, generation))


def _condition(
    type: str, before: PodCondition | None, reason: str, message: str, generation: int
) -> PodCondition:
    now = Time.of_timestamp(time.time())
    is_same = before is not None and before.reason == reason
    return PodCondition(
        type=type,
        status="True",
        observed_generation=generation,
        last_transition_time=before.last_transition_time if before is not None and is_same else now,
        reason=reason,
        message=message,
    )
