"""Situations of what a TrainJob keeps in spite of others: reserved variables, overrides, keys."""

from __future__ import annotations

from typing import Any

from tests.integration.trainercases import (
    ALL,
    RANK,
    RUNNING,
    TORCH,
    WITH_JOBSET_ADMISSION,
    compared,
    counters,
    create,
    delete,
    event,
    expect,
    hold,
    jobset,
    literal,
    mpi_runtime,
    overrides,
    owned,
    patch,
    patch_status,
    pods,
    ref,
    remember,
    runtime,
    scenario,
    spec,
    ssh_secret,
    status,
    tamper,
    train_job,
    with_env,
)

Json = dict[str, Any]
AUDIT = {"reservedEnvAuditSeconds": 2}

RESERVED = [
    scenario(
        "drift-of-a-running-jobset-follows-its-own-shape",
        [runtime(policy=TORCH)],
        create(train_job(trainer={"numNodes": 2, "numProcPerNode": 3})),
        expect(jobset(with_env(literal("PET_NPROC_PER_NODE", "3"), parallelism=2))),
        RUNNING,
        spec(trainer={"numNodes": 7, "numProcPerNode": 5}),
        tamper("PET_NNODES", "9"),
        tamper("PET_NPROC_PER_NODE", "9"),
        tamper("PET_NODE_RANK"),
        expect(
            jobset(
                with_env(
                    literal("PET_NNODES", "2"),
                    literal("PET_NPROC_PER_NODE", "3"),
                    {"name": "PET_NODE_RANK", "valueFrom": RANK},
                    parallelism=2,
                )
            ),
            events=event("ReservedEnvDrift", "reserved envs restored: ["),
            within=20,
        ),
        hold(jobset(with_env(literal("PET_NPROC_PER_NODE", "3")))),
        settings=AUDIT,
    ),
    scenario(
        "an-audit-does-not-rest-on-events",
        [runtime(policy=TORCH)],
        create(train_job(trainer={"numNodes": 2})),
        expect(jobset(with_env(literal("PET_NNODES", "2")))),
        remember("uid", ref("JobSet"), "metadata.uid"),
        {"op": "pause", "component": "watch:JobSet"},
        tamper("PET_NNODES", "9"),
        expect(jobset(with_env(literal("PET_NNODES", "2"))), within=20),
        delete(ref("JobSet")),
        expect(jobset(), differs=compared("uid", ref("JobSet"), "metadata.uid"), within=20),
        settings=AUDIT,
    ),
    scenario(
        "drift-that-cannot-be-repaired-waits-while-something-is-active",
        [runtime(policy=TORCH)],
        create(train_job(trainer={"numNodes": 2})),
        expect(jobset(with_env(literal("PET_NNODES", "2")))),
        remember("uid", ref("JobSet"), "metadata.uid"),
        RUNNING,
        tamper("PET_NNODES", "9"),
        expect(events=event("ReservedEnvDrift", "(pending: JobSet is active)")),
        hold(
            jobset(with_env(literal("PET_NNODES", "9"))),
            same=compared("uid", ref("JobSet"), "metadata.uid"),
        ),
        patch_status(ref("JobSet"), replicatedJobsStatus=[counters()]),
        expect(
            jobset(with_env(literal("PET_NNODES", "2"))),
            differs=compared("uid", ref("JobSet"), "metadata.uid"),
            within=20,
        ),
        settings=AUDIT,
        **WITH_JOBSET_ADMISSION,
    ),
    scenario(
        "repair-by-force",
        [runtime(policy=TORCH)],
        create(train_job(trainer={"numNodes": 2})),
        expect(jobset(with_env(literal("PET_NNODES", "2")))),
        remember("uid", ref("JobSet"), "metadata.uid"),
        RUNNING,
        tamper("PET_NNODES", "9"),
        expect(
            jobset(with_env(literal("PET_NNODES", "2"))),
            differs=compared("uid", ref("JobSet"), "metadata.uid"),
            events=event("ReservedEnvDrift", "reserved envs restored: [PET_NNODES]"),
            within=20,
        ),
        settings={**AUDIT, "reservedEnvRepair": "Force"},
        **WITH_JOBSET_ADMISSION,
    ),
    scenario(
        "repair-switched-off",
        [runtime(policy=TORCH)],
        create(train_job(trainer={"numNodes": 2})),
        expect(jobset(with_env(literal("PET_NNODES", "2")))),
        tamper("PET_NNODES", "9"),
        expect(events=event("ReservedEnvDrift", "PET_NNODES")),
        hold(jobset(with_env(literal("PET_NNODES", "9")))),
        settings={**AUDIT, "reservedEnvRepair": "Off"},
    ),
    scenario(
        "tampering-at-the-moment-of-resume-loses",
        [runtime(policy=TORCH)],
        create(train_job(suspend=True, trainer={"numNodes": 2})),
        expect(jobset(suspend=True)),
        {"op": "pause", "component": "controller:trainer"},
        tamper("PET_NNODES", "9"),
        spec(suspend=False, trainer={"numNodes": 3}),
        {"op": "resume", "component": "controller:trainer"},
        expect(jobset(with_env(literal("PET_NNODES", "3"), parallelism=3), suspend=False)),
        settings=AUDIT,
    ),
    scenario(
        "a-change-of-size-while-suspended-is-no-drift",
        [runtime(policy=TORCH)],
        create(train_job(suspend=True, trainer={"numNodes": 2})),
        expect(jobset(with_env(literal("PET_NNODES", "2")))),
        spec(trainer={"numNodes": 3}),
        expect(jobset(with_env(literal("PET_NNODES", "3"), parallelism=3))),
        settings=AUDIT,
    ),
    scenario(
        "overrides-past-admission-do-not-win",
        [runtime(policy=TORCH)],
        create(
            train_job(
                trainer={"numNodes": 2},
                podTemplateOverrides=[
                    {
                        "targetJobs": [{"name": "node"}],
                        "spec": {
                            "containers": [
                                {"name": "node", "env": [literal("PET_NNODES", "9"), literal("MINE", "1")]}
                            ]
                        },
                    }
                ],
            ),
            bypassAdmission=True,
        ),
        expect(
            jobset(with_env(literal("PET_NNODES", "2"), literal("MINE", "1"))),
            events=event("ReservedEnvIgnored", "reserved envs ignored: [PET_NNODES]"),
        ),
        admission=[],
    ),
]

