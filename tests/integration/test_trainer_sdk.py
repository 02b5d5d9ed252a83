"""Kubeflow's own SDK, unmodified, on `quarterdeck up`: what a data scientist does, for every framework.

Pods are simulated: they start, run for a moment and succeed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import (
    BuiltinTrainer,
    CustomTrainer,
    CustomTrainerContainer,
    HuggingFaceDatasetInitializer,
    HuggingFaceModelInitializer,
    Initializer,
    TorchTuneConfig,
    TrainerClient,
)
from kubeflow.trainer.options import (
    ActiveDeadlineSeconds,
    Annotations,
    JobSetSpecPatch,
    JobSetTemplatePatch,
    JobSpecPatch,
    JobTemplatePatch,
    Labels,
    Name,
    PodSpecPatch,
    PodTemplatePatch,
    ReplicatedJobPatch,
    RuntimePatch,
    TrainingRuntimeSpecPatch,
)
from kubernetes import client as stock
from kubernetes import config as stock_config

from .nodegroupkit import embedded_cluster

Json = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples" / "trainer"
GROUP, VERSION = "trainer.kubeflow.org", "v1alpha1"


class Lab:
    """The SDK on one cluster, and a stock client to look behind it."""

    def __init__(self, kubeconfig: Path) -> None:
        self.objects = stock.CustomObjectsApi(stock_config.new_client_from_config(str(kubeconfig)))
        for document in yaml.safe_load_all((EXAMPLES / "1-runtimes.yaml").read_text()):
            self.objects.create_cluster_custom_object(GROUP, VERSION, "clustertrainingruntimes", document)
        self.trainer = TrainerClient(
            KubernetesBackendConfig(config_file=str(kubeconfig), namespace="default")
        )

    def jobset(self, name: str) -> Json:
        found: Json = self.objects.get_namespaced_custom_object(
            "jobset.x-k8s.io", "v1alpha2", "default", "jobsets", name
        )
        return found

    def pod(self, name: str, job: str = "node") -> Json:
        jobs = {
            each["name"]: each["template"]["spec"] for each in self.jobset(name)["spec"]["replicatedJobs"]
        }
        pod: Json = jobs[job]["template"]["spec"]
        return pod

    def finish(self, name: str) -> None:
        done = self.trainer.wait_for_job_status(name, timeout=120, polling_interval=1)
        assert done.status == "Complete"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with embedded_cluster("trainer,jobset", nodes=2) as kubeconfig:
        yield Lab(kubeconfig)


def train() -> None:
    print("trained")


def test_runtimes_are_listed_with_their_frameworks(lab: Lab) -> None:
    found = {each.name: each.trainer.framework for each in lab.trainer.list_runtimes()}
    assert found["torch-distributed"] == "torch"
    assert found["jax-distributed"] == "jax"
    assert found["xgboost-distributed"] == "xgboost"
    assert lab.trainer.get_runtime("torch-distributed").name == "torch-distributed"


@pytest.mark.parametrize(
    ("runtime", "variable"),
    [
        ("torch-distributed", "PET_NNODES"),
        ("jax-distributed", "JAX_NUM_PROCESSES"),
        ("xgboost-distributed", "DMLC_NUM_WORKER"),
    ],
)
def test_a_function_is_trained_on_two_nodes(lab: Lab, runtime: str, variable: str) -> None:
    trainer = CustomTrainer(func=train, num_nodes=2, resources_per_node={"cpu": 1}, env={"MODE": "test"})
    name = lab.trainer.train(runtime=runtime, trainer=trainer)
    lab.finish(name)
    (container,) = lab.pod(name)["containers"]
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert (env[variable], env["MODE"]) == ("2", "test")
    assert "trained" in " ".join(container["command"])
    job = lab.trainer.get_job(name)
    assert (job.num_nodes, job.status) == (2, "Complete")
    assert name in [each.name for each in lab.trainer.list_jobs()]


@pytest.mark.parametrize("runtime", ["deepspeed-distributed", "mlx-distributed"])
def test_a_function_is_trained_over_mpi(lab: Lab, runtime: str) -> None:
    name = lab.trainer.train(runtime=runtime, trainer=CustomTrainer(func=train, num_nodes=2))
    lab.finish(name)
    env = {entry["name"] for entry in lab.pod(name, "launcher")["containers"][0]["env"]}
    assert "OMPI_MCA_orte_default_hostfile" in env


def test_an_image_is_trained(lab: Lab) -> None:
    trainer = CustomTrainerContainer(image="example.com/mine:1", num_nodes=1)
    name = lab.trainer.train(runtime="torch-distributed", trainer=trainer)
    lab.finish(name)
    assert lab.pod(name)["containers"][0]["image"] == "example.com/mine:1"


def test_torchtune_fine_tunes_a_model(lab: Lab) -> None:
    initializer = Initializer(
        dataset=HuggingFaceDatasetInitializer(storage_uri="hf://tatsu-lab/alpaca/data"),
        model=HuggingFaceModelInitializer(storage_uri="hf://meta-llama/Llama-3.2-1B-Instruct"),
    )
    name = lab.trainer.train(
        runtime="torchtune-llama3.2-1b",
        initializer=initializer,
        trainer=BuiltinTrainer(config=TorchTuneConfig(resources_per_node={"gpu": 1})),
        options=[Name("tune")],
    )
    assert name == "tune"
    (container,) = _eventually(lambda: lab.pod(name))["containers"]
    assert container["command"][:3] == ["tune", "run", "full_finetune_single_device"]
    model = {
        entry["name"]: entry.get("value")
        for entry in lab.pod(name, "model-initializer")["containers"][0]["env"]
    }
    assert model["STORAGE_URI"] == "hf://meta-llama/Llama-3.2-1B-Instruct"


def test_options_reach_the_jobset_and_its_pods(lab: Lab) -> None:
    pod = PodTemplatePatch(spec=PodSpecPatch(node_selector={"kubernetes.io/os": "linux"}))
    node = ReplicatedJobPatch(name="node", template=JobTemplatePatch(spec=JobSpecPatch(template=pod)))
    template = JobSetTemplatePatch(spec=JobSetSpecPatch(replicated_jobs=[node]))
    name = lab.trainer.train(
        runtime="torch-distributed",
        trainer=CustomTrainer(func=train),
        options=[
            Name("with-options"),
            Labels({"team": "a"}),
            Annotations({"note": "b"}),
            ActiveDeadlineSeconds(600),
            RuntimePatch(training_runtime_spec=TrainingRuntimeSpecPatch(template=template)),
        ],
    )
    lab.finish(name)
    assert lab.pod(name)["nodeSelector"] == {"kubernetes.io/os": "linux"}
    job: Json = lab.objects.get_namespaced_custom_object(GROUP, VERSION, "default", "trainjobs", name)
    assert (job["metadata"]["labels"]["team"], job["metadata"]["annotations"]["note"]) == ("a", "b")
    assert job["spec"]["activeDeadlineSeconds"] == 600


def test_events_are_read_and_jobs_are_deleted(lab: Lab) -> None:
    name = lab.trainer.train(runtime="torch-distributed", trainer=CustomTrainer(func=train))
    lab.finish(name)
    assert isinstance(lab.trainer.get_job_events(name), list)
    lab.trainer.delete_job(name)
    _eventually(lambda: name not in [each.name for each in lab.trainer.list_jobs()])


def _eventually(probe: Any) -> Any:
    import time

    deadline = time.monotonic() + 60
    while True:
        try:
            found = probe()
        except stock.ApiException:
            found = None
        if found:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.2)
