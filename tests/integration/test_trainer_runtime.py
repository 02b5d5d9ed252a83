"""A runtime and the TrainJobs that use it: released at once, waited for without asking."""

from __future__ import annotations

import asyncio

import pytest

from quarterdeck.client import Client
from quarterdeck.errors import NotFound
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer.types import TrainingRuntime, TrainJob
from quarterdeck.testing import eventually

from .trainercluster import SPACE, Operator, jobset, runtime, train_job, trainer_cluster

pytestmark = pytest.mark.virtual_time


async def is_there(client: Client, kind: type[TrainingRuntime | JobSet], name: str) -> bool:
    try:
        await client.get(kind, name, SPACE)
    except NotFound:
        return False
    return True


@pytest.mark.parametrize("deletes_runtime_first", [True, False])
async def test_a_runtime_is_released_within_a_second_of_its_last_train_job(
    deletes_runtime_first: bool,
) -> None:
    async with trainer_cluster() as cluster:
        operator, client = Operator(cluster, {"protectRuntimes": True}), cluster.client
        await client.create(runtime())
        async with operator.running():
            for name in ("a", "b"):
                await client.create(train_job(name))
            await operator.settle()
            assert (await client.get(TrainingRuntime, "test-runtime", SPACE)).metadata.finalizers
            if deletes_runtime_first:
                await client.delete(TrainingRuntime, "test-runtime", SPACE)
                await operator.settle()
            await client.delete(TrainJob, "a", SPACE)
            await operator.settle()
            assert await is_there(client, TrainingRuntime, "test-runtime")
            await client.delete(TrainJob, "b", SPACE)
            if not deletes_runtime_first:
                await client.delete(TrainingRuntime, "test-runtime", SPACE)
            began = asyncio.get_running_loop().time()

            async def released() -> bool:
                return not await is_there(client, TrainingRuntime, "test-runtime")

            await eventually(released, timeout=60.0)
            assert asyncio.get_running_loop().time() - began <= 1.0


async def test_a_train_job_goes_on_when_its_runtime_comes_and_does_not_ask_meanwhile() -> None:
    async with trainer_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(train_job())
            await operator.settle()
            before = operator.runs()
            await cluster.clock.sleep(600.0)
            assert operator.runs() == before
            await client.create(runtime())
            began = asyncio.get_running_loop().time()

            async def made() -> bool:
                return await is_there(client, JobSet, "test-job")

            await eventually(made, timeout=60.0)
            assert asyncio.get_running_loop().time() - began < 1.0
            assert (await jobset(cluster)).spec.replicated_jobs
