"""Pods of simulated nodes that follow Stages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster
from tests.unit.cluster.clusterkit import exists
from tests.unit.cluster.workloadkit import NAMESPACE, pod

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "stages.kwok.x-k8s.io"},
    "spec": {
        "group": "kwok.x-k8s.io",
        "names": {"kind": "Stage", "plural": "stages", "singular": "stage", "listKind": "StageList"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
READY = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName false | Quote }}
conditions:
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
"""


@pytest.fixture(autouse=True)
async def nodes(cluster: TestCluster, manager: Manager, client: Client) -> None:
    Workloads(jobs=None, scheduler=None, nodes=NodeSettings(count=1)).add_to(manager)
    await client.create(DynamicObject(DEFINITION))
    await cluster.start(manager)
    await asyncio.sleep(2)


def asking(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def stage(name: str, *expressions: dict[str, Any], kind: str = "Pod", **spec: Any) -> DynamicObject:
    return DynamicObject(
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "Stage",
            "metadata": {"name": name},
            "spec": {
                "resourceRef": {"apiGroup": "v1", "kind": kind},
                "selector": {"matchExpressions": list(expressions)},
                **spec,
            },
        }
    )


ALIVE = asking(".metadata.deletionTimestamp", "DoesNotExist")
IS_READY = asking('.status.conditions.[] | select( .type == "Ready" ) | .status', "In", "True")


async def phase(client: Client, name: str = "p") -> str:
    return (await client.get(Pod, name, NAMESPACE)).status.phase


async def test_a_pod_goes_from_stage_to_stage(client: Client, recorder: EventLog) -> None:
    pending = asking(".status.phase", "In", "Pending")
    steps: list[dict[str, Any]] = [
        {"event": {"type": "Warning", "reason": "Tired", "message": "had enough"}},
        {"patch": {"subresource": "status", "root": "status", "type": "merge", "template": "phase: Failed"}},
        {"finalizers": {"add": [{"value": "example.com/last"}]}},
    ]
    for each in (
        stage("ready", ALIVE, pending, delay={"durationMilliseconds": 5000}, next={"statusTemplate": READY}),
        stage(
            "tired",
            ALIVE,
            IS_READY,
            asking(".status.phase", "In", "Running"),
            delay={
                "durationMilliseconds": 1000,
                "durationFrom": {"expressionFrom": '.metadata.annotations["tired-after"]'},
            },
            steps=steps,
        ),
        stage(
            "going",
            asking(".metadata.deletionTimestamp", "Exists"),
            next={"finalizers": {"empty": True}, "delete": True},
        ),
    ):
        await client.create(each)
    await asyncio.sleep(1)
    await client.create(pod("p", annotations={"tired-after": "10s"}))
    await asyncio.sleep(4)
    assert await phase(client) == "Pending"
    await asyncio.sleep(2)
    found = await client.get(Pod, "p", NAMESPACE)
    assert found.status.phase == "Running"
    assert found.status.pod_ip.startswith("10.")
    assert [(each.name, each.ready) for each in found.status.container_statuses] == [("c", True)]
    await asyncio.sleep(10)
    found = await client.get(Pod, "p", NAMESPACE)
    assert (found.status.phase, found.metadata.finalizers) == ("Failed", ("example.com/last",))
    assert ("Warning", "Tired", "had enough") in [
        (each.type, each.reason, each.note) for each in recorder.events
    ]
    await client.delete(Pod, "p", NAMESPACE)
    await asyncio.sleep(2)
    assert not await exists(client, Pod, "p", NAMESPACE)


async def test_pods_behave_as_usual_when_the_last_stage_is_gone(client: Client) -> None:
    late = stage(
        "late", ALIVE, asking(".status.phase", "In", "Pending"), delay={"durationMilliseconds": 10**9}
    )
    made = await client.create(late)
    await asyncio.sleep(1)
    await client.create(pod("p"))
    await asyncio.sleep(5)
    assert await phase(client) == "Pending"
    await client.delete(made)
    await asyncio.sleep(2)
    assert await phase(client) == "Running"


async def test_a_stage_that_is_not_carried_out_says_so(client: Client, recorder: EventLog) -> None:
    wrong = stage("wrong", next={"statusTemplate": "phase: {{ randAlpha 5 }}"})
    await client.create(wrong)
    await client.create(stage("nodes", kind="Node", next={"statusTemplate": "phase: x"}))
    await asyncio.sleep(1)
    told = {(each.regarding.metadata.name, each.reason): each.note for each in recorder.events}
    text = "template: function 'randAlpha' is not available here"
    assert told["wrong", "NotCarriedOut"] == text
    assert told["nodes", "NotCarriedOut"] == "stages of Node are not carried out, only those of Pod"
    await client.create(pod("p"))
    await asyncio.sleep(2)
    assert await phase(client) == "Pending"  # its only stage is no help
    good = {"spec": {"next": {"statusTemplate": "phase: Running"}}}
    await client.patch(wrong, MergePatch(good))
    await asyncio.sleep(2)
    assert await phase(client) == "Running"


async def test_a_template_that_fails_is_told_on_the_pod(client: Client, recorder: EventLog) -> None:
    broken = "phase: {{ index .spec.containers 7 }}"
    await client.create(stage("broken", ALIVE, next={"statusTemplate": broken}))
    await asyncio.sleep(1)
    await client.create(pod("p"))
    await asyncio.sleep(2)
    told = [each.note for each in recorder.events if each.reason == "StageFailed"]
    assert told == ["stage broken: template: function 'index': index 7 is out of range"]
