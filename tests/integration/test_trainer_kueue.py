"""Kueue and TrainJobs: a test plays Kueue, with the webhooks of Trainer and of JobSet in force.

The order is that of Kueue's own integration: what it admits it changes and resumes in one write; what it
stops it suspends first, and takes its changes back when nothing runs any more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quarterdeck.api import to_dict
from quarterdeck.client import MergePatch
from quarterdeck.errors import Forbidden
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.webhooks import jobset_webhooks
from quarterdeck.operators.trainer.types import TrainJob
from quarterdeck.testing import TestCluster

from .trainercluster import SPACE, Operator, jobset, runtime, train_job, trainer_cluster

pytestmark = pytest.mark.virtual_time
Json = dict[str, Any]
MANAGER = "kueue.x-k8s.io/manager"


class Kueue:
    """What Kueue does to one TrainJob."""

    def __init__(self, cluster: TestCluster, operator: Operator) -> None:
        self.cluster = cluster
        self.operator = operator

    async def write(self, **spec: Any) -> None:
        job = await self.cluster.client.get(TrainJob, "test-job", SPACE)
        await self.cluster.client.patch(job, MergePatch({"spec": spec}))
        await self.operator.settle()

    async def admit(self, flavor: str) -> None:
        """Changes and resumption in one write."""
        pod = {
            "metadata": {"labels": {"kueue.x-k8s.io/podset": "node"}},
            "spec": {
                "nodeSelector": {"flavor": flavor},
                "tolerations": [{"key": flavor, "operator": "Exists"}],
                "schedulingGates": [{"name": "kueue.x-k8s.io/topology"}],
            },
        }
        node = {"name": "node", "template": {"spec": {"template": pod}}}
        patch = {
            "manager": MANAGER,
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [node]}}},
        }
        await self.write(suspend=False, runtimePatches=[patch])

    async def report(self, active: int) -> None:
        """What the JobSet says about its Jobs."""
        counters = {**dict.fromkeys(("ready", "succeeded", "failed", "suspended"), 0), "active": active}
        status = {"status": {"replicatedJobsStatus": [{"name": "node", **counters}]}}
        made = await jobset(self.cluster)
        await self.cluster.client.subresource("status").patch(made, MergePatch(status))
        await self.operator.settle()

    async def pod(self) -> Json:
        (node,) = (await jobset(self.cluster)).spec.replicated_jobs
        template: Json = to_dict(node.template.spec.template)
        return template


@asynccontextmanager
async def kueue() -> AsyncIterator[Kueue]:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster)
        await cluster.serve_webhooks(*operator.webhooks.admission, *jobset_webhooks())
        await cluster.client.create(runtime())
        async with operator.running():
            # Kueue's webhook suspends what has a queue.
            queued = train_job(suspend=True)
            metadata = queued.metadata.evolve(labels={"kueue.x-k8s.io/queue-name": "users"})
            await cluster.client.create(queued.evolve(metadata=metadata))
            await operator.settle()
            yield Kueue(cluster, operator)


async def test_admission_changes_and_resumes_in_one_write() -> None:
    async with kueue() as player:
        assert (await jobset(player.cluster)).spec.suspend is True
        await player.admit("gpu")
        made = await jobset(player.cluster)
        assert made.spec.suspend is False
        pod = await player.pod()
        assert pod["metadata"]["labels"] == {"kueue.x-k8s.io/podset": "node"}
        assert pod["spec"]["nodeSelector"] == {"flavor": "gpu"}
        assert pod["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
        assert pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/topology"}]


async def test_what_is_stopped_is_suspended_first_and_restored_when_nothing_runs() -> None:
    async with kueue() as player:
        await player.admit("gpu")
        await player.report(active=1)
        with pytest.raises(
            Forbidden, match="RuntimePatches can only be modified when the TrainJob is suspended"
        ):
            await player.write(runtimePatches=[])
        with pytest.raises(
            Forbidden, match="RuntimePatches cannot be modified when the JobSet's ReplicatedJob"
        ):
            await player.write(suspend=True, runtimePatches=[])
        await player.write(suspend=True)
        assert (await jobset(player.cluster)).spec.suspend is True
        with pytest.raises(Forbidden, match="node is still active"):
            await player.write(runtimePatches=[])
        await player.report(active=0)
        await player.write(runtimePatches=[])
        pod = await player.pod()
        assert "nodeSelector" not in pod["spec"]


async def test_the_next_admission_may_be_elsewhere() -> None:
    async with kueue() as player:
        await player.admit("gpu")
        await player.report(active=1)
        await player.write(suspend=True)
        await player.report(active=0)
        await player.write(runtimePatches=[])
        before = (await jobset(player.cluster)).metadata.uid
        await player.admit("spot")
        made: JobSet = await jobset(player.cluster)
        assert (made.spec.suspend, made.metadata.uid) == (False, before)
        pod = await player.pod()
        assert pod["spec"]["nodeSelector"] == {"flavor": "spot"}


async def test_multikueue_keeps_the_operator_away() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster)
        await cluster.client.create(runtime())
        async with operator.running():
            await cluster.client.create(train_job(managedBy="kueue.x-k8s.io/multikueue"))
            await operator.settle()
            assert len(await cluster.client.list(JobSet, namespace=SPACE)) == 0
