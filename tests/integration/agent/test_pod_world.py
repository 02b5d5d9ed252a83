"""What a container finds: environment, volumes, names, rights."""

from __future__ import annotations

import base64
import os
import time
from pathlib import Path

import pytest

from .nodekit import Space
from .test_pod_life import READY, condition, state


def config(name: str, **data: str) -> dict:  # type: ignore[type-arg]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name: str, **data: str) -> dict:  # type: ignore[type-arg]
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}


def test_the_environment_comes_from_everywhere(space: Space) -> None:
    space.apply(config("settings", COLOUR="red"), secret("keys", PASSWORD="hush"))
    env = [
        {"name": "GREETING", "value": "hello $(COLOUR) $$(COLOUR) $(NOBODY)"},
        {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "PASSWORD"}}},
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "x", "optional": True}}},
    ]
    container = {
        "env": env,
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"prefix": "S_", "secretRef": {"name": "keys"}}],
        "resources": {"limits": {"cpu": "250m"}},
        "args": ["ignored", "$(WHO)"],
    }
    space.pod("env", 'env; echo "argument $1"', container=container)
    space.phase("env", "Succeeded")
    found = space.logs("env").splitlines()
    assert "GREETING=hello red $(COLOUR) $(NOBODY)" in found
    assert {"WHO=env", "WORD=hush", "S_PASSWORD=hush", "CPUS=250", "argument env"} <= set(found)
    assert any(line.startswith("KUBERNETES_SERVICE_HOST=") for line in found)
    assert not any(line.startswith("MAYBE=") for line in found)


def test_a_missing_key_is_named(space: Space) -> None:
    space.apply(config("settings"))
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "lost"}}}]
    space.pod("lost", "true", container={"env": env})
    pod = space.until(
        "lost", lambda pod: "waiting" in state(pod) and state(pod)["waiting"]["reason"] != "ContainerCreating"
    )
    assert state(pod)["waiting"]["reason"] == "CreateContainerConfigError"
    assert state(pod)["waiting"]["message"] == f"couldn't find key lost in ConfigMap {space.name}/settings"
    space.apply(config("settings", lost="found"))
    space.phase("lost", "Succeeded")


def test_volumes_hold_what_the_objects_say(space: Space, tmp_path: Path) -> None:
    (tmp_path / "machine").write_text("from the machine")
    space.apply(config("settings", **{"a.txt": "alpha", "b.txt": "beta"}), secret("keys", key="hush"))
    volumes = [
        {"name": "config", "configMap": {"name": "settings", "items": [{"key": "a.txt", "path": "deep/a"}]}},
        {"name": "secret", "secret": {"secretName": "keys", "defaultMode": 0o400}},
        {
            "name": "downward",
            "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]},
        },
        {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
    ]
    mounts = [{"name": each["name"], "mountPath": f"/mnt/{each['name']}"} for each in volumes]
    mounts += [{"name": "config", "mountPath": "/etc/only", "subPath": "deep/a"}]
    mounts[3]["readOnly"] = True  # type: ignore[assignment]
    script = (
        "cat /mnt/config/deep/a /mnt/secret/key /mnt/downward/name /mnt/host/machine /etc/only; echo;"
        "stat -L -c %a /mnt/secret/key; touch /mnt/host/x || touch /mnt/config/x || echo read-only;"
        "echo y > /mnt/memory/z && cat /mnt/memory/z;"
        "cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo; touch /usr/x || echo safe"
    )
    space.pod("volumes", script, volumes=volumes, container={"volumeMounts": mounts})
    space.phase("volumes", "Succeeded")
    found = [line for line in space.logs("volumes").splitlines() if not line.startswith("touch:")]
    assert found == ["alphahushvolumesfrom the machinealpha", "400", "read-only", "y", space.name, "safe"]


def test_a_volume_that_cannot_be_had_is_told(space: Space) -> None:
    volumes = [{"name": "lost", "configMap": {"name": "nowhere"}}]
    space.pod(
        "unmounted",
        "true",
        volumes=volumes,
        container={"volumeMounts": [{"name": "lost", "mountPath": "/x"}]},
    )
    pod = space.until("unmounted", lambda pod: state(pod))
    assert state(pod)["waiting"]["reason"] == "ContainerCreating"
    for _ in range(100):
        notes = dict(space.events("unmounted"))
        if "FailedMount" in notes:
            break
        time.sleep(0.1)
    assert (
        notes["FailedMount"] == 'MountVolume.SetUp failed for volume "lost" : configmap "nowhere" not found'
    )
    space.apply(config("nowhere", x="anything"))
    space.phase("unmounted", "Succeeded")


def test_the_token_works_from_inside(space: Space) -> None:
    script = """
import json, os, ssl, urllib.request
base = "/var/run/secrets/kubernetes.io/serviceaccount/"
server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
url = server + "/apis/authentication.k8s.io/v1/selfsubjectreviews"
context = ssl.create_default_context(cafile=base + "ca.crt")
body = b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}'
request = urllib.request.Request(url, body, method="POST")
request.add_header("Authorization", "Bearer " + open(base + "token").read())
request.add_header("Content-Type", "application/json")
print(json.load(urllib.request.urlopen(request, context=context))["status"]["userInfo"]["username"])
"""
    space.pod("inside", container={"command": ["python3", "-c", script]})
    space.phase("inside", "Succeeded")
    assert space.logs("inside").strip() == f"system:serviceaccount:{space.name}:default"


def test_pods_find_each_other_by_name(space: Space) -> None:
    headless = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "crew"},
        "spec": {"clusterIP": "None", "selector": {"app": "one"}, "publishNotReadyAddresses": True},
    }
    balanced = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "front"},
        "spec": {"selector": {"app": "one"}, "ports": [{"port": 18300, "targetPort": 18301}]},
    }
    space.apply(headless, balanced)
    server = (
        "import http.server, os\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers(); self.wfile.write(b'here')\n"
        "http.server.HTTPServer((os.environ['IP'], 18301), H).serve_forever()"
    )
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    space.pod(
        "one", hostname="one", subdomain="crew", container={"command": ["python3", "-c", server], "env": env}
    )
    space.until("one", lambda pod: condition(pod, READY) == "True")
    client = (
        "import time, urllib.request\n"
        f"names = ('one.crew.{space.name}.svc.cluster.local:18301', 'one.crew:18301', 'front:18300')\n"
        "for url in ('http://' + name for name in names):\n"
        "    for _ in range(100):\n"
        "        try:\n            print(urllib.request.urlopen(url, timeout=5).read().decode()); break\n"
        "        except OSError as error:\n            last = error; time.sleep(0.1)\n"
        "    else:\n        print(url, last)\n"
    )
    space.pod("two", container={"command": ["python3", "-c", client]})
    space.phase("two", "Succeeded")
    assert space.logs("two").split() == ["here"] * 3


