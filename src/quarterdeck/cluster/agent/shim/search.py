"""Who runs a container, even if its record cannot be read, and whether anybody does. Blocking.

A shim holds the lock of its run as long as it lives, and stands in the run's folder: whoever knows the folder
finds it among the processes.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from quarterdeck.cluster.agent.shim.order import LOCK, STATE, State, read_state, start_of, write_record

_PROGRAM: Final = b"quarterdeck.cluster.agent.shim"


def take_lock(folder: Path) -> int | None:
    """The lock of a run as a descriptor; None if somebody runs it. Nobody begins it until that is closed.

    Raises ``FileNotFoundError`` if there is no such run.
    """
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def find_state(folder: Path) -> State | None:
    """Who runs a container, or ran it; None if nobody did, or is only about to.

    A record that cannot be read is written anew from what is found among the processes.
    """
    state = read_state(folder)
    if state is not None:
        return state
    shim = _find_shim(folder)
    init = _first_child(shim) if shim else 0
    if not init:  # before the shim has a child it has written nothing that could be lost
        return None
    found = State(
        shim=shim,
        shim_start=start_of(shim),
        init=init,
        init_start=start_of(init) or "0",
        started=time.time(),
    )
    with suppress(OSError):
        write_record(folder, STATE, found)
    return found


def _find_shim(folder: Path) -> int:
    """The process that stands beside a container; 0 if there is none."""
    try:
        place = os.stat(folder)
    except OSError:
        return 0
    leaders: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        number = int(entry.name)
        with suppress(OSError, IndexError):
            if _PROGRAM not in Path(entry.path, "cmdline").read_bytes():
                continue
            if not os.path.samestat(os.stat(f"{entry.path}/cwd"), place):
                continue
            fields = Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()
            parent, session = int(fields[1]), int(fields[3])
            if session == number and fields[0] not in "ZX":  # what a shim has begun is in its session
                leaders[number] = parent
    # Whoever starts a shim waits for it, and looks the same.
    return next((each for each in leaders if each not in leaders.values()), 0)


def _first_child(process: int) -> int:
    """The oldest of a process's children; later ones are programs that were run beside it."""
    try:
        found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0
    begun = {int(each): start_of(int(each)).rpartition(" ")[2] for each in found}
    return min((each for each in begun if begun[each]), key=lambda each: int(begun[each]), default=0)
