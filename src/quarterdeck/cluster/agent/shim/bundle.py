"""Containers by an OCI runtime (``crun`` or ``runc``): made, started, entered, removed.

The bundle is the container's folder. The root is mounted in a mount namespace of the shim's own, so nothing
of it outlives shim and container, whatever ends them.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from quarterdeck.cluster.agent.shim.linux import MS_PRIVATE, MS_REC, detach, mount, unshare
from quarterdeck.cluster.agent.shim.order import Bundle, Launch

_CONFIG: Final = "config.json"
_PIDS: Final = "entered"
"""Folder with the pids of other programs, by that of the runtime that waits for them."""
_ROOT: Final = "rootfs"
_STATE: Final = "state"
_LOG: Final = "runtime.log"
_PID: Final = "pid"
_CONSOLE: Final = "console.sock"
_SECOND_CGROUPS: Final = "/sys/fs/cgroup/unified"
_NOT_FOUND: Final = ("not found", "no such file or directory")
_NOT_ALLOWED: Final = ("permission denied",)


def make_bundle(folder: Path, launch: Launch, stdio: tuple[int, int, int]) -> tuple[int, int]:
    """Make the container, which waits to be started: its first process, and its terminal or -1.

    Raises ``OSError`` with the runtime's words.
    """
    bundle = _bundle(launch)
    unshare("mount")
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    with suppress(OSError):  # crun gives up where it sees both versions of control groups
        detach(_SECOND_CGROUPS)
    _hold_image(bundle)
    _mount_root(folder, bundle)
    (folder / _CONFIG).write_text(json.dumps(bundle.config))
    words = ["create", "--bundle", str(folder), "--pid-file", _PID]
    listener = None
    if launch.tty:
        with suppress(FileNotFoundError):
            os.unlink(_CONSOLE)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(_CONSOLE)  # relative: the path of a socket must not be long
        listener.listen(1)
        words += ["--console-socket", _CONSOLE]
    try:
        _run(folder, launch, [*words, bundle.identity], stdio)
        terminal = _take_terminal(listener) if listener is not None else -1
    finally:
        if listener is not None:
            listener.close()
            os.unlink(_CONSOLE)
    return int(Path(_PID).read_text()), terminal


def start_bundle(folder: Path, launch: Launch) -> None:
    """Let the program run. Raises ``OSError``."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        _run(folder, launch, ["start", _bundle(launch).identity], (null, null, null))
    finally:
        os.close(null)


def remove_bundle(folder: Path, launch: Launch) -> None:
    """Take away what the runtime keeps, and what the container wrote: it has ended."""
    null = os.open(os.devnull, os.O_RDWR)
    with suppress(OSError):
        _run(folder, launch, ["delete", "--force", _bundle(launch).identity], (null, null, null))
    os.close(null)
    with suppress(OSError):
        detach(_ROOT)
    for name in (_ROOT, "upper", "work", _PIDS):
        shutil.rmtree(folder / name, ignore_errors=True)


def enter_bundle(folder: Path, launch: Launch, command: list[str], *, tty: bool) -> NoReturn:
    """Become the runtime that runs another program in the container. Raises ``OSError``."""
    process: dict[str, Any] = {**_bundle(launch).config["process"], "args": command, "terminal": tty}
    if tty:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        process["env"] = [*process["env"], "TERM=xterm"]
    (folder / _PIDS).mkdir(exist_ok=True)
    me = os.getpid()
    file = folder / _PIDS / f"{me}.json"
    file.write_text(json.dumps(process))
    words = ["exec", "--process", str(file), "--pid-file", str(folder / _PIDS / str(me))]
    argv = [*_start_of(folder, _bundle(launch)), *words, _bundle(launch).identity]
    os.execv(argv[0], argv)  # noqa: S606  that is what it is for


def entered_code(folder: Path, runner: int, code: int) -> int:
    """What a program that was entered ended with, if the runtime that ran it ended with ``code``.

    One that could not be started has the code that a shell would tell.
    """
    if code == 0 or (folder / _PIDS / str(runner)).exists():
        return code
    return 127 if _number_of(_last_error(folder)) == 2 else 126


