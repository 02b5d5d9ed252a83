"""JobSets: Jobs that start, fail and finish together, on simulated nodes and virtual time."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from quarterdeck.api import to_dict, value_or
from quarterdeck.api.k8s import Job, PersistentVolumeClaim, Pod, Service
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.behavior import Behavior
from quarterdeck.cluster.node.kubelet import Kubelet
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.operators.jobset.controllers import jobset_controller, placement_controller
from quarterdeck.operators.jobset.logic.defaults import with_defaults
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster, eventually
from tests.unit.cluster.clusterkit import exists, gone
from tests.unit.cluster.workloadkit import NAMESPACE, behaving, pod_spec, pods_of, verdicts

pytestmark = pytest.mark.cluster(crds=[JobSet])

PREFIX = "jobset.sigs.k8s.io/"


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture(autouse=True)
async def cluster_at_work(cluster: TestCluster, manager: Manager, kubelet: Kubelet) -> None:
    workloads = Workloads(nodes=NodeSettings(count=1), kubelet=kubelet)
    add_controllers(manager, root_ca=b"", workloads=workloads)
    manager.add(jobset_controller())
    manager.add(placement_controller())
    await cluster.start(manager)


def part(name: str, *, pod: dict[str, Any] | None = None, annotations: Any = None, **fields: Any) -> Any:
    """A ReplicatedJob."""
    spec = fields.pop("job", {})
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod_spec(**(pod or {}))}
    labels = {"metadata": {"labels": {"own": "yes"}}}
    return {"name": name, "template": {**labels, "spec": {**spec, "template": template}}, **fields}


def jobset(*parts: Any, name: str = "js", **spec: Any) -> JobSet:
    """A JobSet as admission would store it."""
    return with_defaults(
        JobSet.from_dict(
            {
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"replicatedJobs": list(parts), **spec},
            }
        )
    )


async def read(client: Client) -> JobSet:
    return await client.get(JobSet, "js", NAMESPACE)


async def finished(client: Client, *, timeout: float = 600.0) -> JobSet:
    async def is_finished() -> JobSet | None:
        found = await read(client)
        return found if found.status.terminal_state else None

    found = await eventually(is_finished, timeout=timeout, interval=0.1)
    assert found is not None
    return found


async def jobs(client: Client) -> dict[str, Job]:
    return {each.metadata.name: each for each in (await client.list(Job, namespace=NAMESPACE)).items}


def counts(found: JobSet, name: str) -> dict[str, int]:
    status = next(each for each in found.status.replicated_jobs_status if each.name == name)
    document = to_dict(status)
    return {key: value for key, value in document.items() if key != "name" and value}


async def test_a_jobset_makes_jobs_that_know_their_place(client: Client) -> None:
    parallel = {"parallelism": 2, "completions": 2}
    made = await client.create(
        jobset(
            part("leader", annotations=behaving(run_seconds=60)),
            part("worker", replicas=2, job=parallel, annotations=behaving(run_seconds=60)),
            coordinator={"replicatedJob": "worker", "jobIndex": 1, "podIndex": 0},
        )
    )
    await asyncio.sleep(2)
    found = await jobs(client)
    assert sorted(found) == ["js-leader-0", "js-worker-0", "js-worker-1"]
    second = found["js-worker-1"]
    marks = {
        "jobset-name": "js",
        "jobset-uid": made.metadata.uid,
        "replicatedjob-name": "worker",
        "restart-attempt": "0",
        "replicatedjob-replicas": "2",
        "global-replicas": "3",
        "job-index": "1",
        "job-key": hashlib.sha1(b"default/js-worker-1").hexdigest(),
        "job-global-index": "2",
        "group-name": "default",
        "group-replicas": "3",
        "job-group-index": "2",
        "coordinator": "js-worker-1-0.js",
    }
    for holder in (second.metadata, second.spec.template.metadata):
        for given in (holder.labels, holder.annotations):
            assert {key: given[PREFIX + key] for key in marks} == marks
    assert second.metadata.labels["own"] == "yes"
    assert "own" not in second.spec.template.metadata.labels
    assert second.spec.template.spec.subdomain == "js"
    assert second.metadata.owner_references[0].uid == made.metadata.uid
    service = await client.get(Service, "js", NAMESPACE)
    assert service.spec.cluster_ip == "None"
    assert service.spec.publish_not_ready_addresses is True
    assert service.spec.selector == {PREFIX + "jobset-name": "js"}
    status = await read(client)
    assert counts(status, "worker") == {"ready": 2, "active": 2}
    assert counts(status, "leader") == {"ready": 1, "active": 1}
    [pod] = [each for each in await pods_of(client, "js-worker-1") if each.spec.hostname == "js-worker-1-0"]
    assert pod.spec.subdomain == "js"


async def test_a_jobset_completes_when_all_its_jobs_have(client: Client, recorder: EventLog) -> None:
    await client.create(jobset(part("a"), part("b", replicas=2)))
    done = await finished(client)
    assert done.status.terminal_state == "Completed"
    assert verdicts(done) == [("Completed", "True", "AllJobsCompleted")]
    assert done.status.conditions[0].message == "jobset completed successfully"
    assert counts(done, "b") == {"succeeded": 2}
    told = [each.reason for each in recorder.events if each.regarding.kind == "JobSet"]
    assert told == ["AllJobsCompleted"]


async def test_success_of_the_targets_ends_the_others(client: Client) -> None:
    await client.create(
        jobset(
            part("launcher"),
            part("node", annotations=behaving(run_seconds="forever")),
            successPolicy={"operator": "All", "targetReplicatedJobs": ["launcher"]},
        )
    )
    assert (await finished(client)).status.terminal_state == "Completed"
    await gone(client, Job, "js-node-0", NAMESPACE)
    assert await pods_of(client, "js-node-0") == []


async def test_any_success_may_be_enough(client: Client) -> None:
    slow = behaving(run_seconds="forever")
    await client.create(
        jobset(part("quick"), part("slow", annotations=slow), successPolicy={"operator": "Any"})
    )
    assert (await finished(client)).status.terminal_state == "Completed"


async def test_jobs_wait_for_what_they_depend_on(client: Client) -> None:
    await client.create(
        jobset(
            part("data", annotations=behaving(run_seconds=10)),
            part("server", annotations=behaving(run_seconds="forever", ready_seconds=20)),
            part(
                "train",
                dependsOn=[{"name": "data", "status": "Complete"}, {"name": "server", "status": "Ready"}],
            ),
            successPolicy={"operator": "All", "targetReplicatedJobs": ["train"]},
        )
    )
    await asyncio.sleep(15)
    assert sorted(await jobs(client)) == ["js-data-0", "js-server-0"]
    await asyncio.sleep(7)
    assert "js-train-0" in await jobs(client)
    assert (await finished(client)).status.terminal_state == "Completed"


async def test_jobs_start_in_order_when_asked_to(client: Client) -> None:
    await client.create(
        jobset(
            part("first", annotations=behaving(run_seconds=60, ready_seconds=10)),
            part("second", annotations=behaving(run_seconds=60)),
            startupPolicy={"startupPolicyOrder": "InOrder"},
        )
    )
    await asyncio.sleep(5)
    assert sorted(await jobs(client)) == ["js-first-0"]
    in_progress = ("StartupPolicyInProgress", "True", "InOrderStartupPolicyInProgress")
    assert verdicts(await read(client)) == [in_progress]
    await asyncio.sleep(10)
    assert sorted(await jobs(client)) == ["js-first-0", "js-second-0"]
    assert verdicts(await read(client)) == [
        ("StartupPolicyInProgress", "False", "InOrderStartupPolicyInProgress"),
        ("StartupPolicyCompleted", "True", "InOrderStartupPolicyCompleted"),
    ]


async def test_a_jobset_managed_elsewhere_is_left_alone(client: Client) -> None:
    await client.create(jobset(part("a"), managedBy="example.com/other"))
    await asyncio.sleep(3)
    assert await jobs(client) == {}
    assert not await exists(client, Service, "js", NAMESPACE)


async def test_shared_claims_are_made_and_mounted(client: Client) -> None:
    mount = {"name": "cache", "mountPath": "/cache"}
    container = {"name": "c", "image": "x", "volumeMounts": [mount]}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    keep = {"templates": [{"metadata": {"name": "cache"}, "spec": claim}]}
    await client.create(jobset(part("a", pod={"containers": [container]}), volumeClaimPolicies=[keep]))
    await asyncio.sleep(1)
    made = await client.get(PersistentVolumeClaim, "cache-js", NAMESPACE)
    assert made.metadata.owner_references[0].name == "js"
    volume = (await jobs(client))["js-a-0"].spec.template.spec.volumes[0]
    assert volume.persistent_volume_claim
    assert volume.persistent_volume_claim.claim_name == "cache-js"


async def test_without_a_policy_a_failed_job_fails_the_set(client: Client, recorder: EventLog) -> None:
    await client.create(
        jobset(
            part("bad", job={"backoffLimit": 0}, annotations=behaving(exit_code=1)),
            part("good", annotations=behaving(run_seconds="forever")),
        )
    )
    done = await finished(client)
    text = "jobset failed due to one or more job failures (first failed job: js-bad-0)"
    assert verdicts(done) == [("Failed", "True", "FailedJobs")]
    assert done.status.conditions[0].message == text
    assert done.status.terminal_state == "Failed"
    await gone(client, Job, "js-good-0", NAMESPACE)
    assert ("Warning", "FailedJobs", text) in [(e.type, e.reason, e.note) for e in recorder.events]


async def test_a_set_is_restarted_until_it_succeeds(client: Client, kubelet: Kubelet) -> None:
    kubelet.behave(Behavior(fail_first_attempts=1))
    limit = {"backoffLimit": 0}
    await client.create(
        jobset(part("a", job=limit), part("b", job=limit, replicas=2), failurePolicy={"maxRestarts": 3})
    )
    done = await finished(client)
    assert done.status.terminal_state == "Completed"
    assert (done.status.restarts, done.status.restarts_count_towards_max) == (1, 1)
    assert {each.metadata.labels[PREFIX + "restart-attempt"] for each in (await jobs(client)).values()} == {
        "1"
    }


async def test_a_set_fails_after_its_last_restart(client: Client) -> None:
    bad = part("a", job={"backoffLimit": 0}, annotations=behaving(exit_code=1))
    await client.create(jobset(bad, failurePolicy={"maxRestarts": 2}))
    done = await finished(client)
    assert verdicts(done) == [
        ("RestartingJobSet", "False", "JobSetFailed"),
        ("Failed", "True", "ReachedMaxRestarts"),
    ]
    assert done.status.restarts == 2
    assert done.status.restarts_count_towards_max == 2


async def test_the_first_rule_that_fits_decides(client: Client) -> None:
    bad = part("a", job={"backoffLimit": 0}, annotations=behaving(exit_code=1))
    rules = [
        {"action": "RestartJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
        {"action": "FailJobSet", "onJobFailureMessagePatterns": ["reached the .* backoff"]},
    ]
    await client.create(jobset(bad, failurePolicy={"maxRestarts": 5, "rules": rules}))
    done = await finished(client)
    assert verdicts(done) == [("Failed", "True", "FailJobSetFailurePolicyAction")]
    assert done.status.restarts == 0


async def test_some_failures_do_not_count(client: Client) -> None:
    bad = part("a", job={"backoffLimit": 0}, annotations=behaving(exit_code=1))
    rules = [{"action": "RestartJobSetAndIgnoreMaxRestarts"}]
    await client.create(jobset(bad, failurePolicy={"maxRestarts": 0, "rules": rules}))
    await asyncio.sleep(20)
    found = await read(client)
    assert found.status.terminal_state == ""
    assert found.status.restarts is not None
    assert value_or(found.status.restarts, 0) > 2
    assert not found.status.restarts_count_towards_max


async def test_a_single_job_can_be_restarted_alone(client: Client) -> None:
    """Index 0 fails every time; index 1 is not disturbed."""
    rules = [{"action": "RestartJob"}]
    await client.create(
        jobset(
            part("w", job={"backoffLimit": 0}, replicas=2, annotations=behaving(run_seconds=40)),
            failurePolicy={"maxRestarts": 1, "rules": rules},
        )
    )
    await asyncio.sleep(2)
    before = await jobs(client)
    for _ in range(2):
        [pod] = await pods_of(client, "js-w-0")
        await client.patch(
            pod, MergePatch({"metadata": {"annotations": behaving(exit_code=1, run_seconds=0)}})
        )
        await asyncio.sleep(10)
    done = await finished(client)
    assert verdicts(done) == [("Failed", "True", "ReachedMaxRestarts")]
    status = done.status.replicated_jobs_status[0]
    assert (status.job_restarts, status.job_restarts_count_towards_max) == ((1, 0), (1, 0))
    assert done.status.restarts == 0
    assert before["js-w-1"].metadata.uid == (await jobs(client)).get("js-w-1", before["js-w-1"]).metadata.uid


async def test_a_single_restart_that_is_not_limited_leaves_no_count(client: Client) -> None:
    rules = [{"action": "RestartJobAndIgnoreMaxRestarts"}]
    await client.create(
        jobset(
            part("w", job={"backoffLimit": 0}, annotations=behaving(run_seconds=40)),
            failurePolicy={"maxRestarts": 0, "rules": rules},
        )
    )
    await asyncio.sleep(2)
    [pod] = await pods_of(client, "js-w-0")
    await client.patch(pod, MergePatch({"metadata": {"annotations": behaving(exit_code=1, run_seconds=0)}}))
    await asyncio.sleep(10)
    [status] = (await read(client)).status.replicated_jobs_status
    assert (status.job_restarts, status.job_restarts_count_towards_max) == ((1,), ())


async def test_with_blocking_recreation_nothing_starts_before_all_is_gone(client: Client) -> None:
    slow_to_stop = behaving(run_seconds="forever", stop_seconds=20)
    await client.create(
        jobset(
            part("bad", job={"backoffLimit": 0}, annotations=behaving(exit_code=1)),
            part("slow", annotations=slow_to_stop),
            failurePolicy={"maxRestarts": 9, "restartStrategy": "BlockingRecreate"},
        )
    )
    await asyncio.sleep(10)
    attempts = {
        name: each.metadata.labels[PREFIX + "restart-attempt"] for name, each in (await jobs(client)).items()
    }
    assert attempts == {"js-slow-0": "0"}
    await asyncio.sleep(16)
    restarted = {each.metadata.labels[PREFIX + "restart-attempt"] for each in (await jobs(client)).values()}
    assert restarted == {"1"}


async def test_a_suspended_set_has_suspended_jobs_and_no_pods(client: Client, recorder: EventLog) -> None:
    await client.create(jobset(part("a"), suspend=True))
    await asyncio.sleep(3)
    found = await read(client)
    assert verdicts(found) == [("Suspended", "True", "SuspendedJobs")]
    assert counts(found, "a") == {"suspended": 1}
    assert (await jobs(client))["js-a-0"].spec.suspend is True
    assert (await client.list(Pod, namespace=NAMESPACE)).items == []
    await client.patch(found, MergePatch({"spec": {"suspend": False}}))
    done = await finished(client)
    assert verdicts(done) == [("Suspended", "False", "ResumeJobs"), ("Completed", "True", "AllJobsCompleted")]
    told = [(each.reason, each.note) for each in recorder.events if each.regarding.kind == "JobSet"]
    assert told[:2] == [("SuspendedJobs", "jobset is suspended"), ("ResumeJobs", "jobset is resumed")]


async def test_what_changed_while_suspended_is_in_the_pods_of_the_next_run(client: Client) -> None:
    first = part("a", annotations=behaving(run_seconds=60), pod={"nodeSelector": {"old": "yes"}})
    await client.create(jobset(first))
    await asyncio.sleep(2)
    await client.patch(await read(client), MergePatch({"spec": {"suspend": True}}))
    await asyncio.sleep(3)
    assert (await client.list(Pod, namespace=NAMESPACE)).items == []
    found = await read(client)
    draft = found.draft()
    template = draft.spec.replicated_jobs[0].template.spec.template
    template.spec.node_selector = {"new": "yes"}
    template.metadata.labels = {"stage": "2"}
    draft.spec.suspend = False
    await client.update(draft.done())
    await asyncio.sleep(2)
    [pod] = await pods_of(client, "js-a-0")
    assert dict(pod.spec.node_selector) == {"new": "yes"}
    assert pod.metadata.labels["stage"] == "2"
    assert pod.status.phase == "Running"


async def test_a_finished_set_goes_after_its_time(client: Client) -> None:
    await client.create(jobset(part("a"), ttlSecondsAfterFinished=20))
    await finished(client)
    await asyncio.sleep(15)
    assert await exists(client, JobSet, "js", NAMESPACE)
    await asyncio.sleep(10)
    assert not await exists(client, JobSet, "js", NAMESPACE)
    assert await jobs(client) == {}
    assert not await exists(client, Service, "js", NAMESPACE)


async def test_nothing_is_made_for_a_set_that_is_being_deleted(client: Client) -> None:
    await client.create(jobset(part("a", annotations=behaving(run_seconds="forever"))))
    await asyncio.sleep(2)
    await client.delete(await read(client), propagation="Foreground")
    await gone(client, JobSet, "js", NAMESPACE)
    await asyncio.sleep(5)
    assert await jobs(client) == {}
    assert (await client.list(Pod, namespace=NAMESPACE)).items == []
