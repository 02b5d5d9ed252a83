"""CronJobs: starts, concurrency, history and what they tell, on virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import CronJob, Job
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster, eventually
from tests.unit.cluster.workloadkit import NAMESPACE, behaving, pod_spec


@pytest.fixture(autouse=True)
async def cluster_at_work(cluster: TestCluster, manager: Manager) -> None:
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=1)))
    await cluster.start(manager)


def cron_job(*, runs: float = 1, fails: bool = False, **spec: Any) -> DynamicObject:
    acts = behaving(run_seconds=runs, exit_code=1 if fails else 0)
    job = {"backoffLimit": 0, "template": {"metadata": {"annotations": acts}, "spec": pod_spec()}}
    template = {"metadata": {"labels": {"made": "yes"}}, "spec": job}
    document = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": NAMESPACE},
        "spec": {"schedule": "* * * * *", "jobTemplate": template, **spec},
    }
    return DynamicObject(document)


async def jobs(client: Client) -> list[Job]:
    found = await client.list(Job, namespace=NAMESPACE)
    return sorted(found.items, key=lambda each: each.metadata.name)


async def read(client: Client) -> CronJob:
    return await client.get(CronJob, "tick", NAMESPACE)


def told(recorder: EventLog) -> list[str]:
    return [each.reason for each in recorder.events if each.regarding.kind == "CronJob"]


async def started(client: Client, number: int) -> list[Job]:
    async def probe() -> list[Job] | None:
        found = await jobs(client)
        return found if len(found) >= number else None

    found = await eventually(probe, timeout=600, interval=1)
    assert found is not None
    return found


async def test_a_job_is_started_every_minute(client: Client, recorder: EventLog) -> None:
    await client.create(cron_job())
    first, second = (await started(client, 2))[:2]
    minutes = [int(each.metadata.name.removeprefix("tick-")) for each in (first, second)]
    assert minutes[1] == minutes[0] + 1
    assert first.metadata.labels["made"] == "yes"
    scheduled = first.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert scheduled.endswith(":00Z")
    await asyncio.sleep(10)
    status = (await read(client)).status
    assert list(status.active) == []
    assert status.last_schedule_time
    assert status.last_successful_time
    assert told(recorder)[:2] == ["SuccessfulCreate", "SawCompletedJob"]


async def test_forbid_waits_for_the_job_that_runs(client: Client, recorder: EventLog) -> None:
    await client.create(cron_job(runs=150, concurrencyPolicy="Forbid"))
    await started(client, 2)
    first, second = (await jobs(client))[:2]
    minutes = [int(each.metadata.name.removeprefix("tick-")) for each in (first, second)]
    assert minutes[1] - minutes[0] > 1
    assert "JobAlreadyActive" in told(recorder)


async def test_replace_ends_the_job_that_runs(client: Client, recorder: EventLog) -> None:
    await client.create(cron_job(runs=3600, concurrencyPolicy="Replace"))
    [first] = await started(client, 1)

    async def is_replaced() -> bool:
        found = await jobs(client)
        return len(found) == 1 and found[0].metadata.name != first.metadata.name

    await eventually(is_replaced, timeout=120, interval=1)
    assert "SuccessfulDelete" in told(recorder)
    assert len((await read(client)).status.active) == 1


async def test_history_limits_keep_the_latest(client: Client) -> None:
    await client.create(cron_job(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0))
    await asyncio.sleep(5 * 60)
    assert len(await jobs(client)) <= 2


async def test_a_suspended_cron_job_starts_nothing(client: Client) -> None:
    await client.create(cron_job(suspend=True))
    await asyncio.sleep(180)
    assert not await jobs(client)
    await client.patch(await read(client), MergePatch({"spec": {"suspend": False}}))
    await started(client, 1)


async def test_many_missed_starts_are_told_and_the_latest_is_made_up_for(
    client: Client, recorder: EventLog
) -> None:
    await client.create(cron_job(suspend=True))
    await asyncio.sleep(2 * 3600)
    await client.patch(await read(client), MergePatch({"spec": {"suspend": False}}))
    [_] = await started(client, 1)
    assert told(recorder)[:2] == ["TooManyMissedTimes", "SuccessfulCreate"]


async def test_another_schedule_does_not_make_up_for_what_it_would_have_been(client: Client) -> None:
    await client.create(cron_job(schedule="0 0 1 1 *"))
    await asyncio.sleep(90)
    await client.patch(await read(client), MergePatch({"spec": {"schedule": "*/30 * * * *"}}))
    await asyncio.sleep(60)
    assert not await jobs(client)
