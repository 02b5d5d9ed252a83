"""Limits that change while a container runs."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api.k8s import Container, Pod
from quarterdeck.api.k8s.pod import ResourceRequirements
from quarterdeck.cluster.agent.container.cgroup import Cgroups
from quarterdeck.cluster.agent.pod.limit import ContainerLimits, needs_restart
from quarterdeck.cluster.agent.record.view import AnyContainer, Run

from .podkit import pod, running, sight


class FullGroups(Cgroups):
    """Control groups that are made nowhere; a container beyond so much memory has it already."""

    def __init__(self) -> None:
        super().__init__("test")
        self.written: list[tuple[str, dict[str, str]]] = []
        self.used = 0

    def _find(self) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def make(self, container: str, resources: ResourceRequirements) -> list[str]:
        limits = resources.limits
        self.written.append((container, {name: str(each) for name, each in limits.items()}))
        return []

    def change(self, container: str, resources: ResourceRequirements) -> None:
        limits = resources.limits
        if "memory" in limits and limits["memory"].value < self.used:
            raise OSError(16, "Device or resource busy")
        self.make(container, resources)


def limited(policy: str = "", **amounts: str) -> Pod:
    container: dict[str, Any] = {"name": "main", "image": "i", "resources": {"limits": amounts}}
    if policy:
        container["resizePolicy"] = [{"resourceName": policy, "restartPolicy": "RestartContainer"}]
    return pod(containers=[container])


def main_of(made: Pod) -> Container:
    return made.spec.containers[0]


@pytest.mark.parametrize(
    ("policy", "after", "restarts"),
    [
        ("", {"cpu": "2", "memory": "1Gi"}, False),
        ("memory", {"cpu": "2", "memory": "1Gi"}, False),
        ("cpu", {"cpu": "2", "memory": "1Gi"}, True),
        ("cpu", {"cpu": "1000m", "memory": "2Gi"}, False),
    ],
)
def test_what_has_changed_decides_about_a_restart(policy: str, after: dict[str, str], restarts: bool) -> None:
    before = main_of(limited(cpu="1", memory="1Gi")).resources
    assert needs_restart(main_of(limited(policy, **after)), before) is restarts


class Pods:
    """One container and what became of its limits."""

    def __init__(self) -> None:
        self.groups = FullGroups()
        self.told: list[str] = []
        self.restarted: list[str] = []
        self.limits = ContainerLimits(self.groups, "uid", self._tell)

    def _tell(self, type: str, reason: str, note: str, container: str = "") -> None:
        self.told.append(reason)

    def _restart(self, container: AnyContainer, run: Run) -> None:
        self.restarted.append(container.name)

    async def follow(self, made: Pod) -> bool:
        return await self.limits.follow(made.spec.containers, sight(main=running()), self._restart)

    def is_settled(self, made: Pod, number: int = 0) -> bool:
        return self.limits.is_settled(made.spec.containers, sight(main=running(number=number)))

    def shown(self) -> dict[str, str]:
        found = self.limits.of("main", running())
        return {name: str(each) for name, each in found.limits.items()} if found is not None else {}


async def test_a_change_is_made_once_and_shown() -> None:
    pods = Pods()
    pods.limits.give(main_of(limited(memory="64Mi")), 0)
    assert not await pods.follow(limited(memory="64Mi"))
    assert await pods.follow(limited(memory="96Mi"))
    assert not await pods.follow(limited(memory="96Mi"))
    assert pods.groups.written == [("uid-main-0", {"memory": "64Mi"}), ("uid-main-0", {"memory": "96Mi"})]
    assert pods.shown() == {"memory": "96Mi"}


async def test_what_cannot_be_is_tried_again_and_the_old_limit_stays() -> None:
    pods = Pods()
    pods.limits.give(main_of(limited(memory="64Mi")), 0)
    pods.groups.used = 48 << 20
    for _ in range(2):
        assert not await pods.follow(limited(memory="32Mi"))
        assert pods.limits.problem == "container main: Device or resource busy"
        assert (pods.is_settled(limited(memory="32Mi")), pods.shown()) == (False, {"memory": "64Mi"})
    pods.groups.used = 0
    assert await pods.follow(limited(memory="32Mi"))
    assert (pods.limits.problem, pods.is_settled(limited(memory="32Mi"))) == ("", True)


async def test_a_restart_is_asked_for_once_and_until_then_nothing_is_settled() -> None:
    pods = Pods()
    pods.limits.give(main_of(limited("memory", memory="64Mi")), 0)
    wanted = limited("memory", memory="96Mi")
    for _ in range(3):
        await pods.follow(wanted)
        assert not pods.is_settled(wanted)
    assert (pods.restarted, len(pods.groups.written)) == (["main"], 1)
    pods.limits.give(main_of(wanted), 1)
    assert pods.is_settled(wanted, number=1)


async def test_limits_of_what_an_earlier_agent_started_are_set_again() -> None:
    pods = Pods()
    assert await pods.follow(limited("memory", memory="96Mi"))
    assert (pods.restarted, pods.shown()) == ([], {"memory": "96Mi"})
