"""The process that stays beside a container: keeps the log, serves the attached, writes down the end."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from quarterdeck.cluster.agent.shim import attach
from quarterdeck.cluster.agent.shim.bundle import (
    end_entered,
    entered_code,
    forget_entered,
    make_bundle,
    remove_bundle,
    start_bundle,
)
from quarterdeck.cluster.agent.shim.enter import start_entering
from quarterdeck.cluster.agent.shim.inside import STARTED, children, code_of, end_children, run_inside
from quarterdeck.cluster.agent.shim.linux import set_child_subreaper, unshare
from quarterdeck.cluster.agent.shim.order import (
    EXIT,
    LOCK,
    LOG,
    STATE,
    Exit,
    Launch,
    State,
    read_exit,
    read_launch,
    start_of,
    write_record,
)
from quarterdeck.cluster.agent.shim.output import LogWriter
from quarterdeck.cluster.agent.shim.root import remove_root

_CHUNK: Final = 64 * 1024
_DRAIN_SECONDS: Final = 2.0
_NOT_FOUND: Final = 127
_NOT_RUNNABLE: Final = 126


def run(folder: Path) -> None:
    """Start the container of a folder and return when it runs or cannot; a process stays behind."""
    os.chdir(folder)
    folder = Path(os.getcwd())
    waiting, telling = os.pipe()
    if os.fork() > 0:
        os.close(telling)
        os.read(waiting, 1)  # ends when the other side has said so, or is gone
        return
    os.close(waiting)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    _stay(folder, telling)


def _stay(folder: Path, telling: int) -> NoReturn:
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os._exit(0)  # somebody runs it already
    launch = read_launch(folder)
    if launch is None or read_exit(folder) is not None:
        os._exit(0)
    _leave_terminal()
    try:
        _Shim(folder, launch).run(telling)
    except OSError as error:
        record = Exit(code=128, finished=time.time(), error=f"the shim failed: {error}")
        write_record(folder, EXIT, record)
    os._exit(0)


def _leave_terminal() -> None:
    """Keep no descriptor of whoever started us."""
    null = os.open(os.devnull, os.O_RDWR)
    for place in (0, 1, 2):
        os.dup2(null, place)
    if null > 2:
        os.close(null)


class _Shim:
    def __init__(self, folder: Path, launch: Launch) -> None:
        self._folder: Final = folder
        self._launch: Final = launch
        self._selector: Final = selectors.DefaultSelector()
        self._clients: Final[list[attach.Client]] = []
        self._log: Final = LogWriter(folder / LOG, max_bytes=launch.log_bytes, max_files=launch.log_files)
        self._outputs: Final[dict[int, bytes]] = {}
        self._input = -1
        self._unwritten = bytearray()
        self._ends_input = False
        self._terminal = -1
        self._report = b""
        self._init = 0
        self._child_ended = -1
        self._runners: Final[dict[int, attach.Client]] = {}
        """Who waits for the program behind a descriptor of its process."""

    def run(self, telling: int) -> None:
        stdio = self._make_stdio()
        reported, reporting = os.pipe()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with suppress(FileNotFoundError):
            os.unlink(attach.SOCKET)
        listener.bind(attach.SOCKET)  # relative: the path of a socket must not be long
        listener.listen(8)
        listener.setblocking(False)
        me = os.getpid()
        state = State(shim=me, shim_start=start_of(me))
        write_record(self._folder, STATE, state)
        set_child_subreaper()
        if self._launch.bundle is not None:
            init = self._start_bundle(stdio, reporting)
        else:
            init = self._start_inside(stdio, reported, reporting, listener, telling)
        self._init = init
        for descriptor in {*stdio, reporting}:
            os.close(descriptor)
        self._wait_started(reported)
        if STARTED in self._report:
            started = State(
                shim=me,
                shim_start=state.shim_start,
                init=init,
                init_start=start_of(init) or "0",
                started=time.time(),
            )
            write_record(self._folder, STATE, started)
            os.close(telling)  # otherwise it is told that it ended, when that is written down
        self._serve(reported, listener, init)
        self._finish(init)

    def _start_inside(
        self,
        stdio: tuple[int, int, int],
        reported: int,
        reporting: int,
        listener: socket.socket,
        telling: int,
    ) -> int:
        self._enter_namespaces()
        sys.stdout.flush()
        init = os.fork()
        if init == 0:
            os.close(reported)
            listener.close()
            for descriptor in (*self._outputs, telling, self._input if self._terminal < 0 else -1):
                with suppress(OSError):
                    os.close(descriptor)
            run_inside(self._folder, self._launch, stdio, reporting)
        return init

    def _start_bundle(self, stdio: tuple[int, int, int], reporting: int) -> int:
        """Let the OCI runtime make the container and start it; 0 if it cannot, and the report says why."""
        try:
            init, terminal = make_bundle(self._folder, self._launch, stdio)
            if terminal >= 0:
                self._outputs[terminal] = b"stdout"
                self._terminal = self._input = terminal
            start_bundle(self._folder, self._launch)
        except OSError as error:
            program, words = self._launch.argv[0], str(error.strerror or error)
            text = words if program in words else f"{program}: {words}"
            os.write(reporting, f"error {error.errno} {text}".encode())
            return 0
        os.write(reporting, STARTED + b"\n")
        return init

    def _make_stdio(self) -> tuple[int, int, int]:
        """Descriptors for the program; ours are kept."""
        if self._launch.tty and self._launch.bundle is not None:  # it makes the terminal itself
            null = os.open(os.devnull, os.O_RDWR)
            return null, null, null
        if self._launch.tty:
            ours, theirs = os.openpty()
            self._outputs[ours] = b"stdout"
            self._terminal = self._input = ours
            os.set_blocking(ours, False)
            return theirs, theirs, theirs
        if self._launch.stdin:
            stdin, self._input = os.pipe()
            os.set_blocking(self._input, False)
        else:
            stdin = os.open(os.devnull, os.O_RDONLY)
        theirs_out, theirs_err = self._output(b"stdout"), self._output(b"stderr")
        return stdin, theirs_out, theirs_err

    def _output(self, name: bytes) -> int:
        ours, theirs = os.pipe()
        self._outputs[ours] = name
        return theirs

    def _enter_namespaces(self) -> None:
        launch = self._launch
        if "user" in launch.namespaces:
            uid, gid = os.geteuid(), os.getegid()
            unshare("user")
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{launch.uid if launch.uid >= 0 else uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{launch.gid if launch.gid >= 0 else gid} {gid} 1")
        if "pid" in launch.namespaces:
            unshare("pid")

    def _wait_started(self, reported: int) -> None:
        while b"\n" not in self._report:
            data = os.read(reported, _CHUNK)
            if not data:
                return
            self._report += data

    def _serve(self, reported: int, listener: socket.socket, init: int) -> None:
        """Carry bytes until the container has ended and everything it said is written down."""
        if not init:
            return
        end = os.pidfd_open(init)
        select = self._selector
        for descriptor in (*self._outputs, reported, end):
            select.register(descriptor, selectors.EVENT_READ)
        select.register(listener, selectors.EVENT_READ)
        if self._launch.bundle is not None:
            self._watch_children()
        deadline: float | None = None
        while deadline is None or (self._outputs and time.monotonic() < deadline):
            for key in ready_keys(select, None if deadline is None else 0.1):
                if key.fd == end:
                    deadline = time.monotonic() + _DRAIN_SECONDS
                    select.unregister(end)
                    self._reap(init)
                elif key.fd == reported:
                    self._take_report(reported)
                elif key.fd == self._child_ended:
                    self._reap_orphans(init)
                elif key.fileobj is listener:
                    self._accept(listener)
                elif key.fd in self._runners:
                    self._program_ended(key.fd)
                elif isinstance(key.data, attach.Client):
                    self._serve_client(key.data)
                elif key.fd == self._input and self._terminal < 0:
                    self._write_input()
                else:
                    self._take_output(key.fd)

    def _watch_children(self) -> None:
        """Hear of processes that end: the OCI runtime leaves some to us, and the container's first process
        cannot end as long as one of them is not reaped."""
        self._child_ended, telling = os.pipe()
        os.set_blocking(self._child_ended, False)
        os.set_blocking(telling, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(telling, warn_on_full_buffer=False)
        self._selector.register(self._child_ended, selectors.EVENT_READ)
        os.write(telling, b"\0")  # one may have ended already

    def _reap_orphans(self, init: int) -> None:
        with suppress(BlockingIOError):
            os.read(self._child_ended, _CHUNK)
        known = {init, *(client.runner for client in self._runners.values())}
        for child in children():
            if child not in known:
                with suppress(ChildProcessError):
                    os.waitpid(child, os.WNOHANG)

    def _reap(self, init: int) -> None:
        _, status = os.waitpid(init, 0)
        if b"exit " not in self._report:
            code, number = code_of(status)
            self._report += f"\nexit {code} {number}\n".encode()
        for watched in tuple(self._runners):  # they end with the container
            self._end_program(self._runners[watched].runner)
            self._program_ended(watched)
        end_children()

    def _take_report(self, reported: int) -> None:
        data = os.read(reported, _CHUNK)
        self._report += data
        if not data:
            self._selector.unregister(reported)

    def _take_output(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a terminal that nobody has open any more
            data = b""
        if not data:
            self._selector.unregister(descriptor)
            del self._outputs[descriptor]
            return
        stream = self._outputs[descriptor]
        self._log.write(stream, data.replace(b"\r\n", b"\n") if self._terminal >= 0 else data)
        message = attach.frame(attach.OUTPUT[stream], data)
        for client in [each for each in self._clients if not each.runner]:
            if not client.send(message):
                self._drop(client)
            else:
                self._watch(client)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            client = attach.Client(listener.accept()[0])
            self._clients.append(client)
            self._selector.register(client.connection, selectors.EVENT_READ, client)

    def _watch(self, client: attach.Client) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.has_unsent else 0)
        self._selector.modify(client.connection, events, client)

    def _drop(self, client: attach.Client) -> None:
        self._selector.unregister(client.connection)
        self._clients.remove(client)
        client.connection.close()
        for descriptor in client.descriptors:
            os.close(descriptor)
        if client.runner:
            self._end_program(client.runner)
        elif self._launch.stdin_once:
            self._end_input()

    def _start_program(self, client: attach.Client, request: bytes) -> None:
        """Run another program for a client, with the descriptors it sent."""
        stdio, client.descriptors = client.descriptors, []
        if len(stdio) == 3 and not client.runner:
            client.runner = start_entering(self._launch, self._init, request, (stdio[0], stdio[1], stdio[2]))
            watched = os.pidfd_open(client.runner)
            self._runners[watched] = client
            self._selector.register(watched, selectors.EVENT_READ)
        for descriptor in stdio:
            os.close(descriptor)

    def _end_program(self, runner: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(runner, signal.SIGKILL)
        if self._launch.bundle is not None:
            end_entered(self._folder, runner)

    def _program_ended(self, watched: int) -> None:
        client = self._runners.pop(watched)
        self._selector.unregister(watched)
        os.close(watched)
        code, _ = code_of(os.waitpid(client.runner, 0)[1])
        if self._launch.bundle is not None:
            code = entered_code(self._folder, client.runner, code)
            forget_entered(self._folder, client.runner)
        client.runner = 0
        if client in self._clients:
            client.send(attach.frame(attach.EXIT_CODE, bytes([code])))
            self._drop(client)

    def _serve_client(self, client: attach.Client) -> None:
        frames = client.receive()
        if frames is None or not client.flush():
            self._drop(client)
            return
        self._watch(client)
        for channel, data in frames:
            if channel == attach.INPUT and self._input >= 0:
                self._unwritten += data
                self._write_input()
            elif channel == attach.END_OF_INPUT:
                self._end_input()
            elif channel == attach.ENTER:
                self._start_program(client, data)
            elif channel == attach.RESIZE and self._terminal >= 0 and len(data) == 4:
                width, height = struct.unpack(">HH", data)
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def _write_input(self) -> None:
        try:
            while self._unwritten:
                del self._unwritten[: os.write(self._input, self._unwritten)]
        except BlockingIOError:
            self._wait_for_input_room(True)
            return
        except OSError:
            self._unwritten.clear()
            self._ends_input = True
        self._wait_for_input_room(False)
        if self._ends_input and self._terminal < 0 and self._input >= 0:
            os.close(self._input)
            self._input = -1

    def _wait_for_input_room(self, is_waiting: bool) -> None:
        if self._terminal >= 0:
            return  # a terminal is read all the time, and takes what it can
        is_registered = self._input in self._selector.get_map()
        if is_waiting and not is_registered:
            self._selector.register(self._input, selectors.EVENT_WRITE)
        elif not is_waiting and is_registered:
            self._selector.unregister(self._input)

    def _end_input(self) -> None:
        if self._input >= 0 and self._terminal < 0:
            self._ends_input = True
            self._write_input()

    def _finish(self, init: int) -> None:
        self._log.close()
        code, number, error = 128, 0, ""
        for line in self._report.decode(errors="replace").splitlines():
            word, _, rest = line.partition(" ")
            if word == "exit" and not error:
                code, number = (int(each) for each in rest.split())
            elif word == "error":
                reason, _, error = rest.partition(" ")
                code = _NOT_RUNNABLE if reason == "13" else _NOT_FOUND if reason == "2" else 128
        record = Exit(
            code=code,
            signal=number,
            finished=time.time(),
            error=error,
            is_oom=_was_short_of_memory(self._launch),
        )
        if self._launch.bundle is not None:
            remove_bundle(self._folder, self._launch)
        elif "mount" in self._launch.namespaces:  # in the container's own; here nothing is mounted
            remove_root(self._folder)
        write_record(self._folder, EXIT, record)
        with suppress(OSError):
            os.unlink(attach.SOCKET)


def ready_keys(selector: selectors.BaseSelector, timeout: float | None) -> Iterator[selectors.SelectorKey]:
    """What is ready, but for what was let go of since: a container and a program in it may end at once."""
    for key, _ in selector.select(timeout):
        if selector.get_map().get(key.fd) is key:
            yield key


def _was_short_of_memory(launch: Launch) -> bool:
    """Whether the kernel ended a process of the container for lack of memory."""
    for cgroup in launch.cgroups:
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                for line in Path(cgroup, name).read_text().splitlines():
                    word, _, count = line.partition(" ")
                    if word == "oom_kill" and count != "0":
                        return True
    return False
