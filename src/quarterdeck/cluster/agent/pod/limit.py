"""The limits of a pod's containers: given at the start of a run, and changed while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from quarterdeck.api.k8s import Container
from quarterdeck.api.k8s.pod import ResourceRequirements
from quarterdeck.cluster.agent.container.cgroup import Cgroups
from quarterdeck.cluster.agent.pod.control import PodEvents
from quarterdeck.cluster.agent.record.view import AnyContainer, PodSight, Run

_RESIZABLE: Final = ("cpu", "memory")


def needs_restart(container: AnyContainer, before: ResourceRequirements) -> bool:
    """Whether what has changed since ``before`` is something that the container wants a restart for. Pure."""
    if not isinstance(container, Container):
        return False
    now = container.resources
    changed = {
        name
        for name in _RESIZABLE
        if (now.limits.get(name), now.requests.get(name))
        != (before.limits.get(name), before.requests.get(name))
    }
    return any(
        each.resource_name in changed and each.restart_policy == "RestartContainer"
        for each in container.resize_policy
    )


class ContainerLimits:
    """Knows what each container of a pod has, which may be something else than it should have."""

    def __init__(self, cgroups: Cgroups, uid: str, tell: PodEvents) -> None:
        self._cgroups: Final = cgroups
        self._uid: Final = uid
        self._tell: Final = tell
        self._given: Final[dict[str, tuple[int, ResourceRequirements]]] = {}
        """By container: the number of its run, and its resources."""
        self._restarting: Final[dict[str, int]] = {}
        """By container: the number of the run that ends so that the next one has other resources."""
        self._problems: Final[dict[str, str]] = {}
        """Why a container has not what it should have."""
        self._told_missing = False
        self._loop: Final = asyncio.get_running_loop()

    def give(self, container: AnyContainer, number: int) -> list[str]:
        """Control groups for a run that begins. Blocking."""
        prefix, limits = f"{self._uid}-{container.name}-", container.resources.limits
        self._cgroups.remove(prefix)
        made = self._cgroups.make(f"{prefix}{number}", container.resources)
        self._given[container.name] = (number, container.resources)
        self._problems.pop(container.name, None)
        unmet = [name for name in _RESIZABLE if name in limits]
        if self._cgroups.missing and unmet and not self._told_missing:
            self._told_missing = True
            note = f"limits of {' and '.join(unmet)} are not enforced: {self._cgroups.missing}"
            self._loop.call_soon_threadsafe(self._tell, "Warning", "LimitsNotEnforced", note)
        return made

    def of(self, name: str, run: Run | None) -> ResourceRequirements | None:
        """What a run has; None if that is not known."""
        number, resources = self._given.get(name, (-1, None))
        return resources if run is not None and run.number == number else None

    @property
    def problem(self) -> str:
        """Why containers have not what they should have; empty if they have, or nothing is in the way."""
        return "; ".join(self._problems.values())

    def is_settled(self, containers: Iterable[AnyContainer], sight: PodSight) -> bool:
        """Whether all that run have what they should have."""
        for container in containers:
            run = sight.of(container).run
            if run is not None and run.is_running and self.of(container.name, run) != container.resources:
                return False
        return True

    async def follow(
        self,
        containers: Iterable[AnyContainer],
        sight: PodSight,
        restart: Callable[[AnyContainer, Run], None],
    ) -> bool:
        """Give running containers what they should have by now, or let them be restarted; whether any was."""
        has_changed = False
        for container in containers:
            run, wanted = sight.of(container).run, container.resources
            if run is None or not run.is_running:
                self._problems.pop(container.name, None)
                continue
            before = self.of(container.name, run)
            if wanted == before:
                self._problems.pop(container.name, None)
                continue
            if before is not None and needs_restart(container, before):
                if self._restarting.get(container.name) != run.number:
                    self._restarting[container.name] = run.number
                    restart(container, run)
                continue
            # Also for what an earlier agent started: nobody knows which limits that one knew.
            has_changed = await self._change(container, run) or has_changed
        return has_changed

    async def _change(self, container: AnyContainer, run: Run) -> bool:
        name = f"{self._uid}-{container.name}-{run.number}"
        try:
            await asyncio.to_thread(self._cgroups.change, name, container.resources)
        except OSError as error:  # such as less memory than it uses
            self._problems[container.name] = f"container {container.name}: {error.strerror or error}"
            return False
        self._problems.pop(container.name, None)
        self._given[container.name] = (run.number, container.resources)
        return True
