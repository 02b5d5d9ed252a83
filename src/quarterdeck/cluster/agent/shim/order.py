"""What a shim is told (``launch.json``), and what it tells: files in the container's folder."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = [
    "EXIT",
    "LAUNCH",
    "LOCK",
    "LOG",
    "STATE",
    "Bind",
    "Bundle",
    "Exit",
    "Launch",
    "State",
    "read_exit",
    "read_launch",
    "read_state",
    "start_of",
    "write_record",
]

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
    """A container that has started: who watches it and who is its first process, each with its start time."""

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


def write_record(folder: Path, name: str, record: Launch | State | Exit) -> None:
    """Write a record in one step, for its owner alone."""
    temporary = folder / f".{name}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(record), file)
    os.replace(temporary, folder / name)


def _read(folder: Path, name: str) -> dict[str, Any] | None:
    try:
        text = (folder / name).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    found: dict[str, Any] = json.loads(text)
    return found


def read_launch(folder: Path) -> Launch | None:
    """What was to be run; None where nothing was."""
    found = _read(folder, LAUNCH)
    if found is None:
        return None
    found["binds"] = [Bind(**each) for each in found.get("binds", ())]
    if found.get("bundle") is not None:
        found["bundle"] = Bundle(**found["bundle"])
    return Launch(**found)


def read_state(folder: Path) -> State | None:
    """Who runs it; None before it was begun."""
    found = _read(folder, STATE)
    return State(**found) if found is not None else None


def read_exit(folder: Path) -> Exit | None:
    """How it ended; None until it has."""
    found = _read(folder, EXIT)
    return Exit(**found) if found is not None else None


def start_of(pid: int) -> str:
    """When a process began, as the kernel counts it; empty if there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]
