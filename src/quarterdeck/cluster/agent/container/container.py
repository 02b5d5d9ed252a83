"""Containers by their folders: started, signalled, entered. The shim knows how a container is made."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from quarterdeck.cluster.agent.shim import attach
from quarterdeck.cluster.agent.shim.enter import make_request
from quarterdeck.cluster.agent.shim.order import LAUNCH, Launch, read_launch, start_of, write_record
from quarterdeck.cluster.agent.shim.search import find_state
from quarterdeck.errors import QuarterdeckError

_SHIM: Final = (sys.executable, "-I", "-m", "quarterdeck.cluster.agent.shim")
_KILLED: Final = 137
_START_SECONDS: Final = 120.0
_AT_ONCE: Final = 4
"""Containers that are being started at the same moment: more would only wait for each other."""


class RuntimeFailure(QuarterdeckError):
    """A container could not be made or started, for a reason that is not its own."""


async def usable_namespaces() -> tuple[str, ...]:
    """The namespaces that this user may make here."""
    process = await asyncio.create_subprocess_exec(*_SHIM, "probe", stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    return tuple(json.loads(output)) if process.returncode == 0 else ()


class Containers:
    """Starts, signals and enters containers by their folders."""

    def __init__(self) -> None:
        self._starting: Final = asyncio.Semaphore(_AT_ONCE)

    async def start(self, folder: Path, launch: Launch) -> None:
        """Start what has not been started; returns when it runs, or when its record says why it does not."""
        async with self._starting:
            await asyncio.to_thread(write_record, folder, LAUNCH, launch)
            process = await asyncio.create_subprocess_exec(
                *_SHIM,
                "run",
                str(folder),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=_shim_environment(),
                start_new_session=True,  # what ends the agent's group must not end a start half-way
            )
            try:
                async with asyncio.timeout(_START_SECONDS):
                    _, problem = await process.communicate()
            except TimeoutError as error:
                raise RuntimeFailure(f"the container did not start within {_START_SECONDS:.0f} s") from error
        if process.returncode != 0:
            raise RuntimeFailure(problem.decode(errors="replace").strip().rsplit("\n", 1)[-1])

    def ask_to_end(self, folder: Path, wanted: object) -> None:
        """Send the signal that asks the program to end: the wanted one, the image's, or SIGTERM. Blocking."""
        launch = read_launch(folder)
        self.signal(folder, stop_signal(wanted or (launch.stop_signal if launch else "")))

    def signal(self, folder: Path, number: int) -> bool:
        """Send a signal to the container; whether it was there. Blocking."""
        state = find_state(folder)
        if state is None or not state.init:
            return False
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(state.init)
            try:
                if start_of(state.init) != state.init_start:
                    return False
                signal.pidfd_send_signal(descriptor, number)
                return True
            finally:
                os.close(descriptor)
        return False

    async def enter(
        self, folder: Path, command: Sequence[str], *, stdin: int, stdout: int, stderr: int, tty: bool = False
    ) -> Entered:
        """Run a command beside the container's program, with these descriptors.

        Raises ``RuntimeFailure`` if the container is not running.
        """
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        try:  # by way of the descriptor: the path of a socket must not be long
            await loop.sock_connect(connection, f"/proc/self/fd/{place}/{attach.SOCKET}")
        except OSError as error:
            connection.close()
            raise RuntimeFailure("the container is not running") from error
        finally:
            os.close(place)
        request = attach.frame(attach.ENTER, make_request(list(command), tty=tty))
        # The descriptors go with the first byte; a long command may need more than one write.
        sent = socket.send_fds(connection, [request], [stdin, stdout, stderr])
        await loop.sock_sendall(connection, request[sent:])
        return Entered(connection)


class Entered:
    """A program that runs beside a container's."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection: Final = connection
        self._buffer: Final = bytearray()

    async def wait(self) -> int:
        """Its exit code; that of a killed program if the container has ended."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.sock_recv(self._connection, 4096)
            except OSError:
                data = b""
            if not data:
                return _KILLED
            self._buffer.extend(data)
            for channel, body in attach.take_frames(self._buffer):
                if channel == attach.EXIT_CODE:
                    return body[0]

    def close(self) -> None:
        """End it if it still runs."""
        self._connection.close()


def _shim_environment() -> dict[str, str]:
    """Nothing of ours: the container has its own."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}


def stop_signal(name: object) -> int:
    """A signal by its name or number; SIGTERM unless there is such a one. Images may leave out ``SIG``."""
    text, _, more = str(name).upper().partition("+")  # SIGRTMIN+3
    known = signal.Signals.__members__
    found = int(text) if text.isdigit() else known.get(text) or known.get(f"SIG{text}") or 0
    number = found + int(more) if more.isdigit() else found
    return number if 0 < number < signal.NSIG else signal.SIGTERM
