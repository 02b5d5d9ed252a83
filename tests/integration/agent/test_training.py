"""What the operators make, running for real: a training job that adds up, roles that start in order."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .nodekit import KUBECTL, LocalCluster, local_cluster

EXAMPLES = Path(__file__).parents[3] / "examples" / "local-node"
PATIENCE = 120.0
SDK_PYTHON = os.environ.get("QUARTERDECK_SDK_PYTHON", sys.executable)
"""An interpreter that has the Kubeflow SDK and jax, for the test that needs them."""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    if KUBECTL is None:
        pytest.skip("there is no kubectl on PATH")
    arguments = ("--operators", "trainer,grove,kai")
    path = f"{os.path.dirname(SDK_PYTHON)}:/usr/local/bin:/usr/bin:/bin"
    rule = {"pattern": "docker.io/library/python:*", "environment": {"PATH": path, "JAX_PLATFORMS": "cpu"}}
    config = {"node": {"images": [rule]}}
    folder = tmp_path_factory.mktemp("workshop")
    with local_cluster(folder, arguments=arguments, config=config) as running:
        yield running


def eventually(cluster: LocalCluster, look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, (
            cluster.kubectl("get", "pods", "-A", "-o", "wide") + cluster.log()[-2000:]
        )
        time.sleep(0.5)
    return found


def pods(cluster: LocalCluster, *selector: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.kubectl("get", "pods", "-o", "json", *selector))["items"]
    return found


def outcome(cluster: LocalCluster, name: str) -> set[str]:
    """How a TrainJob ended."""

    def ended() -> set[str]:
        job = json.loads(cluster.kubectl("get", "trainjob", name, "-o", "json"))
        conditions = (job.get("status") or {}).get("conditions") or ()
        return {each["type"] for each in conditions if each["status"] == "True"} & {"Complete", "Failed"}

    found: set[str] = eventually(cluster, ended)
    return found


def test_two_processes_of_a_train_job_find_each_other_and_add_up(workshop: LocalCluster) -> None:
    workshop.kubectl("apply", "-f", str(EXAMPLES))

    assert outcome(workshop, "sum") == {"Complete"}
    restarts = [each["restartCount"] for pod in pods(workshop) for each in pod["status"]["containerStatuses"]]
    assert restarts == [0, 0], "a container started before the names of its set were there"
    label = "-l", "jobset.sigs.k8s.io/jobset-name=sum"
    lines = sorted(workshop.kubectl("logs", *label).splitlines())
    assert lines == [
        "sum-node-0-0: process 0 of 2, sum [3.0, 3.0, 3.0, 3.0]",
        "sum-node-0-1: process 1 of 2, sum [3.0, 3.0, 3.0, 3.0]",
    ]
    workshop.kubectl("delete", "trainjob", "sum", "--timeout=60s")


def test_the_kubeflow_sdk_trains_a_function_on_two_nodes(workshop: LocalCluster) -> None:
    found = subprocess.run([SDK_PYTHON, "-c", "import kubeflow.trainer, jax"], capture_output=True)
    if found.returncode != 0:
        pytest.skip(f"{SDK_PYTHON} has no kubeflow and jax; QUARTERDECK_SDK_PYTHON names one that has")
    workshop.kubectl("apply", "-f", str(EXAMPLES / "1-runtime.yaml"))
    environment = {**os.environ, "KUBECONFIG": str(workshop.kubeconfig)}
    done = subprocess.run(
        [SDK_PYTHON, str(EXAMPLES / "train.py")], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "Complete" in done.stdout
    for rank in range(2):
        assert f"process {rank} of 2: sum [3.0, 3.0, 3.0, 3.0]" in done.stdout


FAILING = """
from kubeflow.trainer import CustomTrainer, TrainerClient

def fail():
    raise SystemExit(23)

client = TrainerClient()
name = client.train(runtime="once", trainer=CustomTrainer(func=fail, num_nodes=1))
try:
    client.wait_for_job_status(name, status={"Failed"}, polling_interval=1, timeout=120)
except RuntimeError as error:  # it tells of the failure so
    print(error)
