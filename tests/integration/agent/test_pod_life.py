"""Pods that run on this machine, from their start to their end, as kubectl sees them."""

from __future__ import annotations

import socket
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest

from .nodekit import Json, Space

READY = "Ready"


def condition(pod: dict, name: str) -> str:  # type: ignore[type-arg]
    found = (each["status"] for each in pod["status"].get("conditions", ()) if each["type"] == name)
    return next(found, "")


def state(pod: dict, place: int = 0, kind: str = "containerStatuses") -> dict:  # type: ignore[type-arg]
    found = pod["status"].get(kind)
    return found[place]["state"] if found else {}


def test_a_pod_that_ends_well_has_succeeded(space: Space) -> None:
    space.pod("done", "echo hello; echo oops >&2")
    pod = space.phase("done", "Succeeded")
    assert state(pod)["terminated"]["exitCode"] == 0
    assert state(pod)["terminated"]["reason"] == "Completed"
    assert sorted(space.logs("done").splitlines()) == ["hello", "oops"]
    assert pod["status"]["podIP"].startswith("127.")
    reasons = [reason for reason, _ in space.events("done")]
    assert {"Pulled", "Created", "Started"} <= set(reasons)


def test_a_pod_that_fails_says_how(space: Space) -> None:
    path = Path("/dev/last-words-of-a-test")
    script = f"echo -n because > {path}; echo > /dev/null; exit 3"
    space.pod("fails", script, container={"terminationMessagePath": str(path)})
    pod = space.phase("fails", "Failed")
    ended = state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "because")
    assert not path.exists()  # the machine's own folders stay as they are


def test_the_end_of_the_log_stands_in_for_last_words(space: Space) -> None:
    space.pod(
        "talks", "echo one; echo two; exit 1", container={"terminationMessagePolicy": "FallbackToLogsOnError"}
    )
    assert state(space.phase("talks", "Failed"))["terminated"]["message"] == "one\ntwo\n"


def test_init_containers_run_in_order_before_the_others(space: Space) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    init = [
        {
            "name": f"init-{number}",
            "image": "none",
            "command": ["sh", "-c", f"echo {number} >> /shared/order"],
            "volumeMounts": mounts,
        }
        for number in range(3)
    ]
    space.pod(
        "ordered",
        "cat /shared/order",
        initContainers=init,
        volumes=[{"name": "shared", "emptyDir": {}}],
        container={"volumeMounts": mounts},
    )
    pod = space.phase("ordered", "Succeeded")
    assert space.logs("ordered", "-c", "main").split() == ["0", "1", "2"]
    assert [each["ready"] for each in pod["status"]["initContainerStatuses"]] == [True] * 3


def test_a_failed_init_container_fails_the_pod(space: Space) -> None:
    init = [{"name": "first", "image": "none", "command": ["false"]}]
    space.pod("stuck", "echo never", initContainers=init)
    pod = space.phase("stuck", "Failed")
    assert "running" not in state(pod)
    assert state(pod)["waiting"]["reason"] == "PodInitializing"
    assert condition(pod, "Initialized") == "False"


def test_sidecars_run_beside_and_end_with_the_pod(space: Space) -> None:
    sidecar = {
        "name": "side",
        "image": "none",
        "restartPolicy": "Always",
        "command": ["sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"],
    }
    space.pod("pair", "sleep 1; echo main", initContainers=[sidecar])
    pod = space.phase("pair", "Succeeded")
    assert "terminated" in state(pod, kind="initContainerStatuses")
    words = space.logs("pair", "-c", "side").split()
    assert (words[0], words[-1]) == ("up", "bye")  # its shell may say what became of the sleep


def test_a_failing_container_is_restarted_and_backs_off(space: Space) -> None:
    space.pod("crash", "echo try; exit 1", policy="Always")
    pod = space.until("crash", lambda pod: state(pod).get("waiting", {}).get("reason") == "CrashLoopBackOff")
    status = pod["status"]["containerStatuses"][0]
    assert status["restartCount"] >= 1
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert "back-off 10s restarting failed container=main" in state(pod)["waiting"]["message"]
    assert space.logs("crash", "--previous").strip() == "try"
    assert any(reason == "BackOff" for reason, _ in space.events("crash"))