def test_rights_that_are_not_ours_to_give_are_refused_by_name(space: Space) -> None:
    space.pod("mighty", "id", container={"securityContext": {"privileged": True}})
    pod = space.until(
        "mighty", lambda pod: state(pod).get("waiting", {}).get("reason") == "CreateContainerConfigError"
    )
    assert "securityContext.privileged is not possible" in state(pod)["waiting"]["message"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_container_runs_as_the_user_it_names(space: Space) -> None:
    space.pod("somebody", "id -u; id -g", securityContext={"runAsUser": 65534, "runAsGroup": 65534})
    space.phase("somebody", "Succeeded")
    assert space.logs("somebody").split() == ["65534", "65534"]


def test_variables_come_from_files_that_an_init_container_left(space: Space) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    init = {
        "name": "writer",
        "image": "none",
        "command": ["sh", "-c", "echo COLOUR=blue > /shared/vars"],
        "volumeMounts": mounts,
    }
    reference = {"fileKeyRef": {"volumeName": "shared", "path": "vars", "key": "COLOUR"}}
    space.pod(
        "files",
        "echo $COLOUR",
        initContainers=[init],
        container={"env": [{"name": "COLOUR", "valueFrom": reference}]},
        volumes=[{"name": "shared", "emptyDir": {}}],
    )
    space.phase("files", "Succeeded")
    assert space.logs("files") == "blue\n"


def test_no_two_containers_have_the_same_gpu(space: Space) -> None:
    assert space.get("box", "node")["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    script = "echo $NVIDIA_VISIBLE_DEVICES $CUDA_VISIBLE_DEVICES; while [ ! -e /tmp/end ]; do sleep 0.1; done"
    wanted = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    for name in ("one", "two", "three"):
        space.pod(name, script, container=wanted)
    space.pod("none", "echo $NVIDIA_VISIBLE_DEVICES")
    space.phase("none", "Succeeded")
    assert space.logs("none") == "void\n"

    def running() -> list[str]:
        names = ("one", "two", "three")
        return [name for name in names if "running" in state(space.get(name))]

    space.until("one", lambda _: len(running()) == 2)
    first = running()
    space.until("one", lambda _: all(space.logs(name) for name in first))
    assert sorted(space.logs(name) for name in first) == ["0 0\n", "1 1\n"]
    space.kubectl("exec", first[0], "--", "touch", "/tmp/end")
    (last,) = {"one", "two", "three"} - set(first)
    space.until(last, lambda pod: "running" in state(pod))
    space.until(last, lambda _: space.logs(last))
    assert space.logs(last) == space.logs(first[0])