print(name, client.get_job(name).status)
"""


def test_a_function_that_fails_makes_the_train_job_fail_with_its_code(workshop: LocalCluster) -> None:
    if subprocess.run([SDK_PYTHON, "-c", "import kubeflow.trainer"], capture_output=True).returncode != 0:
        pytest.skip(f"{SDK_PYTHON} has no kubeflow; QUARTERDECK_SDK_PYTHON names one that has")
    runtime = yaml.safe_load((EXAMPLES / "1-runtime.yaml").read_text())
    runtime["metadata"]["name"] = "once"
    job = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    job["backoffLimit"] = 0
    job["template"]["spec"]["restartPolicy"] = "Never"  # a pod that would be restarted goes with its Job
    workshop.kubectl("apply", "-f", "-", input=yaml.safe_dump(runtime))
    program = workshop.folder / "failing.py"  # a function's source must be in a file
    program.write_text(FAILING)
    environment = {**os.environ, "KUBECONFIG": str(workshop.kubeconfig)}
    done = subprocess.run(
        [SDK_PYTHON, str(program)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    name, state = done.stdout.splitlines()[-1].split()
    assert state == "Failed"
    found = pods(workshop, "-l", f"jobset.sigs.k8s.io/jobset-name={name}")
    ends = [each["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for each in found]
    assert ends
    assert set(ends) == {23}
    workshop.kubectl("delete", "trainjob", name, "--timeout=60s")


def clique(name: str, replicas: int, script: str, **more: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "example.com/role:1",
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": "10m"}},
        **more.pop("container", {}),
    }
    pod_spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    spec = {"roleName": name, "replicas": replicas, "minAvailable": replicas, "podSpec": pod_spec, **more}
    return {"name": name, "spec": spec}


def test_roles_of_a_gang_start_in_the_order_they_say(workshop: LocalCluster) -> None:
    probe = {"readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1}}
    leader = clique("leader", 1, "sleep 1; touch /tmp/up; date +%s.%N; sleep 1000", container=probe)
    worker = clique("worker", 2, "date +%s.%N; sleep 1000", startsAfter=["leader"])
    template = {"cliqueStartupType": "CliqueStartupTypeExplicit", "cliques": [leader, worker]}
    document = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "ordered", "namespace": "default"},
        "spec": {"replicas": 1, "template": template},
    }
    workshop.kubectl("apply", "-f", "-", input=yaml.safe_dump(document))
    label = "-l", "app.kubernetes.io/part-of=ordered"

    def ready() -> list[str]:
        names = []
        for pod in pods(workshop, *label):
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
            if conditions.get("Ready") == "True":
                names.append(pod["metadata"]["name"])
        return names if len(names) == 3 else []

    names = eventually(workshop, ready)
    times = {name: float(workshop.kubectl("logs", name, "-c", "main")) for name in names}
    leaders = [time for name, time in times.items() if "-leader-" in name]
    workers = [time for name, time in times.items() if "-worker-" in name]
    assert max(leaders) < min(workers)
    workshop.kubectl("delete", "podcliqueset", "ordered", "--timeout=60s")


MPI_PROGRAMS = ("mpirun", "ssh", "sshd")


@pytest.mark.skipif(
    not all(shutil.which(each, path="/usr/sbin:/usr/bin") for each in MPI_PROGRAMS),
    reason=f"not all of {', '.join(MPI_PROGRAMS)} are installed (openmpi-bin, openssh-server)",
)
def test_mpirun_reaches_the_nodes_of_a_train_job_by_ssh(workshop: LocalCluster) -> None:
    workshop.kubectl("apply", "-f", str(EXAMPLES / "mpi"))
    assert outcome(workshop, "mpi-sum") == {"Complete"}
    log = workshop.kubectl("logs", "-l", "job-name=mpi-sum-launcher-0", "--tail=-1").splitlines()
    assert sorted(line for line in log if "rank" in line) == [
        f"mpi-sum-node-0-{rank // 2}: rank {rank} of 4, sum 6.0" for rank in range(4)
    ]
    workshop.kubectl("delete", "trainjob", "mpi-sum", "--timeout=60s")


def test_top_shows_what_processes_use(workshop: LocalCluster) -> None:
    program = "import time; x = bytearray(64 << 20); time.sleep(1000)"
    workshop.kubectl(
        *("run", "large", "--image=none", "--restart=Never", "--command", "--", "python3", "-c", program)
    )

    def measured() -> str:
        done = workshop.run("top", "pod", "large", "--no-headers")
        words = done.stdout.split()
        return words[2] if done.returncode == 0 and len(words) == 3 and words[2] != "0Mi" else ""

    amount = eventually(workshop, measured)
    assert 64 <= int(amount.removesuffix("Mi")) < 200
    name, _, _, memory, _ = workshop.kubectl("top", "nodes", "--no-headers").split()
    assert name == "box"
    assert int(memory.removesuffix("Mi")) > int(amount.removesuffix("Mi"))  # a machine is more than its pods
    workshop.kubectl("delete", "pod", "large", "--grace-period=1")
