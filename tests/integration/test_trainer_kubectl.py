"""TrainJobs under a stock kubectl, as a user of Kubeflow Trainer knows them.

The cluster is `quarterdeck up`; with ``-m kube`` the same is done on a real kube-apiserver, which calls
`quarterdeck run` over TLS. Nothing runs Jobs there: what the operator makes is what is looked at.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.server import is_built
from parity.runner import Kubectl
from quarterdeck.operators.jobset.types import definition

from .nodegroupkit import Hand, embedded_cluster, real_cluster

Json = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples" / "trainer"
REAL = pytest.param(
    "real",
    marks=[
        pytest.mark.kube,
        pytest.mark.skipif(not is_built(), reason="the real kube-apiserver is not built (make kube)"),
    ],
)


@pytest.fixture(scope="module", params=["up", REAL])
def kubeconfig(request: pytest.FixtureRequest) -> Iterator[Path]:
    with embedded_cluster("trainer") if request.param == "up" else real_cluster("trainer") as found:
        yield found


@pytest.fixture
def hand(kubectl: Kubectl, kubeconfig: Path, tmp_path: Path) -> Iterator[Hand]:
    hand = Hand(kubectl, kubeconfig, tmp_path)
    hand("apply", "--server-side", "-f", "-", manifest=definition())
    hand("apply", "--server-side", "-f", str(EXAMPLES / "1-runtimes.yaml"))
    yield hand
    # The bare real server has no garbage collector: the next test would find what belongs to nobody.
    hand("delete", "trainjobs,jobsets,secrets,configmaps", "--all", "--wait=false")


def documents(name: str) -> list[Json]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def within(seconds: float, holds: Callable[[], Any]) -> Any:
    """What a function finds, as soon as it finds something."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def jobset(hand: Hand, name: str) -> Json:
    def look() -> Json:
        done = hand.run("get", "jobset", name, "-o", "json")
        found: Json = json.loads(done.stdout) if done.returncode == 0 else {}
        return found

    made: Json = within(20, look)
    return made


def test_a_job_becomes_a_jobset(hand: Hand) -> None:
    (mnist, *_) = documents("2-jobs.yaml")
    assert hand.apply(mnist) == "trainjob.trainer.kubeflow.org/mnist created\n"
    spec = jobset(hand, "mnist")["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert spec["parallelism"] == 2
    env = {entry["name"]: entry.get("value") for entry in spec["template"]["spec"]["containers"][0]["env"]}
    assert (env["PET_NNODES"], env["PET_MASTER_ADDR"]) == ("2", "mnist-node-0-0.mnist")
    assert hand.apply(mnist) == "trainjob.trainer.kubeflow.org/mnist unchanged\n"


def test_the_table_shows_the_last_condition(hand: Hand) -> None:
    tune = documents("2-jobs.yaml")[2]
    hand.apply(tune)
    within(20, lambda: "Suspended" in hand("get", "trainjobs"))
    assert hand("get", "trainjobs").splitlines()[0].split() == [
        "NAME",
        "STATE",
        "PROGRESS",
        "REMAINING",
        "AGE",
    ]
    hand("patch", "trainjob", "fine-tune", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    state = "{.status.conditions[-1:].reason}"
    within(20, lambda: hand("get", "trainjob", "fine-tune", "-o", f"jsonpath={state}") == "Resumed")
    assert jobset(hand, "fine-tune")["spec"]["suspend"] is False
    command = jobset(hand, "fine-tune")["spec"]["replicatedJobs"][2]["template"]["spec"]["template"]["spec"]
    assert command["containers"][0]["command"][:3] == ["tune", "run", "lora_finetune_single_device"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("reserved-env", "must not have reserved envs: [PET_NNODES]"),
        ("no-runtime", "specified trainingRuntime must be created before the TrainJob is created"),
        ("unknown-job", "must not have targetJob that doesn't exist in the runtime job template"),
    ],
)
def test_what_is_refused_says_why(hand: Hand, name: str, text: str) -> None:
    done = hand.run("apply", "-f", str(EXAMPLES / "refused" / f"{name}.yaml"))
    assert done.returncode == 1
    assert 'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request' in done.stderr
    assert text in done.stderr


def test_overrides_are_for_suspended_jobs(hand: Hand) -> None:
    (mnist, *_) = documents("2-jobs.yaml")
    hand.apply(mnist)
    jobset(hand, "mnist")
    change = {"spec": {"podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": {}}]}}
    done = hand.run("patch", "trainjob", "mnist", "--type=merge", "-p", json.dumps(change))
    assert "PodTemplateOverrides can only be modified when the TrainJob is suspended" in done.stderr


def test_a_job_that_uses_a_deprecated_runtime_is_warned(hand: Hand) -> None:
    name = f"old-{time.monotonic_ns()}"  # it is warned about when it is new
    old = {**documents("1-runtimes.yaml")[1]}
    old["metadata"] = {"name": name, "labels": {"trainer.kubeflow.org/support": "deprecated"}}
    done = hand.run("apply", "-f", "-", manifest=old)
    assert f'Warning: ClusterTrainingRuntime "{name}" is deprecated' in done.stderr
    (mnist, *_) = documents("2-jobs.yaml")
    job = {
        **mnist,
        "metadata": {"name": "late", "namespace": "default"},
        "spec": {"runtimeRef": {"name": name}},
    }
    done = hand.run("apply", "-f", "-", manifest=job)
    assert f'Warning: Referenced ClusterTrainingRuntime "{name}" is deprecated' in done.stderr


def test_a_job_that_cannot_have_its_name_says_so(hand: Hand) -> None:
    foreign = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "mnist", "namespace": "default"},
        "spec": {
            "replicatedJobs": [
                {
                    "name": "x",
                    "template": {
                        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
                    },
                }
            ]
        },
    }
    hand.apply(foreign)
    (mnist, *_) = documents("2-jobs.yaml")
    hand.apply(mnist)
    text = "JobSet default/mnist already exists and is not controlled by this TrainJob"
    within(20, lambda: text in hand("describe", "trainjob", "mnist"))


def test_mpi_gets_a_key_and_a_hostfile(hand: Hand) -> None:
    deepspeed = documents("2-jobs.yaml")[1]
    hand.apply(deepspeed)
    jobset(hand, "deepspeed")
    hostfile = hand.read("configmap", "deepspeed-mpi-hostfile")["data"]["hostfile"]
    assert hostfile.splitlines() == [
        f"deepspeed-{host}.deepspeed slots=1" for host in ("launcher-0-0", "node-0-0", "node-0-1")
    ]
    change = {"data": {"ssh-privatekey": "QUJD"}}
    done = hand.run("patch", "secret", "deepspeed-mpi-ssh-auth", "--type=merge", "-p", json.dumps(change))
    assert "field is immutable when `immutable` is set" in done.stderr


def test_explain_knows_the_fields(hand: Hand) -> None:
    assert "podTemplateOverrides" in hand("explain", "trainjob.spec")
    assert "replicatedJobs" in hand("explain", "clustertrainingruntime.spec.template.spec")
