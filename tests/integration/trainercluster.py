"""Helpers of the trainer tests: the operator on a test cluster, with objects in one line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from quarterdeck.api import Resource, crd
from quarterdeck.api.jobset import JobSet
from quarterdeck.api.jobset import definition as jobset_definition
from quarterdeck.operators.trainer.assembly import TrainerOperator
from quarterdeck.operators.trainer.types import (
    KINDS,
    CoschedulingPodGroup,
    TrainingRuntime,
    TrainJob,
    VolcanoPodGroup,
)
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.operator import OperatorEnvironment, OperatorWebhooks
from quarterdeck.testing import EventLog, FaultPlan, Link, TestCluster, run_until_idle

from . import trainercases

SPACE = "default"
Json = dict[str, Any]


def light(kind: type[Resource]) -> Json:
    """A definition that takes anything: schemas have tests of their own, and take their time to install."""
    definition = crd(kind)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for version in definition["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": anything}
    return definition


LIGHT = [*map(light, KINDS), jobset_definition()]


def trainer_cluster(**options: Any) -> TestCluster:
    """A cluster with all kinds and garbage collection; nothing makes Jobs of JobSets."""
    kinds = [*LIGHT, light(CoschedulingPodGroup), light(VolcanoPodGroup)]
    return TestCluster(crds=kinds, controllers=True, **options)


class Operator:
    """One instance of the operator, with its own link, metrics and events."""

    def __init__(
        self,
        cluster: TestCluster,
        settings: Mapping[str, Any] | None = None,
        *,
        plan: FaultPlan | None = None,
        user: str = "",
    ) -> None:
        self.cluster = cluster
        self.link: Link = cluster.link(plan, name="operator", user=user)
        self.metrics = RuntimeMetrics()
        self.events = EventLog()
        self.manager: Manager = cluster.manager(link=self.link, metrics=self.metrics, recorder=self.events)
        environment = OperatorEnvironment(name="trainer", settings=settings or {})
        self.webhooks: OperatorWebhooks = TrainerOperator().setup(self.manager, environment)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.cluster.serving(self.manager):
            yield

    async def settle(self, *others: Operator, horizon: float = 20.0) -> None:
        """Let everything come to rest, garbage collection included."""
        for _ in range(3):
            await asyncio.sleep(0.3)
            await run_until_idle(self.manager, *(other.manager for other in others), horizon=horizon)

    def value(self, name: str, *labels: str) -> float:
        return self.metrics.registry.value(name, *labels)

    def runs(self) -> float:
        """Reconciles of TrainJobs so far."""
        results = ("success", "error", "requeue", "requeue_after")
        return sum(
            self.value("controller_runtime_reconcile_total", "trainjob_controller", each) for each in results
        )


def runtime(*jobs: Json, **more: Any) -> TrainingRuntime:
    return TrainingRuntime.from_dict(trainercases.runtime(*jobs, **more))


def mpi_runtime() -> TrainingRuntime:
    return TrainingRuntime.from_dict(trainercases.mpi_runtime())


def train_job(name: str = "test-job", **spec: Any) -> TrainJob:
    return TrainJob.from_dict(trainercases.train_job(name, **spec))


async def jobset(cluster: TestCluster, name: str = "test-job") -> JobSet:
    return await cluster.client.get(JobSet, name, SPACE)
