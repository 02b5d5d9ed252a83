"""Another program beside a container's: in its namespaces, with its environment."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from quarterdeck.cluster.agent.shim.inside import code_of, start_program
from quarterdeck.cluster.agent.shim.linux import set_death_signal, set_namespace
from quarterdeck.cluster.agent.shim.order import read_launch, read_state, start_of

__all__ = ["enter"]

_FILES = {"user": "user", "mount": "mnt", "uts": "uts", "ipc": "ipc", "pid": "pid"}


def enter(folder: Path, command: Sequence[str], *, tty: bool) -> int:
    """Run a command with our own input and output; its exit code."""
    launch, state = read_launch(folder), read_state(folder)
    if launch is None or state is None or not state.init or start_of(state.init) != state.init_start:
        os.write(2, b"the container is not running\n")
        return 126
    set_death_signal(signal.SIGKILL)
    for cgroup in launch.cgroups:
        with suppress(OSError):
            Path(cgroup, "cgroup.procs").write_text("0")
    opened = [
        (name, os.open(f"/proc/{state.init}/ns/{file}", os.O_RDONLY | os.O_CLOEXEC))
        for name, file in _FILES.items()
        if name in launch.namespaces
    ]
    for name, descriptor in opened:  # the user namespace first: it gives the right to the others
        set_namespace(descriptor, name)
        os.close(descriptor)
    try:
        program = start_program(replace(launch, argv=list(command), tty=tty), (0, 1, 2))
    except OSError as error:
        os.write(2, f"{error.strerror}\n".encode())
        return 127 if error.errno == 2 else 126
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.killpg(program, number))
    return code_of(os.waitpid(program, 0)[1])[0]