def test_on_failure_restarts_until_it_works(space: Space) -> None:
    script = "test -e /shared/seen && exit 0; touch /shared/seen; exit 7"
    space.pod(
        "again",
        script,
        policy="OnFailure",
        volumes=[{"name": "shared", "emptyDir": {}}],
        container={"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]},
    )
    pod = space.phase("again", "Succeeded")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


def test_restart_rules_go_before_the_policy(space: Space) -> None:
    script = "test -e /shared/seen && exit 0; touch /shared/seen; exit 42"
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    space.pod(
        "rules",
        script,
        volumes=[{"name": "shared", "emptyDir": {}}],
        container={
            "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
            "restartPolicy": "Never",
            "restartPolicyRules": rules,
        },
    )
    assert space.phase("rules", "Succeeded")["status"]["containerStatuses"][0]["restartCount"] == 1


def test_a_rule_begins_the_whole_pod_again(space: Space) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
    init = {
        "name": "first",
        "image": "none",
        "command": ["sh", "-c", "echo init >> /shared/order"],
        "volumeMounts": mounts,
    }
    script = (
        "while ! grep -q other /shared/order; do sleep 0.1; done;"
        "test -e /shared/seen && sleep 60; touch /shared/seen; exit 42"
    )
    bystander = {**init, "name": "other", "command": ["sh", "-c", "echo other >> /shared/order; sleep 60"]}
    main = {
        **init,
        "name": "main",
        "restartPolicy": "Never",
        "restartPolicyRules": rules,
        "command": ["sh", "-c", script],
    }
    space.pod(
        "round",
        initContainers=[init],
        containers=[main, bystander],
        volumes=[{"name": "shared", "emptyDir": {}}],
        terminationGracePeriodSeconds=1,
    )

    def has_begun_again(pod: Json) -> bool:
        statuses = [*pod["status"].get("initContainerStatuses", ()), *pod["status"]["containerStatuses"]]
        return [each["restartCount"] for each in statuses] == [1, 1, 1] and condition(pod, READY) == "True"

    space.until("round", lambda pod: "containerStatuses" in pod["status"])
    pod = space.until("round", has_begun_again)
    assert condition(pod, "AllContainersRestarting") == "False"
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 42
    order = space.kubectl("exec", "round", "-c", "main", "--", "cat", "/shared/order").split()
    assert order[:3] == ["init", "other", "init"]


def test_a_pod_past_its_deadline_fails(space: Space) -> None:
    space.pod("late", "sleep 60", activeDeadlineSeconds=2)
    pod = space.phase("late", "Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded"


def test_deletion_asks_first_and_kills_after_the_grace(space: Space) -> None:
    space.pod(
        "polite",
        "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.1; done",
        terminationGracePeriodSeconds=30,
    )
    space.until("polite", lambda pod: condition(pod, READY) == "True")
    space.kubectl("delete", "pod", "polite", "--timeout=20s")
    space.pod("stubborn", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    space.until("stubborn", lambda pod: condition(pod, READY) == "True")
    space.kubectl("delete", "pod", "stubborn", "--grace-period=1", "--timeout=20s")
    assert space.kubectl("get", "pods", "-o", "name") == ""


def test_a_pod_that_a_finalizer_keeps_stays_as_it_ended(space: Space) -> None:
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    container = {"name": "main", "image": "none", "command": ["sleep", "60"]}
    metadata = {"name": "kept", "finalizers": ["example.com/keep"]}
    space.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "containers": [container]}}
    )
    space.until("kept", lambda pod: condition(pod, READY) == "True")
    space.kubectl("delete", "pod", "kept", "--wait=false")
    ended = space.until("kept", lambda pod: pod["metadata"].get("deletionGracePeriodSeconds") == 0)
    assert ended["status"]["phase"] == "Failed"
    assert state(ended)["terminated"]["exitCode"] == 143
    # The agent has forgotten the pod, and hears of it again; a second pod tells when it has.
    space.kubectl("label", "pod", "kept", "seen=again")
    space.pod("after", "true")
    space.phase("after", "Succeeded")
    assert space.get("kept")["status"] == ended["status"]
    assert f'"namespace":"{space.name}","name":"kept"' not in space.cluster.log()
    space.kubectl("patch", "pod", "kept", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def test_hooks_run_after_the_start_and_before_the_end(space: Space) -> None:
    lifecycle = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo post >> /shared/hooks"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo pre >> /shared/hooks"]}},
    }
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    reader = {
        "name": "reader",
        "image": "none",
        "command": ["sh", "-c", "trap 'sleep 1; cat /shared/hooks; exit' TERM; while :; do sleep 0.1; done"],
        "volumeMounts": mounts,
    }
    main = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", "while :; do sleep 0.1; done"],
        "lifecycle": lifecycle,
        "volumeMounts": mounts,
    }
    space.pod("hooked", containers=[main, reader], volumes=[{"name": "shared", "emptyDir": {}}])
    space.until("hooked", lambda pod: condition(pod, READY) == "True")
    following = space.cluster.folder / "hooked.log"
    import subprocess

    from .nodekit import KUBECTL

    with following.open("wb") as out:
        follow = subprocess.Popen(
            [
                str(KUBECTL),
                "logs",
                "-f",
                "hooked",
                "-c",
                "reader",
                "-n",
                space.name,
                "--kubeconfig",
                str(space.cluster.kubeconfig),
            ],
            stdout=out,
        )
        space.kubectl("delete", "pod", "hooked", "--timeout=30s")
        follow.wait(20)
    assert following.read_text().split()[-2:] == ["post", "pre"]  # its shell may have said more


