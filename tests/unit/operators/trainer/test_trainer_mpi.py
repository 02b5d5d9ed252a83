"""MPI: keys, hostfile, launcher; and the smaller policies JAX, XGBoost, PlainML."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from quarterdeck.api.k8s import Secret
from quarterdeck.errors import ReconcileError
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.keys import ssh_secret
from quarterdeck.operators.trainer.logic.plugin import Present
from quarterdeck.operators.trainer.logic.secret import key_digest

from .trainerkit import (
    RANK,
    components,
    container_of,
    env_of,
    job_of,
    pod_of,
    render,
    rendered_jobset,
    rendering,
    replicated,
    runtime,
    train_job,
    trainer,
    violations,
)

Json = dict[str, Any]


def mpi(**policy: Any) -> Json:
    return {"mpi": {"mpiImplementation": "OpenMPI", "sshAuthMountPath": "/root/.ssh", **policy}}


def plain(**policy: Any) -> Any:
    """A launcher beside nodes that train."""
    return runtime(replicated("launcher"), trainer(), policy=mpi(**policy))


def deepspeed(**policy: Any) -> Any:
    """A launcher that trains, too."""
    launcher = replicated("launcher", ancestor="trainer")
    return runtime(launcher, replicated("node"), policy=mpi(runLauncherAsNode=True, **policy))


def hostfile(job: Any, made_of: Any) -> str:
    text: str = render(job, made_of)["ConfigMap"]["data"]["hostfile"]
    return text


def test_the_hostfile_has_every_pod_of_a_launcher_that_trains() -> None:
    launcher = replicated("launcher", ancestor="trainer")
    policy = {**mpi(runLauncherAsNode=True), "numNodes": 5}
    lines = hostfile(train_job(), runtime(launcher, replicated("node"), policy=policy)).splitlines()
    assert lines == [
        *(f"job-launcher-0-{index}.job slots=1" for index in range(5)),
        "job-node-0-0.job slots=1",
    ]


def test_the_hostfile_has_the_pods_of_all_replicas() -> None:
    nodes = replicated("node", more={"replicas": 2})
    made_of = runtime(replicated("launcher", ancestor="trainer"), nodes, policy=mpi())
    lines = hostfile(train_job(trainer={"numNodes": 2}), made_of).splitlines()
    assert lines == [f"job-node-{replica}-{index}.job slots=1" for replica in (0, 1) for index in (0, 1)]


def test_a_gang_counts_all_replicas() -> None:
    nodes = replicated("node", more={"replicas": 3}, resources={"requests": {"cpu": "2"}})
    launcher = replicated("launcher", ancestor="trainer")
    made_of = runtime(launcher, nodes, policy=mpi(), gang={"coscheduling": {}})
    group = render(train_job(trainer={"numNodes": 2}), made_of)["PodGroup"]["spec"]
    assert (group["minMember"], group["minResources"]["cpu"]) == (7, "12")


def test_less_than_one_slot_is_refused() -> None:
    (problem,) = violations(train_job(trainer={"numProcPerNode": 0}), plain())
    assert problem.endswith("must be greater than or equal to 1")


def test_objects_come_in_the_order_in_which_they_are_needed() -> None:
    made_of = runtime(replicated("launcher"), trainer(), policy=mpi(), gang={"coscheduling": {}})
    kinds = [each.obj.kind for each in components(train_job(), made_of)]
    assert kinds == ["Secret", "ConfigMap", "PodGroup", "JobSet"]


def test_the_secret_is_made_once() -> None:
    (first, *_) = components(train_job(), plain())
    assert first.is_created_once
    assert isinstance(first.obj, Secret)
    secret = first.obj
    assert (secret.metadata.name, secret.type, secret.immutable) == (
        "job-mpi-ssh-auth",
        "kubernetes.io/ssh-auth",
        True,
    )
    present = Present(secret=secret)
    assert "Secret" not in render(train_job(), plain(), present)


def test_the_secret_goes_with_its_train_job() -> None:
    (first, *_) = components(train_job(), plain())
    (owner,) = first.obj.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("TrainJob", "job", "uid-1", True)


def test_it_is_noted_which_key_the_pods_mount_until_they_run() -> None:
    made = rendering(train_job(), plain())
    (first, *_) = made.components
    assert isinstance(first.obj, Secret)
    digest = hashlib.sha256(first.obj.data[names.SSH_PUBLIC_KEY]).hexdigest()
    assert made.record[names.KEY_DIGEST] == digest == key_digest(first.obj)
    jobset = rendered_jobset(train_job(), plain())
    assert not jobset.metadata.annotations
    running = Present(jobset=jobset, secret=ssh_secret(train_job()), record=made.record)
    assert rendering(train_job(), plain(), running).record == made.record


def test_the_hostfile_of_a_running_job_has_its_slots_where_nobody_noted_them() -> None:
    job = train_job(trainer={"numProcPerNode": 3})
    jobset = rendered_jobset(job, plain())
    made = render(train_job(), plain(), Present(jobset=jobset, secret=ssh_secret(job)))
    assert made["ConfigMap"]["data"]["hostfile"] == "job-node-0-0.job slots=3\n"


def test_keys_are_a_pair_in_the_forms_that_ssh_reads() -> None:
    keys = ssh_secret(train_job()).data
    private = serialization.load_pem_private_key(keys["ssh-privatekey"], None)
    line = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    assert keys["ssh-privatekey"].startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert keys["ssh-publickey"] == line + b"\n"
    assert keys["ssh-publickey"].startswith(b"ecdsa-sha2-nistp521 ")
    assert ssh_secret(train_job()).data != keys


def test_mounts_and_variables() -> None:
    jobset = render(train_job(trainer={"numProcPerNode": 8}), plain())["JobSet"]
    for name in ("launcher", "node"):
        volumes = {each["name"]: each for each in pod_of(jobset, name)["volumes"]}
        items = volumes["mpi-ssh-auth"]["secret"]["items"]
        assert [(each["key"], each["path"]) for each in items] == [
            ("ssh-privatekey", "id_rsa"),
            ("ssh-publickey", "id_rsa.pub"),
            ("ssh-publickey", "authorized_keys"),
        ]
        assert volumes["mpi-ssh-auth"]["secret"]["secretName"] == "job-mpi-ssh-auth"
        assert ("mpi-hostfile" in volumes) is (name == "launcher")
        assert {"name": "mpi-ssh-auth", "mountPath": "/root/.ssh"} in container_of(jobset, name)[
            "volumeMounts"
        ]
    assert env_of(jobset, "launcher") == {
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": "8",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }
    assert env_of(jobset) == {}


def test_the_hostfile_of_nodes() -> None:
    assert hostfile(train_job(trainer={"numNodes": 2, "numProcPerNode": 8}), plain()) == (
        "job-node-0-0.job slots=8\njob-node-0-1.job slots=8\n"
    )


def test_the_hostfile_of_a_launcher_that_trains() -> None:
    assert hostfile(train_job(trainer={"numNodes": 3}), deepspeed()) == (
        "job-launcher-0-0.job slots=1\njob-node-0-0.job slots=1\njob-node-0-1.job slots=1\n"
    )


def test_one_node_with_a_launcher_that_trains_still_has_a_node() -> None:
    jobset = render(train_job(trainer={"numNodes": 1}), deepspeed())["JobSet"]
    assert job_of(jobset)["template"]["spec"]["parallelism"] == 1


def test_nodes_of_the_runtime_size_what_the_trainer_configures() -> None:
    launcher = replicated("launcher", ancestor="trainer")
    made_of = runtime(launcher, replicated("node"), policy={"numNodes": 2, **mpi(runLauncherAsNode=True)})
    jobset = render(train_job(), made_of)["JobSet"]
    sizes = [job_of(jobset, name)["template"]["spec"]["parallelism"] for name in ("launcher", "node")]
    assert sizes == [2, 1]


@pytest.mark.parametrize(
    ("runtime_value", "said", "gpus", "slots"),
    [(1, None, 0, 1), (1, None, 1, 1), (1, None, 8, 8), (4, None, 8, 4), (4, 2, 8, 2), (None, None, 8, 8)],
)
def test_slots(runtime_value: int | None, said: int | None, gpus: int, slots: int) -> None:
    made_of = plain(**({} if runtime_value is None else {"numProcPerNode": runtime_value}))
    spec: Json = {"resourcesPerNode": {"requests": {"example.com/gpu": str(gpus)}}}
    job = train_job(trainer={**spec, **({} if said is None else {"numProcPerNode": said})})
    assert hostfile(job, made_of) == f"job-node-0-0.job slots={slots}\n"


def test_nodes_are_configured_like_a_launcher_that_trains() -> None:
    spec = {
        "command": ["mpirun", "x"],
        "env": [{"name": "A", "value": "1"}],
        "resourcesPerNode": {"requests": {"cpu": "2"}},
    }
    jobset = render(train_job(trainer=spec), deepspeed())["JobSet"]
    assert container_of(jobset, "launcher")["command"] == ["mpirun", "x"]
    assert "command" not in container_of(jobset)
    assert env_of(jobset)["A"] == env_of(jobset, "launcher")["A"] == "1"
    assert container_of(jobset)["resources"] == {"requests": {"cpu": "2"}}


def test_reserved_variables_of_a_job_do_not_reach_the_launcher() -> None:
    env = [{"name": "OMPI_MCA_orte_default_hostfile", "value": "/evil"}]
    jobset = render(train_job(trainer={"env": env}), deepspeed())["JobSet"]
    assert env_of(jobset, "launcher")["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    assert env_of(jobset) == {}


@pytest.mark.parametrize("name", ["IntelMPI", ""])
def test_another_implementation_is_an_error(name: str) -> None:
    made_of = runtime(replicated("launcher"), trainer(), policy={"mpi": {"mpiImplementation": name}})
    with pytest.raises(ReconcileError, match=f"MPI implementation for {name} doesn't supported"):
        render(train_job(), made_of)


def test_processes_must_be_a_number() -> None:
    assert violations(train_job(trainer={"numProcPerNode": "auto"}), plain()) == [
        'spec.trainer.numProcPerNode: Invalid value: "auto": must have an int value for MPI TrainJob'
    ]


@pytest.mark.parametrize("missing", ["launcher", "node"])
def test_a_launcher_that_trains_needs_both_jobs_for_several_nodes(missing: str) -> None:
    jobs = [replicated(name, ancestor="trainer") for name in ("launcher", "node") if name != missing]
    made_of = runtime(*jobs, policy=mpi(runLauncherAsNode=True))
    assert violations(train_job(trainer={"numNodes": 1}), made_of) == []
    (text,) = violations(train_job(trainer={"numNodes": 2}), made_of)
    assert text == (
        "spec.trainer.numNodes: Invalid value: 2: must have 1 when MPI trainingRuntime with enabled "
        "runLauncherAsNode does not have either launcher and node"
    )
    alone = runtime(*jobs, policy=mpi(runLauncherAsNode=False))
    assert violations(train_job(trainer={"numNodes": 4}), alone) == []


def test_reserved_variables_are_refused() -> None:
    env = [{"name": name, "value": "1"} for name in reversed(names.MPI_RESERVED)]
    (text,) = violations(train_job(trainer={"env": env}), plain())
    assert text.endswith(f"must not have reserved envs: [{' '.join(sorted(names.MPI_RESERVED))}]")


def test_jax() -> None:
    jobset = render(train_job(trainer={"numNodes": 3}), runtime(policy={"jax": {}}))["JobSet"]
    assert env_of(jobset) == {
        "JAX_NUM_PROCESSES": "3",
        "JAX_PROCESS_ID": RANK,
        "JAX_COORDINATOR_ADDRESS": "job-node-0-0.job:29500",
    }
    assert container_of(jobset)["ports"] == [{"containerPort": 29500}]


@pytest.mark.parametrize(("gpus", "workers"), [(0, "2"), (4, "8")])
def test_xgboost(gpus: int, workers: str) -> None:
    spec = {"numNodes": 2, "resourcesPerNode": {"limits": {"example.com/gpu": str(gpus)}}}
    jobset = render(train_job(trainer=spec), runtime(policy={"xgboost": {}}))["JobSet"]
    assert env_of(jobset) == {
        "DMLC_TRACKER_URI": "job-node-0-0.job",
        "DMLC_TRACKER_PORT": "29500",
        "DMLC_TASK_ID": RANK,
        "DMLC_NUM_WORKER": workers,
    }


def test_xgboost_refuses_its_variables_one_by_one() -> None:
    env = [{"name": name, "value": "1"} for name in ("X", "DMLC_TASK_ID", "DMLC_NUM_WORKER")]
    assert violations(train_job(trainer={"env": env}), runtime(policy={"xgboost": {}})) == [
        "spec.trainer.env[1]: Forbidden: DMLC_TASK_ID is reserved for the XGBoost runtime",
        "spec.trainer.env[2]: Forbidden: DMLC_NUM_WORKER is reserved for the XGBoost runtime",
    ]


def test_plain_training_has_nodes_and_the_variables_of_its_job() -> None:
    job = train_job(trainer={"numNodes": 5, "env": [{"name": "A", "value": "1"}]})
    jobset = render(job, runtime())["JobSet"]
    assert rendering(job, runtime()).record == {}
    assert env_of(jobset) == {"A": "1"}
    assert job_of(jobset)["template"]["spec"]["parallelism"] == 5
