"""Pods by an OCI runtime: images from files, networks of their own, and nothing left at the end."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.cluster.agent.oci.runtime import missing_parts
from quarterdeck.cluster.image.document import this_platform
from tests.harness.imagekit import layer, oci_layout

from .nodekit import KUBECTL, LocalCluster, Space, local_cluster
from .test_hostile_pods import LIMITED
from .test_pod_life import state

BUSYBOX = "/bin/busybox"
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nguest:x:1000:1001:Guest:/home:/bin/sh\n"
GROUP = b"root:x:0:\nguest:x:1001:\nextra:x:2000:guest\n"


def _why_not() -> str:
    if KUBECTL is None:
        return "there is no kubectl on PATH"
    if why := missing_parts():
        return why
    if not Path(BUSYBOX).exists() or not _is_static(Path(BUSYBOX).read_bytes()):
        return "there is no static /bin/busybox (Debian: busybox-static)"
    return ""


def _is_static(program: bytes) -> bool:
    """Whether a 64-bit ELF file names no loader."""
    start, size, count = struct.unpack_from("<Q", program, 32)[0], *struct.unpack_from("<HH", program, 54)
    return all(struct.unpack_from("<I", program, start + size * each)[0] != 3 for each in range(count))


def _image(folder: Path) -> Path:
    """An image that is nothing but a shell."""
    tools = (
        "sh",
        "cat",
        "id",
        "ls",
        "wget",
        "httpd",
        "sleep",
        "touch",
        "true",
        "hostname",
        "mount",
        "grep",
        "test",
        "echo",
    )
    files: dict[str, Any] = {
        "bin": ("dir", 0),
        "bin/busybox": Path(BUSYBOX).read_bytes(),
        **{f"bin/{tool}": "busybox" for tool in tools},
        "etc": ("dir", 0),
        "etc/passwd": ("file", (PASSWD, 0o644, 0)),
        "etc/group": ("file", (GROUP, 0o644, 0)),
        "etc/hidden": b"",
        "home": ("dir", 0),
        "tmp": ("dir", 0),
    }
    layers = [layer(files), layer({"etc/.wh.hidden": b"", "www/index.html": b"from the image"})]
    execution = {
        "Cmd": ["sh", "-c", "id; cat /www/index.html"],
        "User": "guest",
        "Env": ["MADE_BY=image"],
        "StopSignal": "SIGQUIT",
    }
    oci_layout(folder, "example.org/shell:1", {str(this_platform()): layers}, execution=execution)
    return folder


def _has_network(pid: int) -> bool:
    try:
        os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return False
    return True


@contextmanager
def _oci_cluster(folder: Path, **options: Any) -> Iterator[LocalCluster]:
    """A cluster with the image in its store; no namespace and no mount of it is left at the end."""
    image = _image(folder / "image")
    subprocess.run(
        [sys.executable, "-m", "quarterdeck.cli", "image", "import", str(image)],
        env={**os.environ, "HOME": str(folder)},
        check=True,
        capture_output=True,
    )
    with local_cluster(folder, arguments=("--runtime", "oci"), **options) as running:
        yield running
        holders = [json.loads(each.read_bytes())["pid"] for each in folder.rglob("network.json")]
        assert holders
    # Whoever has ended and is not buried yet has let go of its namespaces.
    deadline = time.monotonic() + 30
    while any(_has_network(pid) for pid in holders):
        assert time.monotonic() < deadline, "a network namespace is left"
        time.sleep(0.05)
    assert str(folder) not in Path("/proc/self/mountinfo").read_text(), "a mount is left"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    if why := _why_not():
        pytest.skip(why)
    with _oci_cluster(tmp_path_factory.mktemp("oci")) as running:
        yield running


def _pod(space: Space, name: str, *command: str, **fields: Any) -> None:
    container = {"image": "example.org/shell:1", "command": list(command), **fields.pop("container", {})}
    space.pod(name, container=container, **fields)


def test_an_image_runs_as_it_says(space: Space) -> None:
    _pod(space, "plain")
    found = space.phase("plain", "Succeeded")
    assert space.logs("plain") == "uid=1000(guest) gid=1001(guest) groups=2000(extra)\nfrom the image"
    [status] = found["status"]["containerStatuses"]
    assert status["containerID"].startswith("oci://")
    assert status["imageID"].startswith("example.org/shell@sha256:")
    node = json.loads(space.cluster.kubectl("get", "node", "box", "-o", "json"))
    assert node["metadata"]["labels"]["quarterdeck.dev/runtime"] == "oci"
    assert "example.org/shell:1" in node["status"]["images"][0]["names"]


def test_an_image_is_a_volume_that_nobody_writes_to(space: Space) -> None:
    def volume(reference: str) -> dict[str, Any]:
        return {"volumes": [{"name": "data", "image": {"reference": reference}}]}

    def mounts(**more: str) -> dict[str, Any]:
        return {
            "volumeMounts": [{"name": "data", "mountPath": "/data", **more}],
            "securityContext": {"runAsUser": 0},
        }

    script = "cat /data/www/index.html; touch /data/www/new 2> /dev/null || echo refused"
    _pod(space, "reads", "sh", "-c", script, container=mounts(), **volume("example.org/shell:1"))
    _pod(
        space,
        "part",
        "cat",
        "/data/index.html",
        container=mounts(subPath="www"),
        **volume("example.org/shell:1"),
    )
    _pod(space, "lacks", "true", container=mounts(subPath="nothing"), **volume("example.org/shell:1"))
    _pod(space, "waits", "true", container=mounts(), **volume("example.org/none:1"))
    space.phase("reads", "Succeeded")
    assert space.logs("reads") == "from the imagerefused\n"
    space.phase("part", "Succeeded")
    assert space.logs("part") == "from the image"
    space.until(
        "lacks", lambda pod: "is not in the image" in state(pod).get("waiting", {}).get("message", "")
    )
    space.until(
        "waits", lambda _: "quarterdeck image import" in dict(space.events("waits")).get("FailedMount", "")
    )


def test_an_unknown_image_waits_and_says_what_to_do(space: Space) -> None:
    _pod(space, "unknown", container={"image": "example.org/none"})
    seen = space.until(
        "unknown",
        lambda pod: any(
            each["state"].get("waiting", {}).get("reason") == "ErrImageNeverPull"
            for each in pod["status"].get("containerStatuses", ())
        ),
    )
    assert "quarterdeck image import" in seen["status"]["containerStatuses"][0]["state"]["waiting"]["message"]


def test_pods_reach_each_other_and_services_and_the_server(space: Space) -> None:
    _pod(
        space,
        "web",
        *("sh", "-c", "hostname > /tmp/index.html; exec httpd -f -p 80 -h /tmp"),
        policy="Always",
        container={
            "securityContext": {"runAsUser": 0},
            "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1},
            "livenessProbe": {"exec": {"command": ["test", "-f", "/tmp/index.html"]}, "periodSeconds": 1},
        },
    )
    space.kubectl("expose", "pod", "web", "--port=8080", "--target-port=80")
    web = space.until("web", lambda pod: pod["status"].get("containerStatuses", [{}])[0].get("ready"))
    address, host = web["status"]["podIP"], web["status"]["hostIP"]
    assert address.startswith("10.244.")
    script = (
        f"wget -qO- http://{address}; until wget -qO- http://web:8080; do sleep 0.2; done;"
        f" wget -qO- http://web.{space.name}.svc.cluster.local:8080;"
        " wget -qO- http://kubernetes.default:443 || echo the server answers;"
        f" wget -qO- http://127.0.0.1:8080 || echo only its own loopback; ls /sys/class/net | grep -c ."
    )
    _pod(space, "client", "sh", "-c", script)
    space.phase("client", "Succeeded")
    said = [line for line in space.logs("client").splitlines() if not line.startswith("wget:")]
    assert said == ["web", "web", "web", "the server answers", "only its own loopback", "2"]
    assert host == "10.244.0.1"
    # A program of the machine finds the same Service, by way of the agent.
    asks = "import urllib.request as u; print(u.urlopen('http://web:8080').read().decode(), end='')"
    space.pod("beside", container={"command": ["python3", "-c", asks]}, runtimeClassName="process")
    space.phase("beside", "Succeeded")
    assert space.logs("beside") == "web\n"


def test_rights_are_those_asked_for(space: Space) -> None:
    words = "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status"
    script = f"{words}; touch /new || echo read-only; touch /data/new"
    context = {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "runAsUser": 0,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
    }
    mounts = [{"name": "data", "mountPath": "/data"}]
    _pod(
        space,
        "rights",
        *("sh", "-c", script),
        container={"securityContext": context, "volumeMounts": mounts},
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    space.phase("rights", "Succeeded")
    words = space.logs("rights")
    assert "CapEff:\t0000000000000001\n" in words
    assert "NoNewPrivs:\t1\n" in words
    assert "Seccomp:\t2\n" in words
    assert "read-only\n" in words


def test_programs_are_entered_and_attached_to(space: Space) -> None:
    _pod(space, "shell", "sh", container={"stdin": True})
    space.phase("shell", "Running")
    assert space.kubectl("exec", "shell", "--", "hostname") == "shell\n"
    assert space.kubectl("exec", "-i", "shell", "--", "cat", input="through") == "through"
    assert space.run("exec", "shell", "--", "sh", "-c", "exit 7").returncode == 7
    missing = space.run("exec", "shell", "--", "nothing")
    assert missing.returncode == 127
    assert "not found" in missing.stderr
    assert "attached" in space.kubectl("attach", "-i", "shell", input="echo attached; exit\n")
    space.phase("shell", "Succeeded")
    assert space.logs("shell") == "attached\n"


@pytest.mark.parametrize("cannot", ["/bin/nothing", "/etc/passwd"], ids=["missing", "no-program"])
def test_a_program_that_cannot_run_says_why(space: Space, cannot: str) -> None:
    _pod(space, "cannot", cannot)
    ended = space.phase("cannot", "Failed")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["reason"] == "ContainerCannotRun"
    assert ended["exitCode"] == (127 if cannot == "/bin/nothing" else 126)
    assert cannot in ended["message"]


def test_the_signal_that_the_image_names_reaches_the_first_process_alone(space: Space) -> None:
    script = "trap 'echo told; exit 0' QUIT; echo up; while :; do sleep 0.1; done"
    _pod(space, "told", "sh", "-c", script, policy="Always")
    space.until("told", lambda _: "up" in space.run("logs", "told").stdout)
    following = subprocess.Popen(
        [str(KUBECTL), "logs", "-f", "-n", space.name, "told"],
        env={**os.environ, "KUBECONFIG": str(space.cluster.kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    space.kubectl("delete", "pod", "told", "--grace-period=30")
    out, _ = following.communicate(timeout=30)
    assert out == "up\ntold\n"


def test_an_agent_that_is_killed_finds_containers_and_network_again(space: Space) -> None:
    script = "echo begun; hostname > /tmp/index.html; exec httpd -f -p 80 -h /tmp"
    _pod(space, "kept", "sh", "-c", script, policy="Always", container={"securityContext": {"runAsUser": 0}})
    before = space.phase("kept", "Running")["status"]
    killed = space.cluster.agent()
    os.kill(killed, signal.SIGKILL)
    space.until("kept", lambda _: space.cluster.agent() not in (0, killed))
    space.until("kept", lambda _: space.run("exec", "kept", "--", "true").returncode == 0)
    _pod(space, "after", "sh", "-c", f"until wget -qO- http://{before['podIP']}; do sleep 0.2; done")
    space.phase("after", "Succeeded")
    assert space.logs("after") == "kept\n"
    assert space.logs("kept") == "begun\n"
    [status] = space.get("kept")["status"]["containerStatuses"]
    assert (status["restartCount"], status["containerID"]) == (
        0,
        before["containerStatuses"][0]["containerID"],
    )


def test_runc_does_what_crun_does(tmp_path: Path) -> None:
    if why := _why_not() or missing_parts("runc"):
        pytest.skip(why)
    config = {"node": {"oci_runtime": "runc"}}
    with _oci_cluster(tmp_path, config=config) as running, running.space("runc") as space:
        _pod(space, "shell", "sh", "-c", "trap 'exit 3' USR1; id; while :; do sleep 0.1; done")
        space.until("shell", lambda _: "uid=" in space.run("logs", "shell").stdout)
        assert space.run("exec", "shell", "--", "sh", "-c", "echo inside; exit 7").returncode == 7
        # Not asked how it ended: it may have been killed with the container that it ends.
        space.run("exec", "shell", "--", "sh", "-c", "kill -USR1 1")
        greedy = "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done"
        _pod(space, "greedy", "sh", "-c", greedy, container={"resources": {"limits": {"memory": "32Mi"}}})
        ended = space.phase("shell", "Failed")["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], space.logs("shell")) == (
            3,
            "uid=1000(guest) gid=1001(guest) groups=2000(extra)\n",
        )
        _pod(space, "cannot", "/bin/nothing")
        ended = space.phase("cannot", "Failed")["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("ContainerCannotRun", 127)
        if LIMITED:
            ended = space.phase("greedy", "Failed")["status"]["containerStatuses"][0]["state"]["terminated"]
            assert ended["reason"] == "OOMKilled"
