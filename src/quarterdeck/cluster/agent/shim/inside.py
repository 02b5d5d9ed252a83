"""The first process of a container: sets up its view, starts the program, passes signals on, reaps.

Where there is a namespace of processes it is number 1 there, and everything ends with it. Elsewhere it ends
what the program left behind.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from quarterdeck.cluster.agent.shim.bundle import join_cgroups
from quarterdeck.cluster.agent.shim.linux import (
    set_child_subreaper,
    set_death_signal,
    set_hostname,
    set_no_new_privileges,
    unshare,
)
from quarterdeck.cluster.agent.shim.order import Launch
from quarterdeck.cluster.agent.shim.root import enter_root

STARTED: Final = b"started"
_KEPT: Final = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD)
_OWN: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGPIPE)
"""Signals that speak of ourselves, and are not passed on."""


def run_inside(folder: Path, launch: Launch, stdio: Sequence[int], report: int) -> NoReturn:
    """Be the first process; never returns.

    ``report`` gets ``started``, or the reason why not, then the code and the signal the program ended with.
    """
    try:
        set_death_signal(signal.SIGKILL)
        _set_up(folder, launch)
        program = start_program(launch, stdio)
    except OSError as error:
        os.write(report, f"error {error.errno} {_words(error)}".encode())
        os._exit(1)
    os.write(report, STARTED + b"\n")
    code, number = _accompany(program)
    os.write(report, f"exit {code} {number}\n".encode())
    if "pid" not in launch.namespaces:
        end_children()
    os._exit(0)


def _set_up(folder: Path, launch: Launch) -> None:
    join_cgroups(launch)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(launch.oom_score))
    others = [name for name in launch.namespaces if name in ("mount", "uts", "ipc")]
    if others:
        unshare(*others)
    if "uts" in launch.namespaces and launch.hostname:
        set_hostname(launch.hostname[:64])
    if "mount" in launch.namespaces:
        enter_root(folder, launch)
    if "pid" not in launch.namespaces:
        set_child_subreaper()


def start_program(launch: Launch, stdio: Sequence[int]) -> int:
    """Start the program in a session of its own; its pid, or ``OSError`` if it cannot be started."""
    failed, failing = os.pipe()
    os.set_inheritable(failing, False)
    program = os.fork()
    if program == 0:
        os.close(failed)
        _become(launch, stdio, failing)
    os.close(failing)
    with os.fdopen(failed, "rb") as pipe:
        problem = pipe.read()
    if problem:
        os.waitpid(program, 0)
        number, _, text = problem.decode(errors="replace").partition(" ")
        raise OSError(int(number), text)
    return program


def _become(launch: Launch, stdio: Sequence[int], failing: int) -> NoReturn:
    try:
        os.setsid()
        set_death_signal(signal.SIGKILL)
        for number in range(1, signal.NSIG):
            if number not in _KEPT:
                with suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for place, descriptor in enumerate(stdio):
            os.dup2(descriptor, place)
        if launch.tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for name, value in launch.limits.items():
            _limit(getattr(resource, name), value)
        become_user(launch)
        if launch.no_new_privileges:
            set_no_new_privileges()
        os.umask(0o022)
        os.chdir(launch.cwd or "/")
        os.execve(find_program(launch), launch.argv, launch.env)  # noqa: S606  that is what it is for
    except OSError as error:
        os.write(failing, f"{error.errno or 0} {_reason(launch, error)}".encode())
    os._exit(127)


def _reason(launch: Launch, error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and error.filename == launch.argv[0]:
        return f'exec: "{launch.argv[0]}": executable file not found in $PATH'
    return f'exec: "{launch.argv[0]}": {_words(error)}'


def _words(error: OSError) -> str:
    """Without the number: whoever reads it knows no errno."""
    words = error.strerror or str(error)
    return f"{error.filename}: {words}" if error.filename is not None else words


def _limit(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(what, (value, value if hard == resource.RLIM_INFINITY else hard))


def become_user(launch: Launch) -> None:
    """Take the ids that the container wants; a user namespace has only them."""
    if "user" in launch.namespaces:
        return
    if launch.groups is not None and os.geteuid() == 0:
        os.setgroups(launch.groups)
    if launch.gid >= 0 and launch.gid != os.getegid():
        os.setgid(launch.gid)
    if launch.uid >= 0 and launch.uid != os.geteuid():
        os.setuid(launch.uid)


def find_program(launch: Launch) -> str:
    """Where the program is; raises ``FileNotFoundError`` for one that is not on the container's PATH."""
    name = launch.argv[0]
    if "/" in name:
        return name
    for folder in launch.env.get("PATH", os.defpath).split(":"):
        path = os.path.join(folder or ".", name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise FileNotFoundError(2, "executable file not found in $PATH", name)


def _accompany(program: int) -> tuple[int, int]:
    """Pass signals on and reap until the program has ended."""

    def pass_on(number: int, _frame: object) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(program, number)

    for number in range(1, signal.NSIG):
        if number not in (*_KEPT, *_OWN):
            with suppress(OSError, ValueError):
                signal.signal(number, pass_on)
    while True:
        pid, status = os.wait()
        if pid == program:
            return code_of(status)


def code_of(status: int) -> tuple[int, int]:
    """Exit code as containers have it, and the signal that ended the program, or 0."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status), os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def end_children() -> None:
    """End every descendant; those of them that lose their parent become our children, so none escapes."""
    while True:
        for child in children():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def children() -> list[int]:
    me = os.getpid()
    try:
        return [int(each) for each in Path(f"/proc/{me}/task/{me}/children").read_text().split()]
    except OSError:
        return []
