"""Reports of trainings about themselves, as a pod makes them: over TLS, with its token, by its variables."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta, to_dict
from quarterdeck.api.k8s import ConfigMap, Namespace, ServiceAccount
from quarterdeck.api.k8s.authentication import TokenRequest, TokenRequestSpec
from quarterdeck.apiserver import ApiServer
from quarterdeck.client import Client, InProcessTransport
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.types import definition as jobset_definition
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.assembly import TrainerOperator
from quarterdeck.operators.trainer.types import TrainJob
from quarterdeck.runtime.operator.install import install_definitions
from quarterdeck.runtime.operator.program import Program, ProgramOptions
from quarterdeck.testing import eventually

from .trainercluster import SPACE, runtime, train_job

pytestmark = pytest.mark.real_time
Json = dict[str, Any]
REPORT = {
    "trainerStatus": {
        "progressPercentage": 45,
        "estimatedRemainingSeconds": 600,
        "metrics": [{"name": "loss", "value": "0.25"}],
        "lastUpdatedTime": "2030-01-01T00:00:00Z",
    }
}


class Trainings:
    """TrainJobs of one cluster whose operator takes reports."""

    def __init__(self, client: Client, program: Program) -> None:
        self.client = client
        self.program = program

    async def start(self, name: str = "test-job") -> Json:
        """Create a TrainJob; returns the variables of its pods, by name."""
        await self.client.create(train_job(name))
        made = await eventually(lambda: self.client.get(JobSet, name, SPACE))
        assert isinstance(made, JobSet)
        (node,) = made.spec.replicated_jobs
        self.pod = to_dict(node.template.spec.template.spec)
        return {entry["name"]: entry.get("value") for entry in self.pod["containers"][0]["env"]}

    async def token(self, audience: str, space: str = SPACE) -> str:
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace=space))
        request = TokenRequest(spec=TokenRequestSpec(audiences=(audience,)))
        answer = await self.client.subresource("token").create(account, request)
        return answer.status.token

    async def send(self, url: str, report: Any, token: str) -> tuple[int, Json]:
        """POST as a pod does, with the authorities it has mounted."""
        kept = await self.client.get(ConfigMap, "test-job-tls-config", SPACE)
        body = report if isinstance(report, bytes) else json.dumps(report).encode()

        def post() -> tuple[int, Json]:
            trust = ssl.create_default_context(cadata=kept.data["ca.crt"])
            headers = {"authorization": f"bearer {token}"}
            request = urllib.request.Request(url, body, headers, method="POST")
            try:
                with urllib.request.urlopen(request, context=trust) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        return await asyncio.to_thread(post)


@asynccontextmanager
async def trainings() -> AsyncIterator[Trainings]:
    server = ApiServer()
    await server.start(listen=False)
    client = Client.over(InProcessTransport(server.local()))
    options = ProgramOptions(
        is_embedded=True,
        installs=True,
        webhook_url="https://127.0.0.1:0",
        settings={"trainer": {"progress": True}},
    )
    await install_definitions(client, jobset_definition())
    program = Program(client, [TrainerOperator()], options)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(program.serve())
            try:
                await program.wait_ready()
                await client.create(runtime())
                for space in (SPACE, "other"):
                    if space != SPACE:
                        await client.create(Namespace(metadata=ObjectMeta(name=space)))
                    await client.create(ServiceAccount(metadata=ObjectMeta(name="default", namespace=space)))
                yield Trainings(client, program)
            finally:
                program.manager.request_stop()
    finally:
        await client.aclose()
        await server.stop()


async def test_a_pod_reports_with_what_it_was_given() -> None:
    async with trainings() as cluster:
        variables = await cluster.start()
        url = variables["KUBEFLOW_TRAINER_SERVER_URL"]
        assert url.endswith(names.status_path(SPACE, "test-job"))
        mount = "/var/run/secrets/kubeflow/trainer"
        assert variables["KUBEFLOW_TRAINER_SERVER_CA_CERT"] == f"{mount}/ca.crt"
        assert variables["KUBEFLOW_TRAINER_SERVER_TOKEN"] == f"{mount}/token"
        (mounted,) = cluster.pod["containers"][0]["volumeMounts"]
        assert mounted == {"name": "kubeflow-trainer-token", "mountPath": mount, "readOnly": True}
        (volume,) = cluster.pod["volumes"]
        projected, authorities = volume["projected"]["sources"]
        assert projected["serviceAccountToken"]["path"] == "token"
        assert authorities["configMap"]["name"] == "test-job-tls-config"

        token = await cluster.token(projected["serviceAccountToken"]["audience"])
        code, answer = await cluster.send(url, REPORT, token)
        assert (code, answer) == (200, REPORT)
        job = await cluster.client.get(TrainJob, "test-job", SPACE)
        assert job.status
        assert to_dict(job.status.trainer_status) == REPORT["trainerStatus"]

        def shown() -> bool:
            text = cluster.program.metrics.registry.expose().decode()
            labels = '{ns="default",trainjob="test-job"}'
            return (
                f"quarterdeck_trainer_progress_percentage{labels} 45" in text
                and f"quarterdeck_trainer_estimated_remaining_seconds{labels} 600" in text
            )

        await eventually(shown)


async def test_reports_that_are_not_taken() -> None:
    async with trainings() as cluster:
        url = (await cluster.start())["KUBEFLOW_TRAINER_SERVER_URL"]
        audience = names.status_audience(SPACE, "test-job")
        token = await cluster.token(audience)
        other_job = await cluster.token(names.status_audience(SPACE, "other"))
        other_space = await cluster.token(audience, "other")
        for stranger in ("", "x", other_job, other_space):
            code, status = await cluster.send(url, REPORT, stranger)
            assert (code, status["reason"]) == (403, "Forbidden")
        for body in (b"{", b'{"trainerStatus": 5}'):
            code, status = await cluster.send(url, body, token)
            assert (code, status["message"]) == (422, "Invalid payload")
        code, status = await cluster.send(url, {"trainerStatus": {"progressPercentage": 101}}, token)
        assert code == 422
        assert "progressPercentage" in status["message"]
        code, status = await cluster.send(url, b" " * 70000, token)
        assert (code, status["reason"]) == (413, "RequestEntityTooLarge")
        code, status = await cluster.send(url.removesuffix("/status"), REPORT, token)
        assert (code, status["message"]) == (404, "Not found")
        assert await cluster.send(url, {}, token) == (200, {})
        gone = url.replace("test-job", "nobody")
        stray = await cluster.token(names.status_audience(SPACE, "nobody"))
        code, status = await cluster.send(gone, REPORT, stray)
        assert (code, status["message"]) == (404, "Train job not found")
        job = await cluster.client.get(TrainJob, "test-job", SPACE)
        assert not job.status or not job.status.trainer_status


async def test_a_report_without_a_time_gets_one_and_the_last_one_counts() -> None:
    async with trainings() as cluster:
        url = (await cluster.start())["KUBEFLOW_TRAINER_SERVER_URL"]
        token = await cluster.token(names.status_audience(SPACE, "test-job"))
        await cluster.send(url, REPORT, token)
        await cluster.send(url, {"trainerStatus": {"progressPercentage": 50}}, token)
        job = await cluster.client.get(TrainJob, "test-job", SPACE)
        assert job.status
        said = to_dict(job.status.trainer_status)
        assert said.pop("lastUpdatedTime") > "2020"
        assert said == {"progressPercentage": 50}
