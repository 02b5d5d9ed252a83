"""Jobs: pods made, counted and ended, on simulated nodes and virtual time."""

from __future__ import annotations

import asyncio

import pytest

from quarterdeck.api.k8s import Job, Pod
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster, eventually

from .clusterkit import gone
from .workloadkit import NAMESPACE, behaving, job, pods_of, read_job, shown, verdicts

SUCCEEDED = [
    ("SuccessCriteriaMet", "True", "CompletionsReached"),
    ("Complete", "True", "CompletionsReached"),
]


def failed(reason: str) -> list[tuple[str, str, str]]:
    return [("FailureTarget", "True", reason), ("Failed", "True", reason)]


@pytest.fixture(autouse=True)
async def cluster_at_work(cluster: TestCluster, manager: Manager) -> None:
    nodes = NodeSettings(count=1, capacity={"cpu": "32", "memory": "256Gi", "pods": "1000"})
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=nodes))
    await cluster.start(manager)


async def finished(client: Client, name: str = "job", *, timeout: float = 600.0) -> Job:
    async def is_finished() -> Job | None:
        found = await read_job(client, name)
        ends = {each.type for each in found.status.conditions}
        return found if ends & {"Complete", "Failed"} else None

    found = await eventually(is_finished, timeout=timeout, interval=0.1)
    assert found is not None
    return found


async def test_a_job_makes_a_pod_and_completes(client: Client, recorder: EventLog) -> None:
    await client.create(job())
    done = await finished(client)
    assert verdicts(done) == SUCCEEDED
    assert done.status.completion_time
    assert shown(done, "succeeded", "failed", "active", "ready", "terminating") == {
        "succeeded": 1,
        "failed": None,
        "active": None,
        "ready": 0,
        "terminating": 0,
    }
    assert shown(done, "uncountedTerminatedPods") == {"uncountedTerminatedPods": {}}
    [pod] = await pods_of(client)
    assert pod.status.phase == "Succeeded"
    assert pod.metadata.finalizers == ()
    told = [(each.type, each.reason, each.note) for each in recorder.events if each.regarding.kind == "Job"]
    assert told == [
        ("Normal", "SuccessfulCreate", f"Created pod: {pod.metadata.name}"),
        ("Normal", "Completed", "Job completed"),
    ]


async def test_a_running_job_shows_active_and_ready_pods(client: Client) -> None:
    await client.create(job(completions=3, parallelism=2, annotations=behaving(run_seconds=60)))
    await asyncio.sleep(1)
    assert shown(await read_job(client), "active", "ready", "succeeded", "terminating") == {
        "active": 2,
        "ready": 2,
        "succeeded": None,
        "terminating": 0,
    }
    pods = await pods_of(client)
    assert len(pods) == 2
    assert all(pod.metadata.finalizers == ("batch.kubernetes.io/job-tracking",) for pod in pods)
    owner = pods[0].metadata.owner_references[0]
    assert (owner.kind, owner.name, owner.controller, owner.block_owner_deletion) == (
        "Job",
        "job",
        True,
        True,
    )


async def test_no_more_pods_run_at_once_than_allowed(client: Client) -> None:
    await client.create(job(completions=5, parallelism=2))
    most = 0
    for _ in range(60):
        await asyncio.sleep(0.1)
        running = [pod for pod in await pods_of(client) if pod.status.phase in ("Pending", "Running")]
        most = max(most, len(running))
    assert most == 2
    assert (await finished(client)).status.succeeded == 5


async def test_an_indexed_job_gives_each_pod_an_index(client: Client) -> None:
    await client.create(job(completions=3, parallelism=3, completionMode="Indexed"))
    done = await finished(client)
    assert done.status.completed_indexes == "0-2"
    pods = await pods_of(client)
    for index, pod in enumerate(pods):
        text = str(index)
        assert pod.metadata.name.startswith(f"job-{index}-")
        assert pod.spec.hostname == f"job-{index}"
        assert pod.metadata.labels["batch.kubernetes.io/job-completion-index"] == text
        assert pod.metadata.annotations["batch.kubernetes.io/job-completion-index"] == text
        [variable] = pod.spec.containers[0].env
        assert variable.name == "JOB_COMPLETION_INDEX"


