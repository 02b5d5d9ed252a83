"""Situations in the life of a PodCliqueSet: gangs, startup, termination, updates."""

from __future__ import annotations

from typing import Any

from tests.integration.grovecases import (
    ALL,
    GROUP,
    MARK,
    NEW,
    OLD,
    QUIET,
    SET,
    SETTLE,
    TRACE,
    advance,
    apply,
    condition,
    expect,
    full,
    image,
    kai,
    life,
    lose,
    nodes,
    of_clique,
    partial,
    patch,
    scale,
    workload,
)

Json = dict[str, Any]
DONE = "PodCliqueSet/w"
X0B, X0C, X1B, X1C = (f"w-0-sg-x-{index}-pc-{letter}" for index in "01" for letter in "bc")
A = "w-0-pc-a"

GANGS = [
    life(
        "a-second-replica-waits-for-room-of-its-own",
        kai(20),
        nodes(10),
        apply(full()),
        SETTLE,
        expect(pods={"scheduled": 10}),
        scale(SET, "w", 2),
        SETTLE,
        expect(pods={"total": 20, "scheduled": 10}),
        nodes(20),
        SETTLE,
        expect(pods={"scheduled": 20}),
    ),
    life(
        "the-minimum-first-then-scaled-gangs-then-the-rest",
        kai(10),
        nodes(2),
        apply(partial()),
        SETTLE,
        expect(pods={"scheduled": 0}),
        nodes(3),
        SETTLE,
        expect(pods={"scheduled": 3}, scheduledByClique={A: 1, X0B: 1, X0C: 1}),
        nodes(5),
        SETTLE,
        expect(pods={"scheduled": 5}, scheduledByClique={X1B: 1, X1C: 1}),
        nodes(10),
        SETTLE,
        expect(pods={"scheduled": 10}),
    ),
    life(
        "scaled-gangs-stay-gated-until-their-base-is-scheduled",
        QUIET,
        apply(workload((1, 1, 1), 1)),
        SETTLE,
        expect(gatedPods={"selector": "grove.io/podgang=w-0-sg-x-0", "count": 4}),
        expect(gatedPods={"selector": "grove.io/podgang=w-0", "count": 0}),
        {"bindPods": {A: 1, X0B: 1}},
        SETTLE,
        expect(gatedPods={"selector": "grove.io/podgang=w-0-sg-x-0", "count": 4}),
        expect(podGangCondition={"name": "w-0-sg-x-0", "type": "Initialized", "status": "True"}),
        {"bindPods": {A: 1, X0B: 1, X0C: 1}},
        SETTLE,
        expect(gatedPods={"selector": "grove.io/podgang=w-0-sg-x-0", "count": 0}),
    ),
]

IN_TURN = [[[A], [X0B], [X0C]]]
STARTUP = [
    life(
        "in-order",
        kai(10),
        apply(partial(cliqueStartupType="CliqueStartupTypeInOrder")),
        SETTLE,
        expect(pods={"ready": 10}),
        expect(readyOrder=[*IN_TURN, [[X1B], [X1C]]]),
    ),
    life(
        "explicit",
        kai(10),
        apply(
            partial(cliqueStartupType="CliqueStartupTypeExplicit", after={"pc-b": ["pc-a"], "pc-c": ["pc-b"]})
        ),
        SETTLE,
        expect(pods={"ready": 10}, readyOrder=IN_TURN),
    ),
]

