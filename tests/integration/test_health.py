"""Troubles made for real, on a cluster with nodes, workloads and operators, and seen in all four faces.

Controllers bring the objects into their states; what only a kubelet of a real machine would report (an image
that cannot be pulled, pressure, killed for memory) is written as such a kubelet does, into the status.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import Pod
from quarterdeck.cli.health import assess_cluster, problem_lines
from quarterdeck.cli.screen.screen import plain
from quarterdeck.client import MergePatch
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.dashboard import Board
from quarterdeck.runtime.operator import installed_operators
from quarterdeck.testing import OperatorRun, TestCluster
from tests.unit.health.troubles import bundle

pytestmark = pytest.mark.virtual_time
Json = dict[str, Any]
OPERATORS = ("grove", "ipam", "jobset", "kai", "trainer")
_GPU = "nvidia.com/gpu"


def make(version: str, kind: str, name: str, namespace: str = "default", **rest: Any) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def pod(name: str, *, requests: Json | None = None, note: Json | None = None, **spec: Any) -> Json:
    container = {"name": "main", "image": "example.com/work:1", "resources": {"limits": requests or {}}}
    metadata: Json = {"annotations": {"quarterdeck.dev/run-seconds": "forever", **(note or {})}}
    if ports := spec.pop("ports", None):
        container["ports"] = ports
    if name == "stays":
        metadata["finalizers"] = ["example.com/a"]
    return make("v1", "Pod", name, metadata=metadata, spec={"containers": [container], **spec})


def gang(name: str, queue: str, *, count: int, gpus: int) -> list[Json]:
    members = [
        pod(
            f"{name}-{number}",
            requests={_GPU: str(gpus)},
            note={"pod-group-name": name},
            schedulerName="kai-scheduler",
        )
        for number in range(count)
    ]
    group = make("scheduling.run.ai/v2alpha2", "PodGroup", name, spec={"queue": queue, "minMember": count})
    return [group, *members]


def queue(name: str, limit: int = -1, parent: str = "") -> Json:
    anything = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    shares = {"gpu": {"quota": -1, "limit": limit, "overQuotaWeight": 1}, "cpu": anything, "memory": anything}
    spec = {"resources": shares, **({"parentQueue": parent} if parent else {})}
    return make("scheduling.run.ai/v2", "Queue", name, "", spec=spec)


def template(note: Json | None = None, policy: str = "Always") -> Json:
    container = {"name": "main", "image": "example.com/work:1"}
    spec = {"containers": [container], "restartPolicy": policy}
    return {"metadata": {"labels": {"app": "x"}, "annotations": note or {}}, "spec": spec}


def affinity(kind: str, app: str = "nobody") -> Json:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def workload(kind: str, name: str, **spec: Any) -> Json:
    made = {"selector": {"matchLabels": {"app": "x"}}, "template": template(), **spec}
    return make("apps/v1", kind, name, spec=made)


_UNREADY = {"quarterdeck.dev/ready-seconds": "never"}
_FAILS = {"quarterdeck.dev/run-seconds": "1", "quarterdeck.dev/exit-code": "1"}
_SERVICE = {"service": {"namespace": "default", "name": "nobody"}, "caBundle": ""}
_APART = template()
_APART["spec"]["affinity"] = affinity("podAntiAffinity", app="x")
_TINY = {"cidr": "10.0.0.0/28", "defaultBlockSize": 28}
_STALE = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}
_JOB = template(_FAILS, "Never")
_RULES = [{"apiGroups": ["x.example"], "apiVersions": ["v1"], "resources": ["ys"], "operations": ["CREATE"]}]


def webhook(name: str, failure: str, where: Json) -> Json:
    hook = {
        "name": "a.example.com",
        "clientConfig": where,
        "rules": _RULES,
        "failurePolicy": failure,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = "ValidatingWebhookConfiguration"
    return make("admissionregistration.k8s.io/v1", kind, name, "", webhooks=[hook])


MADE: list[tuple[str, list[Json]]] = [
    ("pod-crash-loop", [pod("crashes", note=_FAILS)]),
    ("pod-not-ready", [pod("unready", note=_UNREADY)]),
    ("pod-failed", [pod("failed", note=_FAILS, restartPolicy="Never")]),
    ("pod-gated", [pod("gated", schedulingGates=[{"name": "example.com/never"}])]),
    ("pod-unseen", [pod("unseen", schedulerName="nobody")]),
    ("no-node-fits", [pod("huge", requests={_GPU: "16"})]),
    ("waits-for-gpus", [pod(f"gpus-{number}", requests={_GPU: "8"}) for number in range(3)]),
    ("waits-for-labels", [pod("labels", nodeSelector={"example.com/none": "x"})]),
    ("waits-for-pod-affinity", [pod("affine", affinity=affinity("podAffinity"))]),
    (
        "waits-for-port",
        [pod(f"port-{number}", ports=[{"containerPort": 80, "hostPort": 8080}]) for number in range(3)],
    ),
    (
        "waits-for-volume",
        [pod("volume", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "nobody"}}])],
    ),
    (
        "volume-claim-pending",
        [
            make(
                "v1",
                "PersistentVolumeClaim",
                "pending",
                spec={
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "nobody",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            )
        ],
    ),
    ("job-failed", [make("batch/v1", "Job", "fails", spec={"backoffLimit": 0, "template": _JOB})]),
    (
        "job-back-off",
        [make("batch/v1", "Job", "tries", spec={"backoffLimit": 9, "template": _JOB})],
    ),
    ("deployment-unavailable", [workload("Deployment", "unready", template=template(_UNREADY))]),
    (
        "deployment-stalled",
        [workload("Deployment", "stalled", template=template(_UNREADY), progressDeadlineSeconds=30)],
    ),
    (
        "deployment-degraded",
        [workload("StatefulSet", "partly", replicas=3, podManagementPolicy="Parallel", template=_APART)],
    ),
    (
        "quota-used-up",
        [
            make("v1", "Namespace", "full", ""),
            make("v1", "ResourceQuota", "few", "full", spec={"hard": {"count/configmaps": "1"}}),
        ],
    ),
    (
        "pods-refused",
        [
            make("v1", "Namespace", "none", ""),
            make("v1", "ResourceQuota", "no-pods", "none", spec={"hard": {"pods": "0"}}),
            {**workload("ReplicaSet", "refused"), "metadata": {"name": "refused", "namespace": "none"}},
        ],
    ),
    ("pod-terminating", [pod("stays")]),
    (
        "not-leading",
        [
            make(
                "coordination.k8s.io/v1",
                "Lease",
                "gone",
                spec=_STALE,
            )
        ],
    ),
    ("webhook-unreachable", [webhook("unreachable", "Fail", _SERVICE)]),
    ("webhook-ignored", [webhook("ignored", "Ignore", _SERVICE)]),
    ("queue-parent-missing", [queue("orphan", parent="nobody")]),
    ("gang-over-limit", [queue("team"), queue("small", 1, "team"), *gang("over", "small", count=2, gpus=1)]),
    ("queue-missing", gang("queueless", "typo", count=1, gpus=1)),
    ("gang-waits", [queue("wide", -1, "team"), *gang("wide", "wide", count=9, gpus=8)]),
    (
        "service-unavailable",
        [
            make(
                "grove.io/v1alpha1",
                "PodCliqueSet",
                "service",
                spec={
                    "replicas": 1,
                    "template": {
                        "cliques": [
                            {
                                "name": "role",
                                "spec": {
                                    "roleName": "role",
                                    "replicas": 1,
                                    "minAvailable": 1,
                                    "podSpec": {
                                        "schedulerName": "default-scheduler",
                                        "containers": [{"name": "main", "image": "example.com/work:1"}],
                                        "nodeSelector": {"example.com/none": "x"},
                                    },
                                },
                            }
                        ]
                    },
                },
            )
        ],
    ),
    (
        "claim-error",
        [
            make("plexaubnet.io/v1alpha1", "SubnetPool", "tiny", spec=_TINY),
            *(
                make(
                    "plexaubnet.io/v1alpha1",
                    "SubnetClaim",
                    f"claim-{number}",
                    spec={"poolRef": "tiny", "clusterID": f"c{number}", "blockSize": 28},
                )
                for number in range(2)
            ),
        ],
    ),
]
"""Situations, and the objects that controllers bring into them."""


@asynccontextmanager
async def troubled_cluster() -> AsyncIterator[TestCluster]:
    found = installed_operators()
    kinds = [each for name in OPERATORS for each in found[name].definitions()]
    nodes = NodeSettings(count=2, capacity={"cpu": "64", "memory": "256Gi", _GPU: "8", "pods": "110"})
    async with TestCluster(crds=kinds, controllers=Workloads(nodes=nodes)) as cluster:
        runs = [OperatorRun(cluster, found[name], name=name, is_embedded=True) for name in OPERATORS]
        async with cluster.serving(*(each.manager for each in runs)):
            for _, objects in MADE:
                for each in objects:
                    await cluster.client.create(DynamicObject(each))
            await cluster.client.delete(Pod, "stays", namespace="default")
            yield cluster


@asynccontextmanager
async def followed(board: Board) -> AsyncIterator[Board]:
    following = asyncio.create_task(board.run())
    try:
        await board.settled()
        yield board
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def test_troubles_that_controllers_make_are_seen_in_all_four_faces() -> None:
    async with troubled_cluster() as cluster:
        for _ in range(60):
            await cluster.clock.sleep(10.0)
            now = datetime.fromtimestamp(cluster.clock.time(), UTC)
            assessment = await assess_cluster(cluster.client, now=now)
            seen = {each.situation for each in assessment.problems}
            missing = {name for name, _ in MADE} - seen
            if not missing:
                break
        assert not missing, sorted(seen)
        lines = "\n".join(
            problem_lines(assessment.problems, now)
        )  # of status; check prints the same problems
        async with followed(Board(cluster.client)) as board:
            rows = board.sections["problems"].values()
            assert {name for name, _ in MADE} <= {row["situation"] for row in rows}
            assert next(iter(rows))["severity"] == "critical", "the worst comes first"
            health = board.sections["health"]["health"]
            assert (health["critical"], health["unknown"]) == (board.assessment.count("critical"), [])
            for problem in board.assessment.problems:
                assert f"{problem.head}: {problem.reason}" in plain(board)
            gangs = board.sections["gangs"]
            assert gangs["default/crashes"]["runs"] is False
            assert gangs["default/crashes"]["state"] == "failing", "a crash loop does not run"
            notes = {"annotations": {"quarterdeck.dev/failed": "true"}}
            failed = make("v1", "Node", "node-1", "", metadata=notes)
            await cluster.client.apply(DynamicObject(failed), field_manager="test", force=True)
            await cluster.clock.sleep(120.0)
            told = [each for each in board.assessment.problems if each.situation == "node-silent"]
            assert [each.text for each in told] == ["Node node-1: it has stopped reporting"]
            assert not board.sections["nodes"]["node-1"]["ready"]
        for problem in assessment.problems:
            assert problem.reason in lines
            assert problem.remedy in lines


REPORTED: list[tuple[str, Json]] = [
    ("pod-image", {"state": {"waiting": {"reason": "ImagePullBackOff"}}}),
    ("pod-configuration", {"state": {"waiting": {"reason": "CreateContainerConfigError"}}}),
    ("pod-out-of-memory", {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}),
    ("pod-restarting", {"restartCount": 5, "lastState": {"terminated": {"exitCode": 1}}}),
]
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


async def test_what_a_kubelet_reports_is_seen() -> None:
    async with TestCluster() as cluster:
        now = datetime.fromtimestamp(cluster.clock.time(), UTC)
        for situation, status in REPORTED:
            if last := status.get("lastState", {}).get("terminated"):
                last["finishedAt"] = (now - timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
            made = pod(situation, nodeName="gone")
            made["spec"]["serviceAccountName"] = "default"
            container = {
                "name": "main",
                "image": "a",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                **status,
            }
            await cluster.client.create(DynamicObject(made))
            made["status"] = {"phase": "Running", "containerStatuses": [container]}
            await cluster.client.status.patch(DynamicObject(made), MergePatch({"status": made["status"]}))
        conditions = [{"type": each, "status": "True"} for each in PRESSURES]
        node = make("v1", "Node", "pressed", "", status={"conditions": conditions})
        await cluster.client.create(DynamicObject(node))
        await cluster.client.create(
            DynamicObject(webhook("expiring", "Fail", {**_SERVICE, "caBundle": bundle(3)}))
        )
        found = await assess_cluster(cluster.client, now=now)
        seen = {each.situation for each in found.problems}
        wanted = {situation for situation, _ in REPORTED}
        wanted |= {
            "node-memory-pressure",
            "node-disk-pressure",
            "node-pid-pressure",
            "node-network-unavailable",
        }
        assert wanted | {"node-silent"} <= seen


async def test_a_server_that_is_gone_without_a_word_is_noticed_and_nothing_is_forgotten() -> None:
    async with TestCluster() as cluster:
        await cluster.client.create(DynamicObject(make("v1", "Node", "known", "")))
        link = cluster.link(name="board")
        async with followed(Board(link.client, title="far away")) as board:
            await cluster.clock.sleep(10.0)
            assert board.sections["health"]["health"]["unreachableSince"] == ""
            link.cut(silently=True)  # no connection breaks: the network swallows everything
            await cluster.clock.sleep(30.0)
            health = board.sections["health"]["health"]
            lost = datetime.fromisoformat(health["unreachableSince"])
            assert 20 <= cluster.clock.time() - lost.timestamp() <= 35
            assert board.assessment.problems[0].situation == "api-unreachable"
            assert "known" in board.sections["nodes"], "what is known is not zero"
            link.restore()
            await cluster.clock.sleep(120.0)
            assert board.sections["health"]["health"]["unreachableSince"] == ""


async def test_what_may_not_be_read_is_told_and_not_taken_for_nothing() -> None:
    async with TestCluster(controllers=True) as cluster:
        client = cluster.as_user("nobody")
        async with followed(Board(client)) as board:
            await cluster.clock.sleep(10.0)
            [problem] = [each for each in board.assessment.problems if each.situation == "may-not-read"]
            assert "pods" in {each.name for each in problem.subjects}
            assert board.assessment.summary != "nothing is wrong"
        assert (await assess_cluster(client)).is_bad
