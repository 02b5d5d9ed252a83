"""The definitions: names, columns, defaults, rules; on the embedded server with its own schema and CEL."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, UnsetType, crd, to_dict
from quarterdeck.errors import ApiError, Invalid
from quarterdeck.operators.trainer.types import (
    KINDS,
    ClusterTrainingRuntime,
    OptimizationJob,
    TrainingRuntime,
    TrainJob,
)
from quarterdeck.testing import TestCluster

from .trainerkit import runtime, train_job

Json = dict[str, Any]


def version(kind: Any) -> Json:
    made: Json = crd(kind)["spec"]["versions"][0]
    return made


@pytest.mark.parametrize(
    ("kind", "plural", "scope", "has_status"),
    [
        (TrainJob, "trainjobs", "Namespaced", True),
        (TrainingRuntime, "trainingruntimes", "Namespaced", False),
        (ClusterTrainingRuntime, "clustertrainingruntimes", "Cluster", False),
    ],
)
def test_names_and_scope(kind: Any, plural: str, scope: str, has_status: bool) -> None:
    spec = crd(kind)["spec"]
    assert (spec["group"], spec["names"]["plural"], spec["scope"]) == ("trainer.kubeflow.org", plural, scope)
    assert not spec["names"].keys() & {"shortNames", "categories"}
    (only,) = spec["versions"]
    assert (only["name"], only["served"], only["storage"]) == ("v1alpha1", True, True)
    assert ("status" in (only.get("subresources") or {})) is has_status


def test_columns() -> None:
    assert version(TrainJob)["additionalPrinterColumns"] == [
        {"jsonPath": ".status.conditions[-1:].type", "name": "State", "type": "string"},
        {
            "jsonPath": ".status.trainerStatus.progressPercentage",
            "name": "Progress",
            "type": "integer",
            "description": "Percent of the training that is done, as it reports itself",
        },
        {
            "jsonPath": ".status.trainerStatus.estimatedRemainingSeconds",
            "name": "Remaining",
            "type": "integer",
            "description": "Seconds that the training expects to take yet",
        },
        {"jsonPath": ".metadata.creationTimestamp", "name": "Age", "type": "date"},
    ]
    assert "additionalPrinterColumns" not in version(TrainingRuntime)


async def refusal(cluster: TestCluster, document: Json) -> str:
    """Why the server does not take a document; empty if it does."""
    try:
        await cluster.client.create(DynamicObject(document), dry_run=True)
    except Invalid as error:
        return error.message
    return ""


def job(name: str = "job", **spec: Any) -> Json:
    document = to_dict(train_job(**spec))
    return {**document, "metadata": {"name": name, "namespace": "default"}}


def made_of(**parts: Any) -> Json:
    document: Json = to_dict(runtime())
    document["spec"].update(parts)
    return document


@pytest.mark.cluster(crds=KINDS)
async def test_names_of_jobs(cluster: TestCluster) -> None:
    rule = "metadata.name must match RFC 1035 DNS label format"
    for name in ("a", "a-1", "a" * 63):
        assert await refusal(cluster, job(name)) == ""
    for name in ("1a", "a.b"):
        assert rule in await refusal(cluster, job(name))
    assert "must be no more than 63 characters" in await refusal(cluster, job("a" * 64))


def pod_patch(**pod: Any) -> Json:
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    return {"manager": "a.b/c", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}


def job_patches(count: int) -> Json:
    jobs = [{"name": f"job-{number}"} for number in range(count)]
    return {"manager": "a.b/c", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


@pytest.mark.cluster(crds=KINDS)
async def test_what_jobs_may_say(cluster: TestCluster) -> None:
    taken: list[Json] = [
        {"managedBy": "kueue.x-k8s.io/multikueue"},
        {"initializer": {"dataset": {"storageUri": ""}, "model": {"storageUri": "s3://bucket/x"}}},
        {"trainer": {"numNodes": 0, "numProcPerNode": "auto"}},
        {"trainer": {"numProcPerNode": 4, "resourcesPerNode": {"requests": {"cpu": "1.5"}}}},
        {"runtimePatches": [{"manager": "kueue.x-k8s.io/manager"}]},
        {"runtimePatches": [pod_patch(terminationGracePeriodSeconds=0, tolerations=[{}] * 128)]},
        {"runtimePatches": [pod_patch(containers=[{"name": f"c{i}"} for i in range(64)])]},
    ]
    for spec in taken:
        assert await refusal(cluster, job(**spec)) == ""
    refused: list[tuple[Json, str]] = [
        ({"managedBy": "me"}, "ManagedBy must be trainer.kubeflow.org/trainjob-controller or kueue"),
        (
            {"initializer": {"model": {"storageUri": "bucket"}}},
            "storageUri may be empty, or it must be a valid",
        ),
        ({"trainer": {"numNodes": -1}}, "spec.trainer.numNodes"),
        ({"trainer": {"resourcesPerNode": {"requests": {"cpu": "much"}}}}, "resourcesPerNode"),
        ({"trainer": {"env": [{"name": "A"}, {"name": "A"}]}}, "Duplicate value"),
        ({"podTemplateOverrides": [{"spec": {}}]}, "targetJobs"),
        ({"podTemplateOverrides": [{"targetJobs": [{"name": ""}]}]}, "targetJobs[0].name"),
        ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds"),
        ({"runtimePatches": [{"manager": ""}]}, "runtimePatches[0].manager"),
        ({"runtimePatches": [{"manager": "x" * 254}]}, "runtimePatches[0].manager"),
        ({"runtimePatches": [{"manager": "a.b/c"}, {"manager": "a.b/c"}]}, "Duplicate value"),
        ({"trainer": {"numProcPerNode": 0}}, "numProcPerNode must be greater than or equal to 1"),
        ({"trainer": {"numProcPerNode": -1}}, "numProcPerNode must be greater than or equal to 1"),
        ({"trainer": {"command": ["x" * 1048577]}}, "spec.trainer.command[0]"),
        ({"trainer": {"args": ["x" * 1048577]}}, "spec.trainer.args[0]"),
        ({"runtimePatches": [pod_patch(terminationGracePeriodSeconds=-1)]}, "terminationGracePeriodSeconds"),
        ({"runtimePatches": [pod_patch(tolerations=[{}] * 129)]}, "tolerations"),
        ({"runtimePatches": [pod_patch(volumes=[{"name": f"v{i}"} for i in range(129)])]}, "volumes"),
        ({"runtimePatches": [pod_patch(containers=[{"name": f"c{i}"} for i in range(65)])]}, "containers"),
        ({"runtimePatches": [job_patches(101)]}, "replicatedJobs"),
    ]
    for spec, text in refused:
        assert text in await refusal(cluster, job(**spec)), spec
    empty = {**job(), "spec": {"runtimeRef": {"name": ""}}}
    assert "spec.runtimeRef.name" in await refusal(cluster, empty)
    assert "spec.runtimeRef" in await refusal(cluster, {**job(), "spec": {}})


@pytest.mark.cluster(crds=KINDS)
async def test_defaults_of_jobs_are_filled_in_and_are_no_change(cluster: TestCluster) -> None:
    document = {**job(), "spec": {"runtimeRef": {"name": "x"}}}
    stored = await cluster.client.create(TrainJob.from_dict(document))
    assert to_dict(stored.spec) == {
        "runtimeRef": {"name": "x", "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime"},
        "suspend": False,
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
    }
    again = {
        **document,
        "metadata": {**document["metadata"], "resourceVersion": stored.metadata.resource_version},
    }
    await cluster.client.update(TrainJob.from_dict(again))


@pytest.mark.cluster(crds=KINDS)
async def test_what_jobs_cannot_change(cluster: TestCluster) -> None:
    stored = await cluster.client.create(TrainJob.from_dict(job(activeDeadlineSeconds=5, suspend=True)))
    assert stored.spec
    ref = stored.spec.runtime_ref
    for change, text in (
        ({"runtime_ref": ref.evolve(name="other")}, "runtimeRef is immutable"),
        ({"runtime_ref": ref.evolve(kind="TrainingRuntime", api_group="x")}, "runtimeRef is immutable"),
        ({"managed_by": "kueue.x-k8s.io/multikueue"}, "ManagedBy value is immutable"),
        ({"active_deadline_seconds": 6}, "field is immutable"),
    ):
        with pytest.raises(ApiError, match=text) as caught:
            await cluster.client.update(stored.evolve(spec=stored.spec.evolve(**change)))
        assert caught.value.code == 422


@pytest.mark.cluster(crds=KINDS)
async def test_what_runtimes_may_say(cluster: TestCluster) -> None:
    for value in ("auto", "cpu", "gpu", 3):
        assert await refusal(cluster, made_of(mlPolicy={"torch": {"numProcPerNode": value}})) == ""
    word = "NumProcPerNode must be equal to auto, cpu, gpu, or int value"
    for value in (0, -1, "npu", "4"):
        assert word in await refusal(cluster, made_of(mlPolicy={"torch": {"numProcPerNode": value}}))
    one = "Only one of the policy can be configured"
    for pair in (("torch", "mpi"), ("jax", "xgboost"), ("mpi", "jax"), ("flux", "torch")):
        assert one in await refusal(cluster, made_of(mlPolicy={name: {} for name in pair}))
    elastic = made_of(mlPolicy={"numNodes": 1, "torch": {"elasticPolicy": {"maxNodes": 2}}})
    assert "numNodes should not be set if torch.elasticPolicy is configured" in await refusal(
        cluster, elastic
    )
    assert "mpiImplementation" in await refusal(
        cluster, made_of(mlPolicy={"mpi": {"mpiImplementation": "x"}})
    )
    assert "NumProcPerNode in mpiPolicy must be >= 1" in await refusal(
        cluster, made_of(mlPolicy={"mpi": {"numProcPerNode": 0}})
    )
    assert "spec" in await refusal(cluster, {**made_of(), "spec": {}})
    assert "spec.template" in await refusal(cluster, made_of(template={}))
    injection = {"targets": [{"jobName": "j", "containerNames": ["node"]}]}
    policy = {"torch": {"envInjection": injection}}
    assert "must not include the main node container" in await refusal(cluster, made_of(mlPolicy=policy))


@pytest.mark.cluster(crds=KINDS)
async def test_defaults_of_runtimes(cluster: TestCluster) -> None:
    document = made_of(
        mlPolicy={"mpi": {}}, podGroupPolicy={"coscheduling": {}, "volcano": {"networkTopology": {}}}
    )
    stored = (await cluster.client.create(TrainingRuntime.from_dict(document))).spec
    assert not isinstance(stored, UnsetType)
    assert to_dict(stored.ml_policy) == {
        "mpi": {
            "numProcPerNode": 1,
            "mpiImplementation": "OpenMPI",
            "sshAuthMountPath": "/root/.ssh",
            "runLauncherAsNode": False,
        }
    }
    assert to_dict(stored.pod_group_policy) == {
        "coscheduling": {"scheduleTimeoutSeconds": 60},
        "volcano": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
    }


@pytest.mark.cluster(crds=KINDS)
async def test_rules_of_jobsets_hold_inside_runtimes(cluster: TestCluster) -> None:
    document = made_of()
    document["spec"]["template"]["spec"]["network"] = {"subdomain": "a"}
    stored = await cluster.client.create(TrainingRuntime.from_dict(document))
    changed = stored.to_dict()
    changed["spec"]["template"]["spec"]["network"]["subdomain"] = "b"
    with pytest.raises(ApiError, match="Value is immutable") as caught:
        await cluster.client.update(TrainingRuntime.from_dict(changed))
    assert {cause.field for cause in caught.value.details.causes} == {"spec.template.spec.network"}
    free = stored.to_dict()
    free["spec"]["mlPolicy"] = {"numNodes": 5}
    await cluster.client.update(TrainingRuntime.from_dict(free))


def search(**spec: Any) -> Json:
    parameter = {"name": "lr", "searchSpace": {"logUniform": {"min": "1e-4", "max": "0.1"}}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "OptimizationJob",
        "metadata": {"generateName": "search-", "namespace": "default"},
        "spec": {
            "objectives": [{"metric": "loss"}],
            "parameters": [parameter],
            "trainJobTemplate": {"spec": {"runtimeRef": {"name": "x"}}},
            **spec,
        },
    }


@pytest.mark.cluster(crds=[OptimizationJob])
async def test_searches_for_parameters(cluster: TestCluster) -> None:
    stored = await cluster.client.create(DynamicObject(search()))
    spec = stored.to_dict()["spec"]
    assert (spec["numTrials"], spec["parallelTrials"], spec["searchAlgorithm"]) == (1, 1, {"random": {}})
    assert spec["objectives"] == [{"metric": "loss", "direction": "Minimize"}]
    with pytest.raises(
        Invalid, match="OptimizationJobSpec is immutable and cannot be updated after creation"
    ):
        await cluster.client.update(DynamicObject({**stored.to_dict(), "spec": {**spec, "numTrials": 2}}))
    name = {"name": "p"}
    for change, text in (
        ({"numTrials": 2, "parallelTrials": 3}, "parallelTrials cannot exceed numTrials"),
        ({"searchAlgorithm": {"grid": {}}}, "Grid search requires all parameters to be Categorical"),
        (
            {"searchAlgorithm": {"grid": {}, "random": {}}},
            "exactly one of the fields in [random grid] must be",
        ),
        ({"objectives": [{"metric": "a"}, {"metric": "b"}]}, "spec.objectives"),
        ({"parameters": [{**name, "searchSpace": {}}]}, "exactly one of the fields in [uniform logUniform"),
        (
            {"parameters": [{**name, "searchSpace": {"uniform": {"min": "2", "max": "1"}}}]},
            "min must be strictly less than max",
        ),
        (
            {"parameters": [{**name, "searchSpace": {"logUniform": {"min": "0", "max": "1"}}}]},
            "min must be strictly greater than 0",
        ),
        ({"parameters": [{**name, "searchSpace": {"uniform": {"min": "x", "max": "1"}}}]}, "uniform.min"),
    ):
        assert text in await refusal(cluster, search(**change)), change
    grid = {"parameters": [{**name, "searchSpace": {"categorical": {"choices": ["8", "16"]}}}]}
    assert await refusal(cluster, search(searchAlgorithm={"grid": {}}, **grid)) == ""
