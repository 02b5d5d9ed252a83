"""Processes that do nothing but keep namespaces alive, so that these outlive the agent. Blocking.

A file says which process it is; it counts as ours only if its start time fits. A process knows its file, too,
so that it is found where the file cannot be read.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from quarterdeck.cluster.agent.shim.linux import set_namespace, unshare
from quarterdeck.cluster.agent.shim.order import start_of, write_durably

T = TypeVar("T")
_FOR_EVER: Final = ("sleep", "2147483647")
_END_SECONDS: Final = 5.0
_VARIABLE: Final = "QUARTERDECK_HOLDER"


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process that keeps namespaces."""

    pid: int
    start: str

    def namespace(self, kind: str) -> str:
        """The file that stands for one of its namespaces, such as ``net``."""
        return f"/proc/{self.pid}/ns/{kind}"

    @property
    def is_alive(self) -> bool:
        return start_of(self.pid) == self.start


def find_holder(file: Path) -> Holder | None:
    """The process that a file names, if it still lives."""
    try:
        holder = msgspec.json.decode(file.read_bytes(), type=Holder)
    except OSError:
        return None
    except msgspec.DecodeError:
        return _search(file)
    return holder if holder.is_alive else None


def _search(file: Path) -> Holder | None:
    """The process that was started for a file, among all of them."""
    mark = _mark(file).encode()
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                return Holder(pid=int(name), start=start_of(int(name)))
    return None


def _mark(file: Path) -> str:
    return f"{_VARIABLE}={file.absolute()}"


def start_holder(file: Path, *namespaces: str) -> Holder:
    """Start one in new namespaces (names as in ``shim.linux.CLONE``), and write down which it is."""

    def start() -> int:
        unshare(*namespaces)  # of this thread alone, and of what it starts
        process = subprocess.Popen(  # noqa: S603  a program of the machine's
            _FOR_EVER,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath), _VARIABLE: str(file.absolute())},
        )
        process.returncode = 0  # nobody waits for it
        return process.pid

    pid = _in_thread(start)
    holder = Holder(pid=pid, start=start_of(pid))
    write_durably(file, msgspec.json.encode(holder))
    return holder


def end_holder(file: Path) -> None:
    """End the process that a file names; its namespaces go with the last process in them."""
    holder = find_holder(file)
    if holder is not None:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(holder.pid)
            try:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                select.select([descriptor], [], [], _END_SECONDS)
            finally:
                os.close(descriptor)
        with suppress(ChildProcessError):  # it may be an earlier agent's
            os.waitpid(holder.pid, 0)
    file.unlink(missing_ok=True)


def in_namespace(holder: Holder, work: Callable[[], T]) -> T:
    """Do something in the network namespace of a holder."""

    def inside() -> T:
        descriptor = os.open(holder.namespace("net"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            set_namespace(descriptor, "net")
        finally:
            os.close(descriptor)
        return work()

    return _in_thread(inside)


def _in_thread(work: Callable[[], T]) -> T:
    """Do something in a thread of its own, which ends: its namespaces are nobody else's."""
    outcome: list[T] = []
    problem: list[OSError] = []

    def run() -> None:
        try:
            outcome.append(work())
        except OSError as error:
            problem.append(error)

    thread = threading.Thread(target=run, name="namespace")
    thread.start()
    thread.join()
    if problem:
        raise problem[0]
    return outcome[0]
