"""Situations of PodCliqueSets in the language of the case file.

What the given case file shows already is not repeated. They run on virtual time, with KAI's scheduler where
pods are bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.run import Run
from tests.integration.casekit import play
from tests.integration.grovecases import (
    GROUP,
    MARK,
    QUIET,
    SET,
    SETTLE,
    apply,
    clique,
    condition,
    delete,
    expect,
    life,
    of_clique,
    of_set,
    patch,
    pcs,
    scale,
    spy,
    workload,
)
from tests.integration.grovelife import DONE, GANGS, STARTUP, TERMINATION, UPDATES, X0B, X0C, X1C, A, Json

ONE = pcs(clique("a", 2, 2), name="one")
COUNTED = "grove_scheduler_backend_operation_total"
BACKENDS = [
    life(
        "hooks-are-tried-again",
        spy(sync_pod_gang={"raise": "no", "times": 2}),
        apply(ONE),
        SETTLE,
        expect(
            spyCalls={"sync_pod_gang": {"podGang": "one-0", "atLeast": 3}},
            event={
                "object": "PodGang/one-0",
                "type": "Warning",
                "reason": "BackendOperationFailed",
                "messageContains": "failed for PodGang 'one-0': no",
            },
            metric=[
                {
                    "name": COUNTED,
                    "labels": {"backend_name": "spy", "operation": operation, "status": "failure"},
                    "value": 1,
                }
                for operation in ("create", "update")
            ],
        ),
    ),
    life(
        "pods-that-cannot-be-prepared",
        spy(prepare_pod={"raise": "cannot"}),
        apply(ONE),
        SETTLE,
        expect(
            podCount={"selector": of_set("one"), "count": 0},
            lastErrors={
                "object": "PodClique/one-0-a",
                "code": "ERR_BUILD_POD_RESOURCE",
                "descriptionContains": "failed to prepare pod spec with scheduler backend",
            },
            podGangCondition={"name": "one-0", "type": "Initialized", "status": "False"},
        ),
    ),
    life(
        "an-error-that-passes-is-forgotten",
        spy(prepare_pod={"raise": "cannot", "times": 1}),
        apply(ONE),
        SETTLE,
        expect(
            podCount={"selector": of_set("one"), "count": 2},
            statusFieldAbsent={"PodClique/one-0-a": "lastErrors"},
        ),
    ),
    life(
        "a-status-is-no-change-but-a-pod-is",
        spy(),
        apply(ONE),
        SETTLE,
        {"mark": "spy"},
        {"patchStatus": {"kind": "PodGang", "name": "one-0", "patch": {"status": {"phase": "Running"}}}},
        SETTLE,
        expect(spyCallsSinceMark={"sync_pod_gang": {"exactly": 0}}),
        scale("PodClique", "one-0-a", 3),
        SETTLE,
        expect(spyCallsSinceMark={"sync_pod_gang": {"podGang": "one-0", "exactly": 1}}),
        delete(SET, "one"),
        SETTLE,
        expect(metric={"name": COUNTED, "labels": {"operation": "delete"}, "value": 1}),
    ),
    life(
        "a-new-backend-is-for-new-sets",
        QUIET,
        apply(pcs(clique("a"), name="old")),
        SETTLE,
        {
            "restartOperator": {
                "config": {"schedulerName": "kai-scheduler", "schedulerConfig": {"podGroups": "disabled"}}
            }
        },
        apply(pcs(clique("a"), name="new")),
        SETTLE,
        expect(
            podGangLabel={
                "old-0": {"grove.io/scheduler-name": "default-scheduler"},
                "new-0": {"grove.io/scheduler-name": "kai-scheduler"},
            },
            event={"reason": "BackendSwitched"},
        ),
        {"deletePods": {"selector": of_set("old")}},
        SETTLE,
        expect(
            podSchedulerNames={of_set("old"): ["default-scheduler"], of_set("new"): ["kai-scheduler"]},
        ),
    ),
]

TOPOLOGY = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": "topo"},
    "spec": {"levels": [{"domain": "zone", "key": "z"}, {"domain": "rack", "key": "r"}]},
}
DEVICES = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}


def sharing() -> Json:
    made = workload((1, 1, 1), 1)
    template = made["spec"]["template"]
    template["resourceClaimTemplates"] = [{"name": "gpu", "templateSpec": {"spec": {"devices": DEVICES}}}]
    template["resourceSharing"] = [
        {"name": "gpu", "scope": "AllReplicas", "filter": {"childScalingGroupNames": ["sg-x"]}}
    ]
    only_b = {"childCliqueNames": ["pc-b"]}
    template["podCliqueScalingGroups"][0]["resourceSharing"] = [
        {"name": "gpu", "scope": "PerReplica", "filter": only_b}
    ]
    template["cliques"][0]["resourceSharing"] = [{"name": "gpu", "scope": "PerReplica"}]
    return made


CHILDREN = [
    life(
        "the-worst-pod-goes-first",
        QUIET,
        apply(pcs(clique("a", 3, 1), name="t")),
        SETTLE,
        {"setPods": {"t-0-a": ["ready", "pending", "ready"]}},
        SETTLE,
        scale("PodClique", "t-0-a", 2),
        SETTLE,
        expect(hostnames={"selector": of_clique("t-0-a"), "set": ["t-0-a-0", "t-0-a-2"]}),
    ),
    life(
        "scaled-in-and-down-to-nothing",
        QUIET,
        apply(workload((1, 1, 1), 1, 4, replicas=2)),
        SETTLE,
        scale(GROUP, "w-0-sg-x", 2),
        scale(SET, "w", 1),
        SETTLE,
        expect(
            names={"PodGang": ["w-0", "w-0-sg-x-0"], GROUP: ["w-0-sg-x"], "Service": ["w-0"]},
            podCount={"selector": of_set("w"), "count": 10},
        ),
        scale(SET, "w", 0),
        SETTLE,
        expect(names={"PodGang": [], "PodClique": []}, podCount={"count": 0}),
    ),
    life(
        "a-group-may-go-below-its-minimum-and-its-gang-stays",
        QUIET,
        apply(workload()),
        SETTLE,
        scale(GROUP, "w-0-sg-x", 1),
        SETTLE,
        expect(podGang={"name": "w-0", "podReferenceCounts": {A: 2}}),
    ),
    life(
        "what-is-deleted-comes-back-and-what-is-gone-leaves-nothing",
        QUIET,
        apply(workload()),
        SETTLE,
        delete("PodClique", A),
        delete("PodClique", X1C),
        SETTLE,
        expect(
            present=[f"PodClique/{A}", f"PodClique/{X1C}"],
            podCount={"selector": of_clique(X1C), "count": 3},
            podGang={"name": "w-0", "podReferenceCounts": {A: 2}},
        ),
        delete(SET, "w"),
        SETTLE,
        expect(
            absent=[
                DONE,
                f"{GROUP}/w-0-sg-x",
                f"PodClique/{A}",
                "PodGang/w-0",
                "Service/w-0",
                "ServiceAccount/w",
                "Role/grove.io:pcs:w",
                "RoleBinding/grove.io:pcs:w",
                "Secret/w-ic-sat",
            ],
            podCount={"count": 0},
        ),
    ),
    life(
        "labels-are-mirrored-and-taken-back",
        QUIET,
        apply(pcs(clique("a"), name="one", labels={"team": "x"})),
        SETTLE,
        patch({"metadata": {"labels": {"team": None, "b": "c"}}}, name="one"),
        SETTLE,
        expect(podGangs={"one-0": {"labelsContain": {"b": "c"}, "labelsAbsent": ["team"]}}),
    ),
    life(
        "a-level-that-goes",
        {
            "config": {**QUIET["config"], "topologyAwareScheduling": {"enabled": True}},
            "objects": [TOPOLOGY],
        },
        apply(
            pcs(
                clique("a"),
                name="s",
                topologyConstraint={
                    "topologyName": "topo",
                    "pack": {"required": "rack", "preferred": "zone"},
                },
            )
        ),
        SETTLE,
        patch({"spec": {"levels": TOPOLOGY["spec"]["levels"][:1]}}, "ClusterTopologyBinding", "topo"),  # type: ignore[index]
        SETTLE,
        expect(
            conditions=[
                condition(
                    "PodCliqueSet/s",
                    "TopologyLevelsUnavailable",
                    "True",
                    "ClusterTopologyLevelsUnavailable",
                    "Unavailable topology domains: [rack]",
                )
            ],
            podGangs={"s-0": {"topologyConstraint": {"packConstraint": {"preferred": "z"}}}},
        ),
    ),
    life(
        "claims-follow-their-owners",
        QUIET,
        apply(sharing()),
        SETTLE,
        expect(
            names={
                "ResourceClaim": [
                    "w-all-gpu",
                    "w-0-sg-x-0-gpu",
                    "w-0-sg-x-1-gpu",
                    f"{A}-0-gpu",
                    f"{A}-1-gpu",
                ]
            }
        ),
        scale(GROUP, "w-0-sg-x", 3),
        scale("PodClique", A, 1),
        SETTLE,
        expect(
            names={"ResourceClaim": ["w-all-gpu", *(f"w-0-sg-x-{n}-gpu" for n in range(3)), f"{A}-0-gpu"]},
            objects=[
                {
                    "kind": "ResourceClaim",
                    "name": "w-all-gpu",
                    "controllerOwner": DONE,
                    "specContains": {"devices": {"requests": [{"name": "gpu"}]}},
                }
            ],
        ),
    ),
    life(
        "a-secret-of-somebody-else",
        {
            **QUIET,
            "objects": [
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "one-ic-sat", "namespace": "default"},
                }
            ],
        },
        apply(ONE),
        SETTLE,
        expect(
            podCount={"count": 0},
            lastErrors={"object": "PodCliqueSet/one", "code": "ERR_SECRET_CONFLICT"},
        ),
    ),
]

READY = ["ready", "ready", "ready"]
STATUS = [
    life(
        "pods-that-start-are-no-breach",
        QUIET,
        apply(pcs(clique("a", 2, 2), name="s")),
        SETTLE,
        {"setPods": {"s-0-a": ["ready", "starting"]}},
        SETTLE,
        expect(
            conditions=[
                condition(
                    "PodClique/s-0-a",
                    "MinAvailableBreached",
                    "False",
                    message="Either sufficient ready or starting pods found. expected at least: 2, found: 2",
                )
            ],
            statusFields={"PodCliqueSet/s": {"availableReplicas": 0}},
        ),
    ),
    life(
        "a-group-counts-its-replicas",
        QUIET,
        apply(workload((1, 1, 1), 1)),
        SETTLE,
        {"setPods": {A: READY[:2], X0B: READY[:1], X0C: READY}},
        SETTLE,
        expect(
            statusFields={
                f"{GROUP}/w-0-sg-x": {
                    "replicas": 2,
                    "availableReplicas": 1,
                    "scheduledReplicas": 1,
                    "updatedReplicas": 1,
                },
                DONE: {"availableReplicas": 1},
            },
            conditions=[
                condition(
                    f"{GROUP}/w-0-sg-x",
                    "MinAvailableBreached",
                    "False",
                    "SufficientAvailablePodCliqueScalingGroupReplicas",
                    "PCSG replicas not in breach (1) meets MinAvailable (1)",
                )
            ],
        ),
    ),
    life(
        "a-group-that-loses-all-it-had",
        QUIET,
        apply(
            pcs(
                clique("c"),
                name="s",
                groups=[{"name": "g", "cliqueNames": ["c"], "replicas": 1, "minAvailable": 1}],
            )
        ),
        SETTLE,
        {"setPods": {"s-0-g-0-c": ["ready"]}},
        SETTLE,
        {"setPods": {"s-0-g-0-c": ["pending"]}},
        SETTLE,
        expect(
            event={
                "object": f"{GROUP}/s-0-g",
                "reason": "AllScheduledReplicasLost",
                "messageContains": "(was 1)",
            }
        ),
    ),
]

WRONG: list[Json] = [
    life("an-unknown-step", QUIET, {"riddle": True}),
    life("an-unknown-check", QUIET, expect(riddle=1)),
    life("an-unknown-surrounding", {**QUIET, "riddle": 1}, SETTLE),
    life("an-unknown-scheduler", {**QUIET, "scheduler": "riddle"}, SETTLE),
    life("an-unknown-state", QUIET, apply(ONE), SETTLE, {"setPods": {"one-0-a": ["riddle", "ready"]}}),
    life("a-check-that-does-not-hold", QUIET, apply(ONE), SETTLE, expect(podCount={"count": 3})),
    life("no-change-where-one-is-expected", QUIET, MARK, expect(podUIDsSinceMark="allReplaced")),
    life("no-order-where-nothing-ran", QUIET, apply(ONE), SETTLE, expect(readyOrder=[[["one-0-a"], ["x"]]])),
    {"id": "an-unknown-kind", "kind": "riddle", "given": {}, "when": {}, "then": {}},
    {
        "id": "an-unknown-outcome",
        "kind": "config_validate",
        "given": {},
        "when": {"config": {"schedulerName": "kai-scheduler"}},
        "then": {"valid": True, "riddle": 1},
    },
    {
        "id": "an-unknown-word-about-children",
        "kind": "children",
        "given": QUIET,
        "when": {"apply": ONE},
        "then": {"riddle": 1},
    },
]

SECTIONS = {
    "gangs": GANGS,
    "startup": STARTUP,
    "termination": TERMINATION,
    "updates": UPDATES,
    "backends": BACKENDS,
    "children": CHILDREN,
    "status": STATUS,
}


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """One server for all of them."""
    with Run() as made:
        yield made


@pytest.mark.parametrize("section", SECTIONS)
def test_situations(section: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = play("grove", SECTIONS[section], run, tmp_path)
    assert (report.passed, report.failed) == (len(SECTIONS[section]), 0), capsys.readouterr().out


def test_what_is_not_understood_or_does_not_hold_fails(run: Run, tmp_path: Path) -> None:
    report = play("grove", WRONG, run, tmp_path)
    assert (report.passed, report.failed) == (0, len(WRONG))