REFUSED = {"httpStatus": 403, "contains": ["PodTemplateOverrides can only be modified when"]}
STILL_ACTIVE = {
    "httpStatus": 403,
    "contains": [
        "PodTemplateOverrides cannot be modified when",
        "JobSet's ReplicatedJob node is still active",
    ],
}
OVERRIDES = [
    scenario(
        "a-stale-update-of-overrides-conflicts",
        [runtime()],
        create(train_job(suspend=True, podTemplateOverrides=overrides("a"))),
        expect(jobset(suspend=True)),
        {"op": "readForLaterUpdate", "as": "old", "ref": ref()},
        spec(suspend=False),
        {
            "op": "updateStale",
            "from": "old",
            "mergePatch": {"spec": {"podTemplateOverrides": overrides("b")}},
            "rejected": {"httpStatus": 409, "contains": ["the object has been modified"]},
        },
    ),
    scenario(
        "overrides-may-not-come-with-the-resume",
        [runtime()],
        create(train_job(suspend=True)),
        patch(ref(), {"spec": {"suspend": False, "podTemplateOverrides": overrides("b")}}, rejected=REFUSED),
    ),
    scenario(
        "overrides-wait-for-the-last-pod-of-a-suspended-job",
        [runtime()],
        create(train_job()),
        expect(pods=pods(count=1, phaseIn=["Running"])),
        {"op": "pause", "component": "controller:jobset"},
        patch(
            ref(), {"spec": {"suspend": True, "podTemplateOverrides": overrides("b")}}, rejected=STILL_ACTIVE
        ),
        {"op": "resume", "component": "controller:jobset"},
        spec(suspend=True),
        expect(pods=pods(count=0)),
        expect(jobset(suspend=True)),
        expect(status(jobsStatus=[counters(suspended=1)])),
        spec(podTemplateOverrides=overrides("b")),
        spec(suspend=False),
        expect(pods=pods(count=1, phaseIn=["Running"], each={"spec": {"nodeSelector": {"pool": "b"}}})),
        controllers=ALL,
        note="pods run 60 s",
        **WITH_JOBSET_ADMISSION,
    ),
]

KEY = ref("Secret", "test-job-mpi-ssh-auth")
FOREIGN_SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "test-job-mpi-ssh-auth", "namespace": "default"},
    "type": "Opaque",
}
KEYS = [
    scenario(
        "a-key-of-somebody-else-is-not-used",
        [mpi_runtime(), FOREIGN_SECRET],
        create(train_job()),
        expect(events=event("TrainJobResourcesCreationFailed", "test-job-mpi-ssh-auth already exists")),
        hold(absent=[ref("JobSet")]),
        delete(KEY),
        expect(ssh_secret(), jobset(), within=90),
    ),
    scenario(
        "a-key-of-a-suspended-job-is-replaced-silently",
        [mpi_runtime()],
        create(train_job(suspend=True)),
        expect(ssh_secret(), jobset(suspend=True)),
        remember("key", KEY, "data"),
        remember("digest", ref("JobSet"), "metadata.annotations"),
        delete(KEY),
        expect(
            ssh_secret(),
            differs=[
                *compared("key", KEY, "data"),
                *compared("digest", ref("JobSet"), "metadata.annotations"),
            ],
        ),
    ),
    scenario(
        "the-key-of-a-predecessor-is-waited-for",
        [mpi_runtime()],
        create(train_job()),
        expect(ssh_secret(), jobset()),
        remember("key", KEY, "data"),
        {"op": "pause", "component": "garbage-collector"},
        delete(ref()),
        create(train_job()),
        hold(same=compared("key", KEY, "data")),
        {"op": "resume", "component": "garbage-collector"},
        expect(ssh_secret(), jobset(), differs=compared("key", KEY, "data"), within=90),
    ),
    scenario(
        "the-hostfile-of-a-running-job-follows-what-runs",
        [mpi_runtime()],
        create(train_job(trainer={"numNodes": 2})),
        expect(jobset(suspend=False)),
        spec(trainer={"numNodes": 5}),
        delete(ref("ConfigMap", "test-job-mpi-hostfile")),
        expect(
            owned(
                "ConfigMap",
                "test-job-mpi-hostfile",
                "v1",
                data={"hostfile": "test-job-node-0-0.test-job slots=1\ntest-job-node-0-1.test-job slots=1\n"},
            )
        ),
    ),
]