SHORT = {"terminationDelay": "10s"}
TERMINATION = [
    life(
        "below-the-minimum-for-too-long",
        kai(10),
        apply(full(**SHORT)),
        SETTLE,
        expect(pods={"ready": 10}),
        advance("10s"),
        MARK,
        lose(A),
        SETTLE,
        expect(
            conditions=[
                condition(
                    f"PodClique/{A}", "MinAvailableBreached", "True", "ScheduledReplicasBelowMinAvailable"
                )
            ]
        ),
        advance("15s"),
        SETTLE,
        expect(
            podUIDsSinceMark="allReplaced",
            event={
                "object": DONE,
                "reason": "PodCliqueSetReplicaDeleteSuccessful",
                "message": "PodCliqueSet replica 0 deleted",
            },
            conditions=[
                condition(f"{GROUP}/w-0-sg-x", "GangTerminationInProgress", "True", "GangTerminationActive")
            ],
        ),
        {"uncordonAll": True},
        SETTLE,
        expect(pods={"ready": 10}),
        expect(conditionsAbsent=[{"object": f"{GROUP}/w-0-sg-x", "type": "GangTerminationInProgress"}]),
    ),
    life(
        "enough-are-left-then-not-any-more",
        kai(10),
        apply(partial(**SHORT)),
        SETTLE,
        advance("10s"),
        MARK,
        lose(A),
        SETTLE,
        advance("15s"),
        SETTLE,
        expect(podUIDsSinceMark={"replacedOnly": [A]}),
        lose(A),
        SETTLE,
        advance("15s"),
        SETTLE,
        expect(podUIDsSinceMark="allReplaced"),
    ),
    life(
        "back-in-time",
        kai(10),
        apply(full(**SHORT)),
        SETTLE,
        advance("10s"),
        MARK,
        lose(A),
        SETTLE,
        advance("4s"),
        {"uncordonAll": True},
        SETTLE,
        advance("15s"),
        SETTLE,
        expect(podUIDsSinceMark={"replacedOnly": [A]}, pods={"ready": 10}),
    ),
    life(
        "never-scheduled-is-never-terminated",
        kai(10),
        nodes(9),
        apply(full(**SHORT)),
        SETTLE,
        MARK,
        advance("60s"),
        SETTLE,
        expect(podUIDsSinceMark="unchanged"),
    ),
]

CHANGED = expect(podUIDsSinceMark="allReplaced", updateEnded=DONE, pods={"ready": 10})
UPDATES = [
    life(
        "a-group-one-replica-at-a-time",
        kai(10),
        apply(full()),
        SETTLE,
        MARK,
        TRACE,
        image("pc-b"),
        SETTLE,
        expect(
            podUIDsSinceMark={"replacedOnly": [X0B, X0C, X1B, X1C]},
            trace={"maxConcurrentPCSGReplicasDown": 1},
            updateEnded=DONE,
            statusFields={DONE: {"updatedReplicas": 1}},
        ),
    ),
    life(
        "no-room-stops-it",
        kai(10),
        apply(full()),
        SETTLE,
        MARK,
        TRACE,
        nodes(0),
        image(*ALL),
        SETTLE,
        expect(statusFields={DONE: {"updatedReplicas": 0}}, pods={"total": 10}),
        nodes(10),
        SETTLE,
        CHANGED,
    ),
    life(
        "scaled-out-meanwhile",
        kai(30),
        apply(full(replicas=2)),
        SETTLE,
        MARK,
        TRACE,
        image(*ALL),
        scale(SET, "w", 3),
        SETTLE,
        expect(
            podUIDsSinceMark="allReplaced",
            updateEnded=DONE,
            pods={"ready": 30},
            imagesOf={"w-2-pc-a": NEW},
            trace={"podsOfPCLQRecreated": {"w-2-pc-a": 0}},
        ),
    ),
    life(
        "changed-again-meanwhile",
        kai(10),
        apply(full()),
        SETTLE,
        image("pc-a"),
        image("pc-a", image="busybox:1.37"),
        SETTLE,
        expect(imagesOf={A: "busybox:1.37"}, updateEnded=DONE),
    ),
    life(
        "a-priority-is-for-all",
        kai(10),
        apply(full()),
        SETTLE,
        MARK,
        patch({"spec": {"template": {"priorityClassName": "high"}}}),
        SETTLE,
        CHANGED,
    ),
    life(
        "a-restart-goes-on",
        kai(10),
        apply(full()),
        SETTLE,
        MARK,
        TRACE,
        image(*ALL),
        {"restartOperator": {}},
        SETTLE,
        CHANGED,
    ),
    life(
        "on-delete-when-somebody-deletes",
        kai(12),
        apply(workload((1, 1, 3), 2, queue="test", strategy="OnDelete")),
        SETTLE,
        MARK,
        image("pc-a"),
        SETTLE,
        expect(podUIDsSinceMark="unchanged"),
        {"deletePods": {"selector": of_clique(A), "count": 1}},
        SETTLE,
        expect(
            replacedPodCount=1,
            imageCounts={A: {NEW: 1, OLD: 1}},
            statusFields={f"PodClique/{A}": {"updatedReplicas": 1}},
        ),
        scale("PodClique", A, 3),
        SETTLE,
        expect(imageCounts={A: {NEW: 2, OLD: 1}}),
    ),
]
