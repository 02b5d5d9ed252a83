"""kubectl's other half, and that of the Python client: logs, exec, attach, cp, port-forward, debug."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from .nodekit import KUBECTL, Space
from .test_pod_life import READY, condition, state

SPDY: Final = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
"""Makes kubectl speak as it did before it knew WebSockets."""
by_both = pytest.mark.parametrize("how", [{}, SPDY], ids=["websocket", "spdy"])
OWN_ADDRESS: Final = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


def test_logs_in_parts(space: Space) -> None:
    space.pod("talks", "for i in 1 2 3 4 5; do echo line $i; done; printf unfinished")
    space.phase("talks", "Succeeded")
    assert space.logs("talks").splitlines() == [*(f"line {i}" for i in range(1, 6)), "unfinished"]
    assert space.logs("talks", "--tail=2").splitlines() == ["line 5", "unfinished"]
    assert space.logs("talks", "--limit-bytes=6") == "line 1"
    stamped = space.logs("talks", "--timestamps", "--tail=1")
    assert stamped.split()[0].endswith("Z")
    assert stamped.split()[1] == "unfinished"
    assert space.logs("talks", "--since=1h").count("line") == 5
    assert space.run("logs", "talks", "--previous").returncode != 0


def test_long_lines_and_floods_are_whole(space: Space) -> None:
    script = "python3 -c \"print('x' * 50000); [print(i) for i in range(20000)]\""
    space.pod("flood", script)
    space.phase("flood", "Succeeded")
    lines = space.logs("flood").splitlines()
    assert lines[0] == "x" * 50000
    assert lines[1:] == [str(i) for i in range(20000)]


@by_both
def test_exec_carries_input_output_and_codes(space: Space, how: dict[str, str]) -> None:
    space.pod("open", "while :; do sleep 0.1; done")
    space.until("open", lambda pod: condition(pod, READY) == "True")
    script = "cat; echo oops >&2; exit 5"
    done = space.run("exec", "-i", "open", "--", "sh", "-c", script, input="to and fro", environment=how)
    assert (done.stdout, done.returncode) == ("to and fro", 5)
    assert "oops" in done.stderr
    assert space.run("exec", "open", "--", "no-such-program", environment=how).returncode == 127
    big = "0123456789" * 100_000
    assert space.run("exec", "-i", "open", "--", "cat", input=big, environment=how).stdout == big


@by_both
def test_attach_reaches_the_program_itself(space: Space, how: dict[str, str]) -> None:
    space.pod("reads", "read line; echo got $line", container={"stdin": True, "stdinOnce": True})
    space.until("reads", lambda pod: condition(pod, READY) == "True")
    done = space.run("attach", "-i", "reads", input="a word\n", environment=how)
    assert "got a word" in done.stdout
    space.phase("reads", "Succeeded")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the device that gives terminals")
def test_programs_have_terminals_of_their_own(space: Space) -> None:
    space.pod("terminals", "exec python3 -c 'import os; print(os.ttyname(os.openpty()[1]))'")
    space.phase("terminals", "Succeeded")
    assert space.logs("terminals").startswith("/dev/pts/")


def test_files_are_copied_in_and_out(space: Space, tmp_path: Path) -> None:
    space.pod("copies", "while :; do sleep 0.1; done")
    space.until("copies", lambda pod: condition(pod, READY) == "True")
    (tmp_path / "in").write_bytes(os.urandom(300_000))
    space.kubectl("cp", str(tmp_path / "in"), "copies:/tmp/there")
    space.kubectl("cp", "copies:/tmp/there", str(tmp_path / "out"))
    assert (tmp_path / "in").read_bytes() == (tmp_path / "out").read_bytes()


def web(space: Space, port: int) -> None:
    """A pod that serves files at its own address."""
    space.pod(
        "web",
        f'cd /usr/share && exec python3 -m http.server --bind "$IP" {port}',
        container={"env": OWN_ADDRESS, "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1}},
    )
    space.until("web", lambda pod: condition(pod, READY) == "True")


@contextmanager
def forwarded(space: Space, port: int, how: dict[str, str]) -> Iterator[tuple[int, list[str]]]:
    """A local port that leads to the pod's; all that kubectl said is in the list at the end."""
    command = [str(KUBECTL), "port-forward", "web", f":{port}", "-n", space.name, "--address=127.0.0.1"]
    command += ["--kubeconfig", str(space.cluster.kubeconfig)]
    forward = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **how}
    )
    assert forward.stdout is not None
    said: list[str] = []
    try:
        yield int(forward.stdout.readline().split("127.0.0.1:")[1].split()[0]), said
    finally:
        forward.terminate()
        forward.wait()
        said += forward.stdout
        forward.stdout.close()


@by_both
def test_ports_are_forwarded(space: Space, how: dict[str, str]) -> None:
    web(space, 18400)
    with forwarded(space, 18400, how) as (port, _):
        for _ in range(2):  # one connection, several streams
            answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30).read()
            assert b"Directory listing" in answer
    with (
        forwarded(space, 18401, how) as (port, said),
        socket.create_connection(("127.0.0.1", port)) as refused,
    ):
        assert refused.recv(1) == b""  # kubectl hangs up as soon as it has heard why
    assert any("connection refused" in line for line in said)


CLIENT = """
import sys, time
from kubernetes import client, config
from kubernetes.stream import portforward, stream

namespace, kubeconfig = sys.argv[1:]
config.load_kube_config(kubeconfig)
api = client.CoreV1Api()

def run(script, **options):
    options = {"stdout": True, "stderr": True, "stdin": False, "tty": False, **options}
    command = ["sh", "-c", script]
    return stream(api.connect_get_namespaced_pod_exec, "web", namespace, command=command, **options)

print(run("echo out; echo err >&2").split())
talk = run("read word; echo got $word; exit 7", stdin=True, _preload_content=False)
talk.write_stdin("this\\n")
talk.run_forever(timeout=30)
print(talk.read_stdout().strip(), talk.returncode)
ports = portforward(api.connect_get_namespaced_pod_portforward, "web", namespace, ports="18402,18403")
tunnel = ports.socket(18402)
tunnel.settimeout(30)
tunnel.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
print(tunnel.recv(12).decode())
while ports.error(18403) is None:
    time.sleep(0.05)
print(ports.error(18403))
"""


@pytest.mark.skipif(find_spec("kubernetes") is None, reason="Kubernetes' Python client is not installed")
def test_the_python_client_speaks_in_channels(space: Space) -> None:
    web(space, 18402)
    words = [sys.executable, "-c", CLIENT, space.name, str(space.cluster.kubeconfig)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    *answers, refused = done.stdout.splitlines()
    assert answers == ["['out', 'err']", "got this 7", "HTTP/1.0 200"]
    assert refused.endswith("failed to connect: connection refused")


def test_a_debug_container_joins(space: Space) -> None:
    space.pod("seen", "while :; do sleep 0.1; done")
    space.until("seen", lambda pod: condition(pod, READY) == "True")
    space.run("debug", "seen", "--image=none", "-c", "look", "--", "echo", "from inside")
    space.until("seen", lambda pod: "terminated" in state(pod, kind="ephemeralContainerStatuses"))
    assert space.logs("seen", "-c", "look").strip() == "from inside"
