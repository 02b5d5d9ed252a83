"""Pods that are taken on, resized and deferred by what the node has left."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quarterdeck.api import Quantity, decode, to_dict
from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.agent.machine.allocation import (
    Allocations,
    given_of,
    read_given,
    with_given,
    write_given,
)
from quarterdeck.cluster.agent.pod.resize import PodResize
from quarterdeck.cluster.agent.record.folder import PodFolder

from .podkit import pod

NODE = {"cpu": Quantity("2"), "memory": Quantity("4Gi"), "pods": Quantity("10")}


def asking(uid: str, cpu: str, *, generation: int = 1, quality: str = "Burstable", **spec: Any) -> Pod:
    resources = {"requests": {"cpu": cpu}}
    document: dict[str, Any] = to_dict(
        pod(containers=[{"name": "main", "image": "i", "resources": resources}], **spec)
    )
    document["metadata"] |= {"uid": uid, "name": uid, "generation": generation}
    document["status"] = {"qosClass": quality}
    return decode(msgspec.json.encode(document), Pod)


def cpu_of(made: Pod) -> str:
    return str(made.spec.containers[0].resources.requests["cpu"])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def node() -> Allocations:
    return Allocations(lambda: NODE, Clock())


def test_a_pod_for_which_there_is_no_room_is_not_taken_on(node: Allocations) -> None:
    assert node.take_on(asking("one", "1500m")) is None
    refused = node.take_on(asking("two", "1"))
    assert refused == (
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000",
    )
    assert node.of("two") is None
    node.release("one")
    assert node.take_on(asking("two", "1")) is None


def test_a_resize_that_does_not_fit_waits_until_somebody_gives_back(node: Allocations) -> None:
    node.take_on(asking("one", "1"))
    node.take_on(asking("two", "1"))
    refused, granted = node.follow(asking("one", "1500m"))
    assert refused is not None
    assert (refused.reason, granted, node.of("one")) == ("OutOfcpu", [], given_of(asking("one", "1")))
    assert node.follow(asking("two", "500m")) == (None, ["one"])
    assert node.of("one") == given_of(asking("one", "1500m"))


def test_who_waits_is_served_by_priority_then_class_then_time(node: Allocations) -> None:
    node.take_on(asking("full", "1500m"))
    waiting = {
        "last": asking("last", "900m"),
        "later": asking("later", "900m", priority=5, quality="Burstable"),
        "sure": asking("sure", "900m", priority=5, quality="Guaranteed"),
    }
    for uid, wanted in waiting.items():
        node.take_on(asking(uid, "100m"))
        assert node.follow(wanted)[0] is not None
    assert node.release("full") == ["sure", "later"]
    assert node.release("sure") == ["last"]


def test_a_request_in_other_words_is_no_resize(node: Allocations) -> None:
    node.take_on(asking("one", "1"))
    same = asking("one", "1000m")
    given = node.of("one")
    assert given is not None
    assert with_given(same, given) is same


def test_what_a_pod_was_given_outlives_the_agent(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path, "one")
    assert read_given(folder) is None
    folder.path.mkdir(parents=True)
    given = given_of(asking("one", "250m"))
    write_given(folder, given)
    assert read_given(folder) == given


class Story:
    """One pod of a node, and what is told of its resizes."""

    def __init__(self, node: Allocations, folder: PodFolder) -> None:
        self.told: list[str] = []
        self.woken: list[str] = []
        self.resize = PodResize(node, folder, self._tell, self._wake)

    def _tell(self, type: str, reason: str, note: str, container: str = "") -> None:
        self.told.append(f"{type} {reason} {note}")

    def _wake(self, uids: Iterable[str]) -> None:
        self.woken += uids

    def conditions(self) -> list[tuple[str, str, object]]:
        return [(each.type, each.reason, each.observed_generation) for each in self.resize.conditions]


async def test_a_resize_is_told_from_beginning_to_end(node: Allocations, tmp_path: Path) -> None:
    node.take_on(asking("other", "1"))
    node.take_on(asking("one", "1"))
    story = Story(node, PodFolder(tmp_path, "one"))
    assert cpu_of(await story.resize.granted(asking("one", "1"))) == "1"
    assert (story.told, story.conditions()) == ([], [])
    for _ in range(2):
        assert cpu_of(await story.resize.granted(asking("one", "1500m", generation=2))) == "1"
    summary = '{"containers":[{"name":"main","resources":{"requests":{"cpu":"1500m"}}}],"generation":2'
    lack = "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000"
    assert story.told == [f'Warning ResizeDeferred Pod resize Deferred: {summary},"error":"{lack}"}}']
    assert story.conditions() == [("PodResizePending", "Deferred", 2)]
    assert story.resize.conditions[0].message == lack
    node.release("other")
    granted = await story.resize.granted(asking("one", "1500m", generation=2))
    assert cpu_of(granted) == "1500m"
    assert story.conditions() == [("PodResizeInProgress", "", 2)]
    for _ in range(2):
        story.resize.settle(granted, problem="busy", is_done=False)
    assert story.conditions() == [("PodResizeInProgress", "Error", 2)]
    story.resize.settle(granted, problem="", is_done=True)
    assert story.conditions() == []
    assert [each.split()[1] for each in story.told[1:]] == ["ResizeStarted", "ResizeError", "ResizeCompleted"]


async def test_who_shrinks_wakes_those_who_wait(node: Allocations, tmp_path: Path) -> None:
    node.take_on(asking("other", "1"))
    node.take_on(asking("one", "1"))
    assert node.follow(asking("other", "1500m"))[0] is not None
    story = Story(node, PodFolder(tmp_path, "one"))
    await story.resize.granted(asking("one", "500m", generation=2))
    assert story.woken == ["other"]
