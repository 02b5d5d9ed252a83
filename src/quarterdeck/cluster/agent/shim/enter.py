"""Another program beside a container's: in its namespaces, with its environment.

Who wants one connects to the container's socket and sends a frame with the command, together with the
descriptors for its input and output. The answer is a frame with the exit code; hanging up ends the program.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

from quarterdeck.cluster.agent.shim.bundle import enter_bundle, join_cgroups
from quarterdeck.cluster.agent.shim.inside import code_of, start_program
from quarterdeck.cluster.agent.shim.linux import set_death_signal, set_namespace
from quarterdeck.cluster.agent.shim.order import Launch

_FILES: Final = {"mount": "mnt", "uts": "uts", "ipc": "ipc", "pid": "pid"}
"""All but the user namespace: whoever calls is in it."""


def make_request(command: list[str], *, tty: bool) -> bytes:
    """The body of the frame that asks for a program."""
    return json.dumps({"command": command, "tty": tty}).encode()


def start_entering(launch: Launch, init: int, request: bytes, stdio: tuple[int, int, int]) -> int:
    """Start the program of a request; the pid of a process that ends with its exit code."""
    runner = os.fork()
    if runner == 0:
        _run(launch, init, request, stdio)
    return runner


def _run(launch: Launch, init: int, request: bytes, stdio: tuple[int, int, int]) -> NoReturn:
    code = 126
    try:
        set_death_signal(signal.SIGKILL)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        asked = json.loads(request)
        join_cgroups(launch)
        for place, descriptor in enumerate(stdio):
            os.dup2(descriptor, place)
        _leave_descriptors()
        if launch.bundle is not None:
            enter_bundle(Path.cwd(), launch, asked["command"], tty=asked["tty"])
        opened = [
            (name, os.open(f"/proc/{init}/ns/{file}", os.O_RDONLY | os.O_CLOEXEC))
            for name, file in _FILES.items()
            if name in launch.namespaces
        ]
        for name, descriptor in opened:
            set_namespace(descriptor, name)
            os.close(descriptor)
        env = {"TERM": "xterm", **launch.env} if asked["tty"] else launch.env
        wanted = replace(launch, argv=asked["command"], tty=asked["tty"], env=env)
        program = start_program(wanted, (0, 1, 2))
        code = code_of(os.waitpid(program, 0)[1])[0]
    except OSError as error:
        code = 127 if error.errno == 2 else 126
        with suppress(OSError):
            os.write(2, f"{error.strerror or error}\n".encode())
    finally:
        os._exit(code)


def _leave_descriptors() -> None:
    """Keep input and output alone: the socket and the log are the shim's."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with suppress(OSError):
                os.close(int(name))