async def test_without_completions_the_first_success_is_enough(client: Client) -> None:
    """The others may go on until they end by themselves."""
    await client.create(job(parallelism=2))
    done = await finished(client)
    assert verdicts(done) == SUCCEEDED
    assert len(await pods_of(client)) == 2


async def test_completions_of_an_indexed_job_can_shrink_while_it_runs(client: Client) -> None:
    annotations = behaving(run_seconds=20)
    await client.create(job(completions=4, parallelism=4, completionMode="Indexed", annotations=annotations))
    await asyncio.sleep(2)
    patch = MergePatch({"spec": {"completions": 2, "parallelism": 2}})
    await client.patch(await read_job(client), patch)
    done = await finished(client)
    assert (done.status.completed_indexes, done.status.succeeded) == ("0,1", 2)


async def test_the_first_rule_of_a_success_policy_that_is_met_ends_the_job(client: Client) -> None:
    """Index 1 leads: when it is done, the others are stopped."""
    rules = [{"succeededIndexes": "1"}]
    await client.create(
        job(
            completions=2,
            parallelism=2,
            completionMode="Indexed",
            successPolicy={"rules": rules},
            annotations=behaving(run_seconds=3600),
        )
    )
    await asyncio.sleep(1)
    leader = (await pods_of(client))[1]
    await client.patch(leader, MergePatch({"metadata": {"annotations": behaving(run_seconds=0)}}))
    done = await finished(client)
    assert verdicts(done) == [
        ("SuccessCriteriaMet", "True", "SuccessPolicy"),
        ("Complete", "True", "SuccessPolicy"),
    ]
    assert done.status.conditions[0].message == "Matched rules at index 0"
    assert (done.status.completed_indexes, done.status.failed or 0) == ("1", 0)


async def test_failed_pods_are_replaced_after_a_while_up_to_the_limit(
    client: Client, recorder: EventLog
) -> None:
    await client.create(job(backoffLimit=2, annotations=behaving(exit_code=3)))
    started = asyncio.get_running_loop().time()
    done = await finished(client)
    took = asyncio.get_running_loop().time() - started
    assert verdicts(done) == failed("BackoffLimitExceeded")
    assert done.status.conditions[-1].message == "Job has reached the specified backoff limit"
    assert done.status.failed == 3
    assert len(await pods_of(client)) == 3
    assert 30 < took < 40  # one second each, and waits of 10 s and 20 s
    assert ("Warning", "BackoffLimitExceeded") in [(each.type, each.reason) for each in recorder.events]


async def test_containers_restarted_in_place_count_towards_the_limit(client: Client) -> None:
    await client.create(
        job(backoffLimit=2, pod={"restartPolicy": "OnFailure"}, annotations=behaving(exit_code=1))
    )
    done = await finished(client)
    assert verdicts(done) == failed("BackoffLimitExceeded")
    assert done.status.failed == 1
    assert await pods_of(client) == []


async def test_a_container_that_succeeds_when_restarted_makes_the_job_succeed(client: Client) -> None:
    await client.create(job(pod={"restartPolicy": "OnFailure"}, annotations=behaving(fail_first_attempts=2)))
    assert verdicts(await finished(client)) == SUCCEEDED
    [pod] = await pods_of(client)
    assert pod.status.container_statuses[0].restart_count == 2


async def test_a_job_that_runs_too_long_fails(client: Client) -> None:
    await client.create(job(activeDeadlineSeconds=5, annotations=behaving(run_seconds=3600)))
    done = await finished(client, timeout=20)
    assert verdicts(done) == failed("DeadlineExceeded")
    assert done.status.conditions[-1].message == "Job was active longer than specified deadline"
    assert shown(done, "completionTime") == {"completionTime": None}
    assert await pods_of(client) == []


async def test_a_pod_failure_policy_can_fail_the_job_at_once(client: Client) -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]
    await client.create(job(podFailurePolicy={"rules": rules}, annotations=behaving(exit_code=42)))
    done = await finished(client)
    [pod] = await pods_of(client)
    assert verdicts(done) == failed("PodFailurePolicy")
    assert done.status.conditions[-1].message == (
        f"Container c for pod {NAMESPACE}/{pod.metadata.name} failed with exit code 42 matching FailJob rule "
        "at index 0"
    )


