"""Where a node keeps its pods: the folders, and what can be read from them after a restart. Blocking.

    <node>/pods/<uid>/pod.json                      who it is, and its address
    <node>/pods/<uid>/first-runs.json               where all containers began again, if they did
    <node>/pods/<uid>/volumes/<volume>/             what is mounted
    <node>/pods/<uid>/etc/{hosts,hostname,…}        files of the pod's own
    <node>/pods/<uid>/c-<container>/<restart>/      one run: see ``shim.order``; ``run.json`` is the agent's

Nothing else is remembered.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from quarterdeck.cluster.agent.record.log import last_lines
from quarterdeck.cluster.agent.record.view import Run
from quarterdeck.cluster.agent.shim.order import (
    EXIT,
    Exit,
    State,
    read_exit,
    read_state,
    start_of,
    sync_folder,
    write_durably,
    write_record,
)
from quarterdeck.cluster.agent.shim.search import find_state, take_lock

_POD: Final = "pod.json"
_RUN: Final = "run.json"
_FIRST_RUNS: Final = "first-runs.json"
MESSAGE: Final = "message"
_MESSAGE_BYTES: Final = 4096
_FALLBACK_LINES: Final = 80
_FALLBACK_BYTES: Final = 2048
_KILLED: Final = 137


class PodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who a folder belongs to."""

    namespace: str
    name: str
    uid: str
    ip: str = ""
    runtime: str = "process"


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent knows of a run beyond what the shim writes."""

    attempt: int
    created: float
    image: str = ""
    image_id: str = ""
    falls_back_to_log: bool = False
    """Whether the end of the log stands in for last words."""


def pod_folders(node: Path) -> list[PodFolder]:
    """All pods that this node has, or has begun to have."""
    with suppress(FileNotFoundError):
        return [PodFolder(node, entry.name) for entry in os.scandir(node / "pods") if entry.is_dir()]
    return []


class PodFolder:
    """The folder of one pod."""

    def __init__(self, node: Path, uid: str) -> None:
        self.uid: Final = uid
        self.path: Final = node / "pods" / uid

    @property
    def exists(self) -> bool:
        """Whether anything is here of the pod."""
        return self.path.exists()

    def record(self) -> PodRecord | None:
        """Who it belongs to; None if it was never set up."""
        try:
            return msgspec.json.decode((self.path / _POD).read_bytes(), type=PodRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def set_up(self, record: PodRecord) -> None:
        """Make it."""
        for name in ("volumes", "etc"):
            (self.path / name).mkdir(parents=True, exist_ok=True, mode=0o755)
        self.path.chmod(0o755)  # programs of other users go through it, and see only what is theirs
        write_durably(self.path / _POD, msgspec.json.encode(record))
        sync_folder(self.path.parent)

    def volume(self, name: str) -> Path:
        """The folder of a volume."""
        return self.path / "volumes" / name

    def etc(self, name: str) -> Path:
        """A file of the pod's own."""
        return self.path / "etc" / name

    def run_path(self, container: str, number: int) -> Path:
        """The folder of one run."""
        return self.path / f"c-{container}" / str(number)

    def containers(self) -> list[str]:
        """Names of containers that have been run."""
        with suppress(FileNotFoundError):
            return [each.name[2:] for each in os.scandir(self.path) if each.name.startswith("c-")]
        return []

    def run_numbers(self, container: str) -> list[int]:
        """Runs that are kept, oldest first."""
        with suppress(FileNotFoundError):
            names = (each.name for each in os.scandir(self.path / f"c-{container}"))
            return sorted(int(name) for name in names if name.isdigit())
        return []

    def begin_run(self, container: str, number: int, record: RunRecord) -> Path:
        """Make the folder of a run; runs before the previous one are forgotten."""
        path = self.run_path(container, number)
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
        message = path / MESSAGE
        message.touch(mode=0o666)
        message.chmod(0o666)
        write_durably(path / _RUN, msgspec.json.encode(record))
        for folder in (path.parent, self.path):
            sync_folder(folder)
        for old in self.run_numbers(container):
            if old < number - 1:
                remove_tree(self.run_path(container, old))
        return path

    def first_runs(self) -> dict[str, int]:
        """The number of each container's first run since all of them began again; empty if they never did."""
        try:
            return msgspec.json.decode((self.path / _FIRST_RUNS).read_bytes(), type=dict[str, int])
        except (OSError, msgspec.DecodeError):
            return {}

    def begin_again(self, containers: Iterable[str]) -> None:
        """From now on these containers are such that have not been run."""
        numbers = {name: self.run_numbers(name) for name in containers}
        first = {name: found[-1] + 1 for name, found in numbers.items() if found}
        write_durably(self.path / _FIRST_RUNS, msgspec.json.encode(first))

    def read_run(self, container: str, number: int) -> Run | None:
        """What is known of a run; None if it was not begun.

        A run whose shim is gone without a word is marked as ended here.
        """
        path = self.run_path(container, number)
        try:
            record = msgspec.json.decode((path / _RUN).read_bytes(), type=RunRecord)
        except (OSError, msgspec.DecodeError):
            if not path.exists():
                return None
            # Whatever was lost with it, the container must not be run more often than it may.
            record = RunRecord(attempt=number, created=path.stat().st_mtime)
        ended = read_exit(path)
        state = find_state(path) if ended is None else read_state(path)
        if ended is None and state is not None and start_of(state.shim) != state.shim_start:
            ended = read_exit(path)  # it may have written it in between
            if ended is None:
                _end_leftover(state)
                ended = Exit(
                    code=_KILLED, finished=time.time(), error="" if state.started else "the shim was killed"
                )
                write_record(path, EXIT, ended)
        run = Run(
            number=number,
            attempt=record.attempt,
            created=record.created,
            started=state.started if state is not None else 0.0,
            image=record.image,
            image_id=record.image_id,
        )
        if ended is None:
            return run
        return msgspec.structs.replace(
            run,
            is_ended=True,
            code=ended.code,
            signal=ended.signal,
            finished=ended.finished,
            error=ended.error,
            is_oom=ended.is_oom,
            message=_last_words(path, record, ended),
        )

    def shim_of(self, container: str, number: int) -> int:
        """The pid of a run's shim; 0 if it is gone."""
        state = find_state(self.run_path(container, number))
        return state.shim if state is not None and start_of(state.shim) == state.shim_start else 0

    def give_up_run(self, container: str, number: int) -> bool:
        """End a run that was never started, so that it never is; whether that was so."""
        path = self.run_path(container, number)
        try:
            lock = take_lock(path)
        except FileNotFoundError:
            return True
        if lock is None:
            return False
        try:
            if read_exit(path) is None and find_state(path) is None:
                error = "the container was not started"
                write_record(path, EXIT, Exit(code=_KILLED, finished=time.time(), error=error))
            return True
        finally:
            os.close(lock)

    def runs(self) -> list[tuple[str, int]]:
        """Every run that is kept, by container and number."""
        return [(name, number) for name in self.containers() for number in self.run_numbers(name)]


def _end_leftover(state: State) -> None:
    """End a container whose shim was killed; most kinds of containers end with it by themselves."""
    if state.init and start_of(state.init) == state.init_start:
        with suppress(ProcessLookupError):
            os.kill(state.init, signal.SIGKILL)


def _last_words(path: Path, record: RunRecord, ended: Exit) -> str:
    try:
        with (path / MESSAGE).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _MESSAGE_BYTES))
            words = file.read().decode(errors="replace")
    except OSError:
        words = ""
    if words or ended.code == 0 or not record.falls_back_to_log:
        return words
    return last_lines(path, _FALLBACK_LINES, _FALLBACK_BYTES)


def remove_tree(path: Path) -> None:
    """Remove a folder, whatever rights its contents have."""

    for folder, _, _ in os.walk(path):  # top down: a folder must be open before it is looked into
        with suppress(OSError):
            os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)