def end_entered(folder: Path, runner: int) -> None:
    """End a program that was entered, for whose end nobody waits any more."""
    with suppress(OSError, ValueError):
        pid, first = (int(path.read_text()) for path in (folder / _PIDS / str(runner), folder / _PID))
        if _processes_of(pid) == _processes_of(first):  # the number may be somebody else's by now
            os.kill(pid, signal.SIGKILL)
    forget_entered(folder, runner)


def _processes_of(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/pid")


def forget_entered(folder: Path, runner: int) -> None:
    """A program that was entered has ended."""
    for name in (str(runner), f"{runner}.json"):
        with suppress(OSError):
            (folder / _PIDS / name).unlink()


def _bundle(launch: Launch) -> Bundle:
    assert launch.bundle is not None
    return launch.bundle


def _hold_image(bundle: Bundle) -> None:
    """Keep the image from being removed; the kernel lets go of the lock when this process ends."""
    with suppress(FileNotFoundError):
        lock = os.open(f"{bundle.image}.lock", os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_SH)


def _mount_root(folder: Path, bundle: Bundle) -> None:
    """The image's files with a layer of the container's own on top; a copy of them where that cannot be."""
    mode = os.stat(bundle.image).st_mode & 0o7777
    for name in (_ROOT, "upper", "work"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "upper").chmod(mode)
    places = {
        "lowerdir": bundle.image,
        "upperdir": str(folder / "upper"),
        "workdir": str(folder / "work"),
    }
    options = ",".join(f"{name}={_escaped(path)}" for name, path in places.items())
    try:
        mount("overlay", str(folder / _ROOT), "overlay", options=options)
    except OSError:
        done = subprocess.run(  # noqa: S603  a program of the machine's
            ["cp", "-a", "--reflink=auto", f"{bundle.image}/.", str(folder / _ROOT)],  # noqa: S607
            stderr=subprocess.PIPE,
            check=False,
        )
        if done.returncode != 0:
            text = done.stderr.decode(errors="replace").strip()
            raise OSError(5, f"the image could not be copied: {text}") from None


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


def _start_of(folder: Path, bundle: Bundle) -> list[str]:
    log = ["--log", str(folder / _LOG), "--log-format", "json"]
    return [bundle.program, *bundle.options, "--root", str(folder / _STATE), *log]


def _run(folder: Path, launch: Launch, words: list[str], stdio: tuple[int, int, int]) -> None:
    (folder / _LOG).unlink(missing_ok=True)
    argv = [*_start_of(folder, _bundle(launch)), *words]
    runner = os.fork()
    if runner == 0:
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            join_cgroups(launch)
            for place, descriptor in enumerate(stdio):
                os.dup2(descriptor, place)
            os.closerange(3, 1 << 16)
            os.execv(argv[0], argv)  # noqa: S606  that is what it is for
        finally:
            os._exit(127)
    status = os.waitpid(runner, 0)[1]
    if status != 0:
        text = _last_error(folder) or f"{os.path.basename(argv[0])} {words[0]} ended with status {status}"
        raise OSError(_number_of(text), text)


def join_cgroups(launch: Launch) -> None:
    """Go to the container's control groups, as far as that is allowed."""
    for cgroup in launch.cgroups:
        with suppress(OSError):  # said in an event when the pod was set up
            Path(cgroup, "cgroup.procs").write_text("0")


def _last_error(folder: Path) -> str:
    """What the runtime said last."""
    text = ""
    with suppress(OSError):
        for line in (folder / _LOG).read_text(errors="replace").splitlines():
            with suppress(ValueError):
                entry = json.loads(line)
                if entry.get("level") in ("error", "fatal"):
                    text = str(entry.get("msg", ""))
    return text


def _number_of(text: str) -> int:
    lowered = text.lower()
    if any(words in lowered for words in _NOT_FOUND):
        return 2
    return 13 if any(words in lowered for words in _NOT_ALLOWED) else 1


def _take_terminal(listener: socket.socket) -> int:
    listener.settimeout(10.0)
    connection, _ = listener.accept()
    with connection:
        _, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
    os.set_blocking(descriptors[0], False)
    return descriptors[0]