async def test_ignored_failures_do_not_count(client: Client) -> None:
    rules = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]
    await client.create(
        job(backoffLimit=0, podFailurePolicy={"rules": rules}, annotations=behaving(exit_code=42))
    )
    await asyncio.sleep(25)
    found = await read_job(client)
    assert verdicts(found) == []
    assert shown(found, "failed") == {"failed": None}
    assert len(await pods_of(client)) > 1


async def test_with_a_limit_per_index_the_other_indexes_go_on(client: Client) -> None:
    """Both fail once; then index 1 succeeds, while index 0 has lost its last chance."""
    await client.create(
        job(
            completions=2,
            parallelism=2,
            completionMode="Indexed",
            backoffLimitPerIndex=1,
            annotations=behaving(exit_code=1, run_seconds=4),
        )
    )

    async def second_of_index_1() -> Pod | None:
        running = [pod for pod in await pods_of(client) if pod.status.phase == "Running"]
        counts = "batch.kubernetes.io/job-index-failure-count"
        second = [pod for pod in running if pod.metadata.annotations[counts] == "1"]
        return next((pod for pod in second if pod.spec.hostname == "job-1"), None)

    lucky = await eventually(second_of_index_1)
    assert lucky is not None
    await client.patch(lucky, MergePatch({"metadata": {"annotations": behaving(exit_code=0)}}))
    done = await finished(client)
    assert verdicts(done) == failed("FailedIndexes")
    assert (done.status.failed_indexes, done.status.completed_indexes) == ("0", "1")
    assert len(await pods_of(client)) == 4


async def test_too_many_failed_indexes_fail_the_job(client: Client) -> None:
    await client.create(
        job(
            completions=4,
            parallelism=1,
            completionMode="Indexed",
            backoffLimitPerIndex=0,
            maxFailedIndexes=1,
            annotations=behaving(exit_code=1),
        )
    )
    done = await finished(client)
    assert verdicts(done) == failed("MaxFailedIndexesExceeded")
    assert done.status.failed_indexes == "0,1"


async def test_a_suspended_job_has_no_pods_until_it_is_resumed(client: Client, recorder: EventLog) -> None:
    await client.create(job(suspend=True))
    await asyncio.sleep(2)
    found = await read_job(client)
    assert verdicts(found) == [("Suspended", "True", "JobSuspended")]
    assert shown(found, "startTime", "active") == {"startTime": None, "active": None}
    assert await pods_of(client) == []
    await client.patch(found, MergePatch({"spec": {"suspend": False}}))
    done = await finished(client)
    assert verdicts(done) == [("Suspended", "False", "JobResumed"), *SUCCEEDED]
    told = [(each.reason, each.note) for each in recorder.events if each.reason in ("Suspended", "Resumed")]
    assert told == [("Suspended", "Job suspended"), ("Resumed", "Job resumed")]


async def test_suspending_removes_pods_without_counting_them(client: Client) -> None:
    annotations = behaving(run_seconds=30)
    await client.create(job(completions=2, parallelism=2, completionMode="Indexed", annotations=annotations))
    await asyncio.sleep(2)
    await client.patch(await read_job(client), MergePatch({"spec": {"suspend": True}}))
    await asyncio.sleep(2)
    found = await read_job(client)
    assert await pods_of(client) == []
    assert shown(found, "failed", "active", "startTime", "terminating") == {
        "failed": None,
        "active": None,
        "startTime": None,
        "terminating": 0,
    }
    await client.patch(found, MergePatch({"spec": {"suspend": False}}))
    done = await finished(client)
    assert (done.status.completed_indexes, done.status.failed or 0) == ("0,1", 0)


