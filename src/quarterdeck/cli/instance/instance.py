"""The clusters that run on this machine for this user: each leaves a file while it runs.

``quarterdeck status``, ``down``, ``logs`` and ``kubeconfig`` find clusters by these files. A file whose
process is gone, because it was killed, is cleared away by whoever notices.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from quarterdeck.cli.error import CommandError

__all__ = [
    "Instance",
    "find",
    "first_in",
    "forget",
    "free_name",
    "left_behind",
    "log_path",
    "register",
    "running",
]

Json = dict[str, Any]
USUAL_NAME: Final = "quarterdeck"
_GIVEN: Final = re.compile(rf"{USUAL_NAME}(-\d+)?")


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A running cluster."""

    name: str
    pid: int
    started: str
    """When the process began, as the kernel counts it: a pid alone may be somebody else's by now."""
    url: str
    kubeconfig: Json
    """For the administrator; so the file is for the user's eyes only."""
    context_file: str = ""
    context_before: str | None = None
    """What was in that file before the first running cluster joined it; None if there was no file."""
    data_dir: str = ""
    log: str = ""
    node_sockets: str = ""
    """Where the server looks for nodes of this machine."""
    dashboard: str = ""
    """The address of the page, with its token."""


def directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the files are."""
    home = Path(environment.get("HOME", "~")).expanduser()
    return Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state") / "quarterdeck"


def process_start(pid: int) -> str:
    """When a process began; empty if there is none, or if this system does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def is_alive(instance: Instance) -> bool:
    """Whether the process is still there, and the same."""
    try:
        os.kill(instance.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return instance.started == process_start(instance.pid)


@contextmanager
def _locked() -> Iterator[None]:
    """Nobody else takes or clears a name meanwhile. Blocking, for as long as a few files take."""
    folder = directory()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / ".lock").open("a") as lock:  # the kernel gives the lock back when its holder is killed
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def running() -> list[Instance]:
    """The clusters that run, by name."""
    if not directory().is_dir():
        return []
    with _locked():
        return _running()


def _running() -> list[Instance]:
    found = []
    for path in sorted(directory().glob("*.json")):
        try:
            instance = msgspec.json.decode(path.read_bytes(), type=Instance)
        except (OSError, msgspec.DecodeError):
            continue
        if is_alive(instance):
            found.append(instance)
        else:
            path.unlink(missing_ok=True)
    return found


def find(name: str) -> Instance:
    """The cluster of that name, or the only one; raises CommandError where that is nobody or several."""
    found = running()
    if name:
        found = [each for each in found if each.name == name]
    if not found:
        raise CommandError(f"no cluster named {name} is running" if name else "no cluster is running")
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise CommandError(f"several clusters are running, name one: {names}")
    return found[0]


def left_behind(context_file: str) -> Callable[[str], bool]:
    """Tells names that clusters are given here, and that none has that runs with its context in the file.

    A name alone is not enough: the next cluster takes it, and its context may be in another file.
    """
    alive = {each.name for each in running() if each.context_file == context_file}
    return lambda name: name not in alive and _GIVEN.fullmatch(name) is not None


def first_in(context_file: str) -> Instance | None:
    """A running cluster that has joined the file, if there is one; for ``describe`` of ``register``."""
    return next((each for each in _running() if each.context_file == context_file), None)


def free_name(wanted: str) -> str:
    """A name for a new cluster, if nobody else takes it; raises CommandError if ``wanted`` is taken."""
    return _free_name(wanted, {each.name for each in running()})


def _free_name(wanted: str, taken: set[str]) -> str:
    if wanted in taken:
        raise CommandError(f"a cluster named {wanted} is running: quarterdeck down {wanted}")
    numbered = (f"{USUAL_NAME}-{number}" for number in itertools.count(2))
    names = [wanted] if wanted else itertools.chain([USUAL_NAME], numbered)
    return next(name for name in names if name not in taken)


def register(wanted: str, describe: Callable[[str], Instance]) -> Instance:
    """Let others find this cluster; ``describe`` makes the entry under the name it gets.

    Raises CommandError if ``wanted`` is taken.
    """
    with _locked():
        instance = describe(_free_name(wanted, {each.name for each in _running()}))
        path = directory() / f"{instance.name}.json"
        temporary = path.with_suffix(".new")
        temporary.touch(mode=0o600)
        temporary.write_bytes(msgspec.json.encode(instance))
        temporary.replace(path)
        return instance


def forget(name: str) -> None:
    """The cluster has ended."""
    (directory() / f"{name}.json").unlink(missing_ok=True)


def log_path(name: str) -> Path:
    """Where a detached cluster writes its log."""
    return directory() / f"{name}.log"


def wait_until_ended(instance: Instance, seconds: float) -> bool:
    """Whether the process ended in time. Blocking."""
    deadline = time.monotonic() + seconds
    while is_alive(instance):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
