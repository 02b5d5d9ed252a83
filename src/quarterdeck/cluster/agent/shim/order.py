"""What a shim is told (``launch.json``), and what it tells: files in the container's folder.

A record is whole and on disk when it has been written, or it is not there: one that cannot be read, for
whatever reason, counts as absent.
"""

from __future__ import annotations

import functools
import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

LAUNCH: Final = "launch.json"
STATE: Final = "state.json"
EXIT: Final = "exit.json"
LOCK: Final = "lock"
LOG: Final = "log"


@dataclass(frozen=True, kw_only=True)
class Bind:
    """A file or folder that the container sees at ``target``."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A container that an OCI runtime makes."""

    program: str
    identity: str
    """What the runtime calls it."""
    image: str
    """The folder with the image's files."""
    config: dict[str, Any]
    """What becomes ``config.json``."""
    options: list[str] = field(default_factory=list)
    """For the program, before its command."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What to run, and where."""

    argv: list[str]
    env: dict[str, str]
    cwd: str = "/"
    hostname: str = ""
    namespaces: list[str] = field(default_factory=list)
    """Of ``user``, ``mount``, ``uts``, ``ipc``, ``pid``; those that work here."""
    uid: int = -1
    """Inside the container; -1 keeps the agent's."""
    gid: int = -1
    groups: list[int] | None = None
    """Supplementary groups; None keeps the agent's. Only an agent that is root can set them."""
    root: str = "/"
    """Whose folders the container sees; the machine's own unless an image has a root folder."""
    is_writable: bool = False
    """Whether the machine's folders can be written as far as the user may."""
    is_root_read_only: bool = False
    """Whether the container may not even write to its own root folder."""
    binds: list[Bind] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    """Folders of the machine that appear empty."""
    cgroups: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    """Resource limits by the names of the ``resource`` module, such as ``RLIMIT_CORE``."""
    oom_score: int = 0
    no_new_privileges: bool = True
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    stop_signal: str = ""
    """What asks the program to end, where that is not SIGTERM."""
    log_bytes: int = 10 * 1024 * 1024
    log_files: int = 5
    bundle: Bundle | None = None
    """Set for containers of an OCI runtime, which has the rest from the bundle."""


@dataclass(frozen=True, kw_only=True)
class State:
    """A container that has started: who watches it and who is its first process, each as ``start_of`` knows
    it: a number alone is given again, after the next boot even with the same start time."""

    shim: int
    shim_start: str
    init: int = 0
    init_start: str = ""
    started: float = 0.0
    """Seconds since 1970; 0 until the program runs."""


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How a container ended."""

    code: int
    signal: int = 0
    finished: float = 0.0
    error: str = ""
    """Why the program could not be started; empty if it was."""
    is_oom: bool = False


def write_durably(path: Path, data: bytes) -> None:
    """Make a file hold this, for its owner alone; after a crash it holds what it held, or this. Blocking."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder last. Blocking."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_record(folder: Path, name: str, record: Launch | State | Exit) -> None:
    """Write a record, durably."""
    write_durably(folder / name, json.dumps(asdict(record)).encode())


def _read(folder: Path, name: str) -> dict[str, Any]:
    """Raises ``OSError`` or ``ValueError`` for what is not there, or is no record."""
    found = json.loads((folder / name).read_bytes())
    if not isinstance(found, dict):
        raise ValueError(f"{name} is no record")
    return found


def read_launch(folder: Path) -> Launch | None:
    """What was to be run; None where nothing was."""
    try:
        found = _read(folder, LAUNCH)
        found["binds"] = [Bind(**each) for each in found.get("binds", ())]
        if found.get("bundle") is not None:
            found["bundle"] = Bundle(**found["bundle"])
        return Launch(**found)
    except (OSError, ValueError, TypeError):
        return None


def read_state(folder: Path) -> State | None:
    """Who runs it; None before it was begun."""
    try:
        return State(**_read(folder, STATE))
    except (OSError, ValueError, TypeError):
        return None


def read_exit(folder: Path) -> Exit | None:
    """How it ended; None until it has."""
    try:
        return Exit(**_read(folder, EXIT))
    except (OSError, ValueError, TypeError):
        return None


def start_of(pid: int) -> str:
    """Which of all processes that ever had this number it is: the boot of the machine, and when the process
    began, as the kernel counts it from there. Empty if there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return ""
    return "" if fields[0] in "ZX" else f"{_boot()} {fields[19]}"


@functools.cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "-"