async def test_the_deadline_begins_anew_when_a_job_is_resumed(client: Client) -> None:
    await client.create(job(activeDeadlineSeconds=10, annotations=behaving(run_seconds=3600)))
    await asyncio.sleep(6)
    await client.patch(await read_job(client), MergePatch({"spec": {"suspend": True}}))
    await asyncio.sleep(30)
    await client.patch(await read_job(client), MergePatch({"spec": {"suspend": False}}))
    await asyncio.sleep(6)
    assert verdicts(await read_job(client)) == [("Suspended", "False", "JobResumed")]
    assert verdicts(await finished(client, timeout=20))[1:] == failed("DeadlineExceeded")


async def test_a_pod_that_is_deleted_counts_as_failed_and_is_replaced(client: Client) -> None:
    await client.create(job(annotations=behaving(run_seconds=60)))
    await asyncio.sleep(1)
    [pod] = await pods_of(client)
    await client.delete(pod)
    await asyncio.sleep(15)
    found = await read_job(client)
    assert found.status.failed == 1
    assert [each.metadata.name for each in await pods_of(client)] != [pod.metadata.name]


async def test_with_replacement_after_failure_a_pod_must_end_first(client: Client) -> None:
    await client.create(
        job(
            podReplacementPolicy="Failed",
            annotations=behaving(run_seconds=3600, stop_seconds=20),
        )
    )
    await asyncio.sleep(1)
    [pod] = await pods_of(client)
    await client.delete(pod)
    await asyncio.sleep(10)
    assert shown(await read_job(client), "active", "terminating") == {"active": None, "terminating": 1}
    await asyncio.sleep(30)
    assert shown(await read_job(client), "active", "terminating", "failed") == {
        "active": 1,
        "terminating": 0,
        "failed": 1,
    }


async def test_matching_orphans_are_adopted_and_others_let_go(client: Client) -> None:
    await client.create(job(annotations=behaving(run_seconds=3600)))
    await asyncio.sleep(1)
    [pod] = await pods_of(client)
    await client.patch(pod, MergePatch({"metadata": {"ownerReferences": None}}))
    await asyncio.sleep(1)
    [adopted] = await pods_of(client)
    assert adopted.metadata.owner_references[0].name == "job"
    await client.patch(
        adopted, MergePatch({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "x"}}})
    )
    await asyncio.sleep(1)
    released = await client.get(Pod, pod.metadata.name, NAMESPACE)
    assert released.metadata.owner_references == ()
    assert released.metadata.finalizers == ()


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_pods_go_with_their_job(client: Client, propagation: str) -> None:
    await client.create(job(completions=2, parallelism=2, annotations=behaving(run_seconds=3600)))
    await asyncio.sleep(1)
    await client.delete(await read_job(client), propagation=propagation)  # type: ignore[arg-type]
    await gone(client, Job, "job", NAMESPACE)
    await asyncio.sleep(5)
    assert await pods_of(client) == []


async def test_pods_that_are_orphaned_lose_their_finalizer(client: Client) -> None:
    await client.create(job(annotations=behaving(run_seconds=3600)))
    await asyncio.sleep(1)
    await client.delete(await read_job(client), propagation="Orphan")
    await gone(client, Job, "job", NAMESPACE)
    await asyncio.sleep(2)
    [pod] = await pods_of(client)
    assert pod.metadata.finalizers == ()
    assert pod.metadata.owner_references == ()


async def test_a_finished_job_goes_after_its_time(client: Client) -> None:
    await client.create(job(ttlSecondsAfterFinished=30))
    await finished(client)
    await asyncio.sleep(20)
    assert (await read_job(client)).metadata.name == "job"
    await asyncio.sleep(15)
    await gone(client, Job, "job", NAMESPACE)
    assert await pods_of(client) == []


async def test_a_job_managed_elsewhere_is_left_alone(client: Client) -> None:
    await client.create(job(managedBy="example.com/other"))
    await asyncio.sleep(5)
    found = await read_job(client)
    assert await pods_of(client) == []
    assert shown(found, "startTime", "conditions") == {"startTime": None, "conditions": None}


async def test_a_large_job_is_made_and_counted_in_steps(client: Client) -> None:
    await client.create(job(completions=600, parallelism=600, completionMode="Indexed"))
    done = await finished(client, timeout=120)
    assert (done.status.succeeded, done.status.completed_indexes) == (600, "0-599")
    assert all(not pod.metadata.finalizers for pod in await pods_of(client))
