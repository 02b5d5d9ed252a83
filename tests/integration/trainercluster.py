"""Helpers of the trainer tests: the operator on a test cluster, with objects in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterdeck.api import Resource, crd
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.types import definition as jobset_definition
from quarterdeck.operators.trainer.assembly import TrainerOperator
from quarterdeck.operators.trainer.types import (
    KINDS,
    CoschedulingPodGroup,
    TrainingRuntime,
    TrainJob,
    VolcanoPodGroup,
)
from quarterdeck.testing import OperatorRun, TestCluster

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


class Operator(OperatorRun):
    """One instance of the operator."""

    def __init__(
        self, cluster: TestCluster, settings: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        super().__init__(cluster, TrainerOperator(), settings, name="trainer", **options)

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
