"""`quarterdeck up`, `demo` and `manifests` as processes, the way a user starts them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.api.manifest import load_documents
from tests.harness.wire import Connection, load_kubeconfig

COMMAND = [sys.executable, "-m", "quarterdeck.cli"]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    kubeconfig = tmp_path_factory.mktemp("up") / "kubeconfig"
    command = [*COMMAND, "up", "--port", "0", "--kubeconfig", str(kubeconfig), "--nodes", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("ready: https://127.0.0.1:"), line
    yield process, kubeconfig
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.splitlines()[-1] == "stopped"


@pytest.fixture
def connection(cluster: tuple[subprocess.Popen[str], Path]) -> Iterator[Connection]:
    connection = load_kubeconfig(cluster[1]).connect(timeout=60.0)
    yield connection
    connection.close()


def test_up_serves_the_definitions_of_every_operator_and_its_metrics(connection: Connection) -> None:
    ready = connection.request("GET", "/readyz?verbose")
    assert ready.status == 200
    assert b"[+]operators ok" in ready.body
    groups = json.loads(connection.request("GET", "/apis").body)["groups"]
    assert "deckhouse.io" in {group["name"] for group in groups}
    metrics = connection.request("GET", "/metrics").body.decode()
    assert 'controller_runtime_reconcile_total{controller="nodegroup-status"' in metrics
    assert 'apiserver_storage_objects{resource="nodegroups.deckhouse.io"} ' in metrics
    # a family may be described once only
    types = [line for line in metrics.splitlines() if line.startswith("# TYPE ")]
    assert len(types) == len(set(types))


def test_check_finds_nothing_broken_on_a_new_cluster(cluster: tuple[subprocess.Popen[str], Path]) -> None:
    done = subprocess.run(
        [*COMMAND, "check", "--kubeconfig", str(cluster[1])], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(r"[1-9]\d* hold, 0 broken\n", done.stderr)


def test_namespaces_get_what_every_namespace_has(connection: Connection) -> None:
    body = json.dumps({"metadata": {"name": "team-a"}}).encode()
    headers = {"Content-Type": "application/json"}
    assert connection.request("POST", "/api/v1/namespaces", body=body, headers=headers).status == 201
    root = "/api/v1/namespaces/team-a"
    deadline = time.monotonic() + 60
    wanted = (f"{root}/serviceaccounts/default", f"{root}/configmaps/kube-root-ca.crt")
    while not all(connection.request("GET", path).status == 200 for path in wanted):
        assert time.monotonic() < deadline, wanted
        time.sleep(0.05)


def test_a_jobset_runs_on_simulated_nodes(connection: Connection) -> None:
    nodes = json.loads(connection.request("GET", "/api/v1/nodes").body)["items"]
    assert {"node-0", "node-1"} <= {each["metadata"]["name"] for each in nodes}
    pod = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
    part = {"name": "w", "replicas": 2, "template": {"spec": {"template": pod}}}
    document = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js"},
        "spec": {"replicatedJobs": [part]},
    }
    root = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
    headers = {"Content-Type": "application/json"}
    made = connection.request("POST", root, body=json.dumps(document).encode(), headers=headers)
    assert made.status == 201, made.body
    assert json.loads(made.body)["spec"]["successPolicy"] == {"operator": "All"}
    deadline = time.monotonic() + 60
    while (
        json.loads(connection.request("GET", f"{root}/js").body).get("status", {}).get("terminalState")
        != "Completed"
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_second_signal_is_not_needed_during_the_start() -> None:
    process = subprocess.Popen(
        [*COMMAND, "up", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(1.0)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGTERM)  # before Python handles signals, the system does


def test_demo_tells_its_story_and_leaves_nothing(tmp_path: Path) -> None:
    """What `make demo ARGS=--once` runs, with a home and a place for temporary files of its own."""
    temporary = Path(tempfile.mkdtemp(prefix="qd-"))  # tmp_path may be too deep for a socket
    demo = subprocess.Popen(
        [*COMMAND, "demo", "--once", "--kubeconfig", str(tmp_path / "kubeconfig")],
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path / "home"), "TMPDIR": str(temporary)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said, errors = demo.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        os.killpg(demo.pid, signal.SIGKILL)
        raise
    assert (demo.returncode, errors) == (0, "")
    steps = re.findall(r"^(\d)\. .+$", said, re.MULTILINE)
    assert steps == [str(number) for number in range(1, 9)]
    end = said[said.index("8. The zone returns") :].partition("\nready:")[0]
    blocks = re.findall(r"^  h100-zone-\S+ +Bound .* (10\S+)$", end, re.MULTILINE)
    assert sorted(blocks) == ["10.1.0.0/24", "10.1.1.0/24", "10.2.0.0/24", "10.2.1.0/24"]
    assert len(re.findall(r"^  chat-0-model-\S+ +1/1 +Running", end, re.MULTILINE)) >= 2
    assert "refused nodegroup/too-few: admission webhook" in said
    with pytest.raises(ProcessLookupError):  # nobody of its session is left
        os.killpg(demo.pid, 0)
    assert not (tmp_path / "kubeconfig").exists()
    temporary.rmdir()  # refused unless it is empty
    left = [path.name for path in (tmp_path / "home").rglob("*") if not path.is_dir()]
    assert left in ([], [".lock"])  # empty, and taken again by the next start


def test_manifests_are_stable_and_check_names_the_difference(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    first = subprocess.run([*COMMAND, "manifests"], capture_output=True, text=True, check=True).stdout
    kinds = [document["kind"] for document in load_documents(first)]
    for kind in ("Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "Deployment"):
        assert kind in kinds
    file.write_text(first)
    assert subprocess.run([*COMMAND, "manifests", "--check", str(file)]).returncode == 0
    file.write_text(first.replace("replicas: 2", "replicas: 3"))
    changed = subprocess.run([*COMMAND, "manifests", "--check", str(file)], capture_output=True, text=True)
    assert changed.returncode == 1
    assert "-  replicas: 3" in changed.stdout


def test_bad_settings_end_the_command_with_a_text_and_no_traceback(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("operators: {sails: {}}")
    done = subprocess.run(
        [*COMMAND, "up", "--port", "0", "--config", str(config)], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 1
    assert "settings for operators that do not run: sails" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_scheduler_backend_that_does_not_start_ends_the_command_with_one_line(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("operators: {grove: {schedulerConfig: {gangScheduling: true}}}")
    command = [*COMMAND, "up", "--port", "0", "--operators", "grove", "--config", str(config)]
    done = subprocess.run([*command, "--log-level", "CRITICAL"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    said = "quarterdeck: failed to initialize backend: gangScheduling needs Workload"
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["manifests", "grove backends"])
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*COMMAND, *command.split()], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=30
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
