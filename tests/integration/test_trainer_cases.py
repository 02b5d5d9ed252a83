"""Situations of TrainJobs in the language of the case file, every word of it included.

Each invariant has its section; what the given case file shows already is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.run import Run
from tests.integration.casekit import play
from tests.integration.trainercases import (
    ALL,
    JOBSET,
    MPI,
    RUNNING,
    TRAINER,
    WITH_JOBSET_ADMISSION,
    compared,
    condition,
    counters,
    create,
    delete,
    event,
    expect,
    foreign_jobset,
    hold,
    job,
    jobset,
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
    train_job,
)
from tests.integration.trainerguard import KEY, KEYS, OVERRIDES, RESERVED

Json = dict[str, Any]
COMPLETED = {**condition("Completed", "True", "AllJobsCompleted"), "message": "jobset completed successfully"}


STATUS = [
    scenario(
        "deadline-ends-a-job-and-removes-its-jobset",
        [runtime()],
        create(train_job(activeDeadlineSeconds=3)),
        expect(jobset()),
        expect(
            status(conditions=[condition("Failed", "True", "DeadlineExceeded")]),
            absent=[ref("JobSet")],
            within=10,
        ),
        hold(absent=[ref("JobSet")]),
    ),
    scenario(
        "managed-elsewhere-is-left-alone",
        [runtime()],
        create(train_job(managedBy="kueue.x-k8s.io/multikueue", suspend=True)),
        hold(absent=[ref("JobSet")]),
        hold({**train_job(managedBy="kueue.x-k8s.io/multikueue"), "$absentPaths": ["status"]}),
    ),
    scenario(
        "what-no-schema-allows-is-refused-by-the-schema-and-by-no-webhook",
        [runtime()],
        create(train_job(trainer={"numNodes": "two"}), rejected={"httpStatus": 422}),
        create(train_job(trainer={"numProcPerNode": True}), rejected={"httpStatus": 422}),
    ),
    scenario(
        "edits-of-a-suspended-job-are-rendered-at-once",
        [runtime()],
        create(train_job(suspend=True)),
        expect(jobset(suspend=True)),
        spec(labels={"team": "a"}, trainer={"numNodes": 4}),
        expect(
            {
                **jobset({"name": "node", "template": {"spec": {"parallelism": 4, "completions": 4}}}),
                "$managedBy": {"manager": "trainer", "operation": "Apply"},
            }
        ),
        spec(suspend=False),
        expect(jobset(suspend=False)),
        spec(trainer={"numNodes": 9}),
        hold(jobset({"name": "node", "template": {"spec": {"parallelism": 4}}}, suspend=False)),
        spec(suspend=True),
        expect(jobset({"name": "node", "template": {"spec": {"parallelism": 9}}}, suspend=True)),
    ),
    scenario(
        "a-suspension-comes-about-although-an-edit-is-refused",
        [runtime()],
        create(train_job(trainer={"image": "example/a:1"})),
        expect(jobset(suspend=False)),
        RUNNING,
        spec(trainer={"image": "example/b:1"}),
        spec(suspend=True),
        expect(jobset(suspend=True), events=event("TrainJobResourcesCreationFailed", "immutable")),
        patch_status(ref("JobSet"), replicatedJobsStatus=[counters(suspended=1)]),
        expect(
            jobset(
                {
                    "name": "node",
                    "template": {
                        "spec": {
                            "template": {"spec": {"containers": [{"name": "node", "image": "example/b:1"}]}}
                        }
                    },
                },
                suspend=True,
            ),
            within=90,
        ),
        **WITH_JOBSET_ADMISSION,
    ),
    scenario(
        "many-jobs-of-one-runtime",
        [runtime()],
        {"op": "createMany", "count": 5, "parallel": 2, "object": train_job("job-${i}")},
        expect(count={"apiVersion": JOBSET, "kind": "JobSet", "namespace": "default", "equals": 5}),
    ),
]

IN_USE = "trainer.kubeflow.org/resource-in-use"
PROTECTED = {
    "apiVersion": TRAINER,
    "kind": "TrainingRuntime",
    "metadata": {"name": "test-runtime", "namespace": "default", "finalizers": [IN_USE]},
}
RUNTIMES = [
    scenario(
        "a-runtime-in-use-stays-and-keeps-its-finalizer",
        [runtime()],
        create(train_job()),
        expect(PROTECTED),
        delete(ref("TrainingRuntime", "test-runtime")),
        hold(PROTECTED),
        create(train_job("other"), rejected={"httpStatus": 403, "contains": ["is being deleted"]}),
        delete(ref()),
        expect(absent=[ref("TrainingRuntime", "test-runtime")]),
    ),
    scenario(
        "the-finalizer-outlives-the-last-job",
        [runtime()],
        create(train_job()),
        expect(PROTECTED),
        delete(ref()),
        expect(absent=[ref(), ref("JobSet")]),
        hold(PROTECTED),
    ),
    scenario(
        "a-runtime-taken-away-by-force",
        [runtime()],
        create(train_job(suspend=True)),
        expect(jobset(suspend=True)),
        remember("uid", ref("JobSet"), "metadata.uid"),
        {"op": "forceDelete", "ref": ref("TrainingRuntime", "test-runtime")},
        patch(
            ref(),
            {"spec": {"suspend": False}},
            rejected={"httpStatus": 403, "contains": ["must be created before the TrainJob is created"]},
        ),
        patch(ref(), {"spec": {"suspend": False}}, bypassAdmission=True),
        expect(events=event("TrainJobResourcesCreationFailed", "TrainingRuntime specified in TrainJob")),
        patch_status(ref("JobSet"), replicatedJobsStatus=[counters(succeeded=1)]),
        expect(status(jobsStatus=[counters(succeeded=1)])),
        create(runtime()),
        expect(jobset(suspend=False), same=compared("uid", ref("JobSet"), "metadata.uid"), within=90),
    ),
]

ONE_JOBSET = [
    scenario(
        "a-foreign-jobset-is-neither-changed-nor-mirrored",
        [runtime(), foreign_jobset()],
        remember("version", ref("JobSet"), "metadata.resourceVersion"),
        create(train_job(trainer={"numNodes": 2})),
        expect(
            events=event(
                "TrainJobResourcesCreationFailed", "already exists and is not controlled by this TrainJob"
            )
        ),
        hold(
            {**foreign_jobset(), "$absentPaths": ["metadata.ownerReferences"]},
            same=compared("version", ref("JobSet"), "metadata.resourceVersion"),
        ),
        hold({**train_job(), "$noCondition": ["Failed", "Complete"]}),
    ),
    scenario(
        "a-foreign-jobset-that-no-watch-has-shown",
        [runtime()],
        {"op": "pause", "component": "watch:JobSet"},
        create(foreign_jobset()),
        create(train_job()),
        expect(events=event("TrainJobResourcesCreationFailed", "not controlled by this TrainJob")),
        hold({**foreign_jobset(), "$absentPaths": ["metadata.ownerReferences"]}),
        {"op": "resume", "component": "watch:JobSet"},
        delete(ref("JobSet")),
        expect(jobset(), within=90),
    ),
    scenario(
        "a-completed-predecessor-is-not-taken-over",
        [runtime()],
        create(train_job()),
        expect(jobset()),
        remember("uid", ref("JobSet"), "metadata.uid"),
        {"op": "pause", "component": "garbage-collector"},
        patch_status(ref("JobSet"), conditions=[{**COMPLETED, "lastTransitionTime": "2025-11-01T00:00:00Z"}]),
        expect(status(conditions=[condition("Complete", "True", "AllJobsCompleted")])),
        delete(ref()),
        create(train_job()),
        hold({**train_job(), "$noCondition": "Complete"}),
        {"op": "resume", "component": "garbage-collector"},
        expect(jobset(), differs=compared("uid", ref("JobSet"), "metadata.uid"), within=90),
        hold({**train_job(), "$noCondition": "Complete"}),
    ),
    scenario(
        "a-stripped-owner-is-put-back",
        [runtime()],
        create(train_job()),
        expect(jobset(suspend=False)),
        remember("uid", ref("JobSet"), "metadata.uid"),
        patch(ref("JobSet"), {"metadata": {"ownerReferences": None}}, fieldManager="someone-else"),
        expect(jobset(suspend=False), same=compared("uid", ref("JobSet"), "metadata.uid")),
    ),
    scenario(
        "killed-between-the-secret-and-the-jobset",
        [mpi_runtime()],
        {"op": "failRequests", "verb": "patch", "kind": "JobSet", "times": 3},
        {"op": "failRequests", "verb": "create", "kind": "JobSet", "times": 3, "httpStatus": 503},
        create(train_job()),
        expect(ssh_secret(), events=event("TrainJobResourcesCreationFailed")),
        remember("key", ref("Secret", "test-job-mpi-ssh-auth"), "data"),
        {"op": "restartController", "controller": "trainer"},
        expect(jobset(), same=compared("key", ref("Secret", "test-job-mpi-ssh-auth"), "data"), within=60),
    ),
    scenario(
        "background-deletion-leaves-nothing",
        [runtime(job("launcher"), job(ancestor="trainer"), policy=MPI, gang={"coscheduling": {}})],
        create(train_job()),
        expect(jobset(), owned("PodGroup", version="scheduling.x-k8s.io/v1alpha1")),
        delete(ref()),
        expect(
            absent=[
                ref(),
                ref("JobSet"),
                ref("Secret", "test-job-mpi-ssh-auth"),
                ref("ConfigMap", "test-job-mpi-hostfile"),
                ref("PodGroup", version="scheduling.x-k8s.io/v1alpha1"),
            ]
        ),
        hold(absent=[ref("JobSet"), ref("Secret", "test-job-mpi-ssh-auth")]),
    ),
    scenario(
        "a-second-jobset-of-a-job-is-ignored-and-goes-with-it",
        [runtime()],
        create(train_job()),
        expect(jobset()),
        create(owned("JobSet", "second", spec={"replicatedJobs": [job("x")]})),
        hold(owned("JobSet", "second"), jobset()),
        delete(ref(), "Foreground"),
        expect(absent=[ref(), ref("JobSet"), ref("JobSet", "second")]),
    ),
    scenario(
        "a-job-whose-runtime-is-gone-can-be-deleted-in-the-foreground",
        [runtime()],
        create(train_job()),
        expect(jobset()),
        {"op": "forceDelete", "ref": ref("TrainingRuntime", "test-runtime")},
        delete(ref(), "Foreground"),
        expect(absent=[ref(), ref("JobSet")]),
    ),
]

CLUSTER = [
    scenario(
        "a-run-to-the-end",
        [runtime(policy={"numNodes": 2})],
        create(train_job()),
        expect(
            status(
                conditions=[condition("Complete", "True", "AllJobsCompleted")],
                jobsStatus=[counters(succeeded=1)],
            ),
            within=60,
        ),
        controllers=ALL,
        **WITH_JOBSET_ADMISSION,
    ),
    scenario(
        "no-run-mixes-templates",
        [runtime(job(ancestor="trainer"), policy={"numNodes": 3})],
        create(train_job(suspend=True, podTemplateOverrides=overrides("a"))),
        expect(jobset(suspend=True)),
        {
            "op": "parallel",
            "repeat": 10,
            "ignoreRejections": True,
            "steps": [[spec(suspend=False), spec(suspend=True)], [spec(podTemplateOverrides=overrides("b"))]],
        },
        {"op": "expectAlways", "pods": pods(live=True, allEqualAt="spec.nodeSelector")},
        {
            "op": "expectAlways",
            "count": [
                {"kind": "JobSet", "namespace": "default", "atMost": 1, "ownedBy": ref()},
                {"JobSet": 1, "TrainJob": 1},
                {"ref": {"kind": "Job"}, "labels": {"jobset.sigs.k8s.io/jobset-name": "test-job"}, "max": 1},
            ],
        },
        controllers=ALL,
        **WITH_JOBSET_ADMISSION,
    ),
    scenario(
        "a-key-stays-the-same-while-everything-moves",
        [mpi_runtime()],
        create(train_job(suspend=True)),
        expect(ssh_secret(), jobset(suspend=True)),
        remember("key", KEY, "data"),
        {
            "op": "parallel",
            "repeat": 5,
            "steps": [
                [spec(suspend=False), spec(suspend=True)],
                [spec(trainer={"numNodes": 2}), spec(trainer={"numNodes": 3})],
            ],
        },
        {
            "op": "expectAlways",
            "objects": [ssh_secret()],
            "same": compared("key", KEY, "data"),
            "count": {"Secret": 1},
        },
    ),
]

UNKNOWN: list[Json] = [
    scenario("an-unknown-step", [], {"op": "riddle"}),
    scenario("an-unknown-word", [], {**create(train_job()), "riddle": 1}),
    scenario("an-unknown-expectation", [], {"op": "expect", "withinSeconds": 1, "riddle": 1}),
    scenario("an-unknown-marker", [runtime()], expect({**runtime(), "$riddle": 1}, within=1)),
    scenario("an-unknown-setting", [], settings={"riddle": 1}),
    scenario("an-unknown-controller", [], controllers=["riddle"]),
    scenario("an-unknown-environment", [], riddle=1),
    scenario("an-unknown-simulator", [], controllers=ALL, simulator={"riddle": 1}),
    scenario(
        "an-invariant-that-does-not-hold",
        [runtime()],
        {"op": "parallel", "steps": [[create(train_job())]]},
        {"op": "expectAlways", "count": {"TrainJob": 0}},
    ),
    scenario("an-invariant-without-events", [], {"op": "expectAlways", "count": {"TrainJob": 0}}),
    scenario("a-step-that-does-not-hold", [runtime()], hold(train_job(), seconds=1)),
]


SECTIONS = {
    "status": STATUS,
    "runtimes": RUNTIMES,
    "one-jobset": ONE_JOBSET,
    "reserved-env": RESERVED,
    "overrides": OVERRIDES,
    "keys": KEYS,
    "cluster": CLUSTER,
}


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """One server for all of them."""
    with Run() as made:
        yield made


@pytest.mark.parametrize("section", SECTIONS)
def test_situations(section: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = play("trainer", SECTIONS[section], run, tmp_path)
    assert (report.passed, report.failed) == (len(SECTIONS[section]), 0), capsys.readouterr().out


def test_what_is_not_understood_fails(run: Run, tmp_path: Path) -> None:
    report = play("trainer", UNKNOWN, run, tmp_path)
    assert (report.passed, report.failed) == (0, len(UNKNOWN))
