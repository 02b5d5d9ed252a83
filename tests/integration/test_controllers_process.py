"""`quarterdeck up` is two processes: the controllers end with their server, the server outlives them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.wire import Answer, load_kubeconfig

COMMAND = [sys.executable, "-m", "quarterdeck.cli", "up", "--port", "0", "--operators", "ipam"]


def alone(folder: Path) -> dict[str, str]:
    """An environment in which nothing is told of clusters that other tests have killed."""
    return {**os.environ, "XDG_STATE_HOME": str(folder)}


@pytest.fixture
def up(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    words = [*COMMAND, "--nodes", "2", "--kubeconfig", str(tmp_path / "kubeconfig")]
    process = subprocess.Popen(
        words, env=alone(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready: ")
        yield process
    finally:
        process.kill()
        process.communicate()


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_controllers_end_with_a_server_that_was_killed(up: subprocess.Popen[str]) -> None:
    (controllers,) = children(up.pid)
    os.kill(up.pid, signal.SIGKILL)
    wait_until_gone(controllers)


def next_child(up: subprocess.Popen[str], before: int) -> int:
    """The process of the controllers that took the place of another."""
    deadline = time.monotonic() + 30
    while not (found := [each for each in children(up.pid) if each != before]):
        assert time.monotonic() < deadline, "the controllers are not started again"
        time.sleep(0.02)
    return found[0]


def read_error(up: subprocess.Popen[str]) -> str:
    assert up.stderr is not None
    return up.stderr.readline()


def test_a_server_outlives_its_controllers_which_are_started_again(
    up: subprocess.Popen[str], tmp_path: Path
) -> None:
    """What is stored stays, even in memory; and a node that somebody has deleted does not come back."""
    (controllers,) = children(up.pid)
    connection = load_kubeconfig(tmp_path / "kubeconfig").connect()

    def call(method: str, path: str, document: object = None) -> Answer:
        body = None if document is None else json.dumps(document).encode()
        return connection.request(method, path, body=body, headers={"Content-Type": "application/json"})

    assert call("DELETE", "/api/v1/nodes/node-1").status == 200
    assert call("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}}).status == 201
    os.kill(controllers, signal.SIGKILL)
    assert read_error(up) == (
        "quarterdeck: the process of the controllers was killed by SIGKILL; it is started again in 1 s\n"
    )
    assert call("GET", "/readyz").status == 500
    assert call("GET", "/api/v1/namespaces/kept").status == 200
    assert call("GET", "/metrics").status == 200
    next_child(up, controllers)
    deadline = time.monotonic() + 60
    while call("GET", "/readyz").status != 200:
        assert time.monotonic() < deadline, "the controllers do not become ready"
        time.sleep(0.05)
    assert call("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}}).status == 201
    while call("GET", "/api/v1/namespaces/new/serviceaccounts/default").status != 200:
        assert time.monotonic() < deadline, "the controllers do nothing"
        time.sleep(0.02)
    items = call("GET", "/api/v1/nodes").json()["items"]
    assert [each["metadata"]["name"] for each in items] == ["node-0"]
    connection.close()
    up.terminate()
    _, errors = up.communicate(timeout=60)
    assert (up.returncode, errors) == (0, "stopped\n")


@pytest.mark.parametrize("is_starting", [False, True], ids=["while waiting", "while starting"])
def test_ctrl_c_ends_everything_while_the_controllers_are_started_again(
    up: subprocess.Popen[str], is_starting: bool
) -> None:
    (controllers,) = children(up.pid)
    os.kill(controllers, signal.SIGKILL)
    read_error(up)
    second = next_child(up, controllers) if is_starting else 0
    up.send_signal(signal.SIGINT)
    _, errors = up.communicate(timeout=60)
    assert (up.returncode, errors.splitlines()[-1]) == (0, "stopped")
    assert not second or not is_running(second)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_stops_both_in_order(number: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        COMMAND,
        env=alone(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready: ")
    (controllers,) = children(process.pid)
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "stopped\n")
    assert not is_running(controllers)


PRINTING = """
import asyncio
from quarterdeck.cli.controllers.process import _pipes
async def main():
    _, writer = await _pipes()
    print("a word of some operator", flush=True)
    writer.write(b"a report\\n")
    await writer.drain()
    writer.close()
asyncio.run(main())
"""


def test_what_an_operator_prints_is_no_report() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINTING], input="", capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("a report\n", "a word of some operator\n")


def test_only_the_user_can_reach_the_private_socket(up: subprocess.Popen[str]) -> None:
    sockets = Path("/proc/net/unix").read_text().split()
    (path,) = {Path(each) for each in sockets if each.endswith("apiserver.sock")} & {
        Path(each) for each in _open_sockets(up.pid)
    }
    assert path.parent.stat().st_mode & 0o077 == 0


def _open_sockets(pid: int) -> list[str]:
    inodes = {os.readlink(each)[8:-1] for each in Path(f"/proc/{pid}/fd").iterdir() if _is_socket(each)}
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    return [row[7] for row in rows if len(row) > 7 and row[6] in inodes]


def _is_socket(link: Path) -> bool:
    return os.readlink(link).startswith("socket:")