def test_a_program_that_is_not_there_is_told(space: Space) -> None:
    space.pod("missing", container={"command": ["/no/such/program"]})
    pod = space.phase("missing", "Failed")
    ended = state(pod)["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("ContainerCannotRun", 127)
    assert ended["message"] == 'exec: "/no/such/program": executable file not found in $PATH'
    notes = [(reason, note) for reason, note in space.events("missing") if reason != "Scheduled"]
    assert sorted(notes)[:2] == [("Created", "Container created"), ("Failed", f"Error: {ended['message']}")]
    assert len(notes) == 3  # and Pulled: nothing twice


def test_an_image_that_cannot_be_waits_with_a_reason(space: Space) -> None:
    space.pod("misspelt", "true", container={"image": "Busybox"})
    pod = space.until("misspelt", lambda pod: "waiting" in state(pod) and "message" in state(pod)["waiting"])
    assert state(pod)["waiting"]["reason"] == "InvalidImageName"
    assert state(pod)["waiting"]["message"].endswith("repository name (library/Busybox) must be lowercase")


def test_an_image_without_a_command_waits_with_a_reason(space: Space) -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/unknown:1"}]}
    space.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "unknown"}, "spec": spec})
    pod = space.until(
        "unknown", lambda pod: state(pod).get("waiting", {}).get("reason") == "ErrImageNeverPull"
    )
    assert "give the container a command" in state(pod)["waiting"]["message"]
    refused = space.run("logs", "unknown")
    assert "is waiting to start: image can't be pulled" in refused.stderr


def test_a_rule_says_what_an_image_means(space: Space) -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/known:1"}]}
    space.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "known"}, "spec": spec})
    space.phase("known", "Succeeded")
    assert space.logs("known") == "by default\n"


def test_probes_decide_about_readiness_and_restarts(space: Space) -> None:
    readiness = {"exec": {"command": ["test", "-e", "/tmp/$(FLAG)"]}, "periodSeconds": 1}
    liveness = {
        "exec": {"command": ["test", "!", "-e", "/tmp/dead"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    space.pod(
        "probed",
        "while :; do sleep 0.1; done",
        policy="Always",
        container={
            "readinessProbe": readiness,
            "livenessProbe": liveness,
            "env": [{"name": "FLAG", "value": "ready"}],
        },
        terminationGracePeriodSeconds=1,
    )
    space.until("probed", lambda pod: "running" in state(pod))
    assert condition(space.get("probed"), READY) == "False"
    space.kubectl("exec", "probed", "--", "touch", "/tmp/ready")
    space.until("probed", lambda pod: condition(pod, READY) == "True")
    space.kubectl("exec", "probed", "--", "touch", "/tmp/dead")
    space.until("probed", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1)
    notes = dict(space.events("probed"))
    assert "probe failed" in notes["Unhealthy"]
    assert notes["Killing"] == "Container main failed liveness probe, will be restarted"


def test_probes_and_host_ports_reach_the_pods_own_address(space: Space) -> None:
    probes = {
        "startupProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 1, "failureThreshold": 60},
        "readinessProbe": {"httpGet": {"path": "/", "port": 18231}, "periodSeconds": 1},
        "ports": [{"name": "web", "containerPort": 18231, "hostPort": 18233}],
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    }
    space.pod("served", 'cd / && exec python3 -m http.server --bind "$IP" 18231', container=probes)
    space.until("served", lambda pod: condition(pod, READY) == "True")
    with urllib.request.urlopen("http://127.0.0.1:18233/etc/hostname", timeout=30) as answer:
        assert answer.read() == b"served\n"
    space.kubectl("delete", "pod", "served")
    with socket.socket() as gone:
        assert gone.connect_ex(("127.0.0.1", 18233)) != 0


HEALTH_SERVER = """
import os
from concurrent import futures
import grpc

def check(request, context):  # a message of one field: the service's name
    if request[2:] != b"trainer":
        context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
    return b"\\x08" + (b"\\x01" if os.path.exists("/tmp/serving") else b"\\x02")

server = grpc.server(futures.ThreadPoolExecutor(1))
methods = {"Check": grpc.unary_unary_rpc_method_handler(check)}
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", methods),))
server.add_insecure_port(os.environ["IP"] + ":18232")
server.start()
server.wait_for_termination()
"""


@pytest.mark.skipif(find_spec("grpc") is None, reason="grpcio, a real gRPC server, is not installed")
def test_grpc_probes_ask_for_a_service(space: Space) -> None:
    def probe(service: str) -> Json:
        return {"grpc": {"port": 18232, "service": service}, "periodSeconds": 1, "timeoutSeconds": 10}

    container = {
        "command": ["python3", "-c", HEALTH_SERVER],
        "startupProbe": {"tcpSocket": {"port": 18232}, "periodSeconds": 1, "failureThreshold": 60},
        "readinessProbe": probe("trainer"),
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    }
    space.pod("healthy", container=container)
    space.until("healthy", lambda _: "NOT_SERVING" in dict(space.events("healthy")).get("Unhealthy", ""))
    assert condition(space.get("healthy"), READY) == "False"
    space.kubectl("exec", "healthy", "--", "touch", "/tmp/serving")
    space.until("healthy", lambda pod: condition(pod, READY) == "True")
