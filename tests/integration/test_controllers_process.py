"""`quarterdeck up` is two processes: neither outlives the other, whichever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "quarterdeck.cli", "up", "--port", "0", "--operators", "ipam"]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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


def test_a_server_whose_controllers_were_killed_ends_and_says_so(up: subprocess.Popen[str]) -> None:
    (controllers,) = children(up.pid)
    os.kill(controllers, signal.SIGKILL)
    _, errors = up.communicate(timeout=60)
    assert up.returncode == 1
    assert errors.splitlines()[-1] == (
        "quarterdeck: the process of the controllers has ended; its log says why"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_stops_both_in_order(number: signal.Signals) -> None:
    process = subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready: ")
    (controllers,) = children(process.pid)
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "stopped\n")
    assert not is_running(controllers)


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
