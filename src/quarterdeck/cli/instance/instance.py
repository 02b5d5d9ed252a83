"""The clusters that run on this machine for this user: each leaves a file while it runs.

``quarterdeck status``, ``down``, ``logs`` and ``kubeconfig`` find clusters by these files. Of a cluster that
was killed, whoever notices first clears away what it left, and says so: its context in the user's kubeconfig,
which is then as it was, its sockets and its file.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.cli.error import CommandError
from quarterdeck.cluster.agent.shim.order import start_of

from .kubeconfigfile import ContextInFile

USUAL_NAME: Final = "quarterdeck"
PRIVATE_PREFIX: Final = "quarterdeck-"
"""How the temporary folder with a cluster's sockets begins."""
_GIVEN: Final = re.compile(rf"{USUAL_NAME}(-\d+)?")


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A running cluster."""

    name: str
    pid: int
    started: str
    """Which process it is, as ``start_of`` says it: a pid may be somebody else's by now. Empty where the
    system does not tell."""
    url: str
    kubeconfig: Json
    """The administrator's credentials; so only the user may read the file."""
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
    """Where the files are: the user's folder for state, or among temporary files where that is read-only."""
    home = Path(environment.get("HOME", "~")).expanduser()
    usual = Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state") / "quarterdeck"
    nearest = next(each for each in (usual, *usual.parents) if each.exists())
    if os.access(nearest, os.W_OK | os.X_OK):
        return usual
    other = Path(tempfile.gettempdir(), f"quarterdeck.state.{os.getuid()}")
    if other.is_symlink() or (other.exists() and other.stat().st_uid != os.getuid()):
        raise CommandError(f"{usual} cannot be written, and {other} is somebody else's: set XDG_STATE_HOME")
    return other


def is_alive(instance: Instance) -> bool:
    """Whether the process is still there, and the same."""
    try:
        os.kill(instance.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return instance.started == start_of(instance.pid)


@contextmanager
def _locked() -> Iterator[None]:
    """Nobody else takes or clears a name meanwhile. Blocking, for as long as a few files take.

    The folder goes with the last that is in it, the lock included.
    """
    folder = directory()
    path = folder / ".lock"
    lock = _lock(path)
    try:
        yield
    finally:
        if [each.name for each in folder.iterdir()] == [path.name]:
            path.unlink()
            with suppress(OSError):  # somebody has just come
                folder.rmdir()
        os.close(lock)


def _lock(path: Path) -> int:
    """A lock on the file that has this path; the kernel gives it back when its holder is killed."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if is_at(lock, path):
                return lock
            os.close(lock)  # who had it before has removed it


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one that has this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


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
        elif _clear_away(instance):
            path.unlink(missing_ok=True)
    return found


def _clear_away(killed: Instance) -> bool:
    """Put back what a cluster left that was killed; False if that has to be tried again."""
    told = ""
    if killed.context_file:
        context = ContextInFile(Path(killed.context_file), killed.name, before=killed.context_before)
        try:
            context.remove()
        except CommandError as error:
            print(f"{killed.name} was killed, and its context is left: {error}", file=sys.stderr)
            return False
        told = f"; its context was taken out of {killed.context_file}"
    if killed.node_sockets:
        private = Path(killed.node_sockets).parent
        if private.name.startswith(PRIVATE_PREFIX):
            shutil.rmtree(private, ignore_errors=True)
    print(f"{killed.name} was killed{told}", file=sys.stderr)
    return True


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


def forget(name: str, *, is_log_kept: bool = True) -> None:
    """The cluster has ended."""
    with _locked():
        (directory() / f"{name}.json").unlink(missing_ok=True)
        if not is_log_kept:
            log_path(name).unlink(missing_ok=True)


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
