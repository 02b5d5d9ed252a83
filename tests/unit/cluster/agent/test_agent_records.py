"""Records of containers that are lost, damaged or of another boot, each with a process that is real."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.cluster.agent.container.container import Containers
from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.agent.pod.control import ContainerControl
from quarterdeck.cluster.agent.pod.ending import end_folder
from quarterdeck.cluster.agent.pod.plan import make_plan
from quarterdeck.cluster.agent.record.folder import PodFolder, PodRecord, RunRecord
from quarterdeck.cluster.agent.record.view import PodSight
from quarterdeck.cluster.agent.shim import order
from quarterdeck.cluster.agent.shim.order import (
    EXIT,
    LAUNCH,
    STATE,
    Launch,
    State,
    read_exit,
    read_state,
    start_of,
    write_record,
)
from quarterdeck.cluster.agent.shim.search import find_state, take_lock

from .podkit import pod

DAMAGE = [b"", b"{", b"[]", b'{"unknown": 1}', None]


pytestmark = pytest.mark.real_time


@pytest.fixture
def containers() -> Containers:
    return Containers()


@pytest.fixture
async def folder(tmp_path: Path, containers: Containers) -> AsyncIterator[PodFolder]:
    """A pod whose container runs."""
    made = PodFolder(tmp_path, "u")
    made.set_up(PodRecord(namespace="n", name="p", uid="u"))
    path = made.begin_run("main", 0, RunRecord(attempt=0, created=1.0))
    launch = Launch(argv=["sleep", "600"], env={"PATH": os.defpath}, is_writable=True)
    await containers.start(path, launch)
    state = read_state(path)
    assert state is not None
    try:
        yield made
    finally:
        for pid, start in ((state.init, state.init_start), (state.shim, state.shim_start)):
            if start_of(pid) == start:
                os.kill(pid, signal.SIGKILL)


def run_of(folder: PodFolder) -> tuple[Path, State]:
    path = folder.run_path("main", 0)
    state = read_state(path)
    assert state is not None
    return path, state


def damage(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)


def control_of(folder: PodFolder, containers: Containers) -> ContainerControl:
    return ContainerControl(
        "main",
        folder,
        containers,
        Dialer(),
        tell=lambda *_, **__: None,
        wake=lambda: None,
        spawn=None,  # type: ignore[arg-type]  # nothing is begun
    )


@pytest.mark.parametrize("data", DAMAGE)
async def test_a_container_with_a_lost_state_goes_on_and_is_known_again(
    folder: PodFolder, data: bytes | None
) -> None:
    path, state = run_of(folder)
    damage(path / STATE, data)
    run = folder.read_run("main", 0)
    assert run is not None
    assert run.is_running
    found = read_state(path)
    assert found is not None
    assert (found.shim, found.shim_start) == (state.shim, state.shim_start)
    assert (found.init, found.init_start) == (state.init, state.init_start)


@pytest.mark.parametrize("name", [STATE, EXIT, LAUNCH, "run.json", "../../pod.json"])
async def test_the_end_of_a_pod_needs_none_of_its_records(
    folder: PodFolder, containers: Containers, name: str
) -> None:
    path, state = run_of(folder)
    (path / name).write_bytes(b"")
    async with asyncio.timeout(30):
        await end_folder(containers, [], folder, "")
    assert start_of(state.init) == start_of(state.shim) == ""
    assert not folder.exists


async def test_a_container_with_lost_records_is_stopped_in_order(
    folder: PodFolder, containers: Containers
) -> None:
    path, state = run_of(folder)
    for name in (STATE, LAUNCH, "run.json"):
        (path / name).write_bytes(b"")
    control = control_of(folder, containers)
    run = control.look().run
    assert run is not None
    async with asyncio.timeout(30):
        await control.stop(pod(), pod().spec.containers[0], run, 20.0)
    ended = read_exit(path)
    assert ended is not None
    assert ended.signal == signal.SIGTERM
    assert start_of(state.init) == ""


async def test_a_run_that_was_begun_and_never_started_can_be_stopped(
    tmp_path: Path, containers: Containers
) -> None:
    made = PodFolder(tmp_path, "u")
    made.set_up(PodRecord(namespace="n", name="p", uid="u"))
    path = made.begin_run("main", 0, RunRecord(attempt=0, created=1.0))
    control = control_of(made, containers)
    run = control.look().run
    assert run is not None
    async with asyncio.timeout(10):
        await control.stop(pod(), pod().spec.containers[0], run, 30.0)
    assert made.read_run("main", 0).is_ended
    await containers.start(path, Launch(argv=["sleep", "600"], env={"PATH": os.defpath}))
    assert find_state(path) is None, "whoever was late starts nothing"


async def test_nobody_begins_a_run_whose_lock_is_held(tmp_path: Path, containers: Containers) -> None:
    made = PodFolder(tmp_path, "u")
    made.set_up(PodRecord(namespace="n", name="p", uid="u"))
    path = made.begin_run("main", 0, RunRecord(attempt=0, created=1.0))
    lock = take_lock(path)
    assert lock is not None
    assert take_lock(path) is None
    await containers.start(path, Launch(argv=["sleep", "600"], env={"PATH": os.defpath}))
    assert find_state(path) is None
    os.close(lock)


def test_a_process_of_another_boot_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is the process of this very test, which must not be taken for a container, nor be ended."""
    made = PodFolder(tmp_path, "u")
    made.set_up(PodRecord(namespace="n", name="p", uid="u"))
    path = made.begin_run("main", 0, RunRecord(attempt=3, created=1.0))
    monkeypatch.setattr(order, "_boot", lambda: "an-earlier-boot")
    me = os.getpid()
    before = start_of(me)
    write_record(path, STATE, State(shim=me, shim_start=before, init=me, init_start=before, started=2.0))
    monkeypatch.undo()
    assert made.shim_of("main", 0) == 0
    assert Containers().signal(path, signal.SIGKILL) is False
    run = made.read_run("main", 0)
    assert run is not None
    assert (run.is_ended, run.code, run.attempt) == (True, 137, 3)


@pytest.mark.parametrize("data", DAMAGE)
def test_the_wait_before_a_restart_outlives_the_record_of_the_run(
    tmp_path: Path, containers: Containers, data: bytes | None
) -> None:
    """A container that was restarted often does not begin anew without a wait."""
    made = PodFolder(tmp_path, "u")
    made.set_up(PodRecord(namespace="n", name="p", uid="u"))
    path = made.begin_run("main", 4, RunRecord(attempt=4, created=1.0))
    write_record(path, EXIT, order.Exit(code=1, finished=time.time()))
    damage(path / "run.json", data)
    sight = PodSight(containers={"main": control_of(made, containers).look()}, now=0.0, steady=0.0)
    plan = make_plan(pod(), sight)
    assert plan.start == ()
    assert plan.after == pytest.approx(80.0, abs=1.0)


def test_records_are_on_disk_before_they_have_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def told_sync(descriptor: int) -> None:
        steps.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        sync(descriptor)

    def told_replace(source: Path, target: Path) -> None:
        steps.append("name")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", told_sync)
    monkeypatch.setattr(os, "replace", told_replace)
    made = PodFolder(tmp_path, "u")
    made.set_up(PodRecord(namespace="n", name="p", uid="u"))
    assert steps == ["file", "name", "folder", "folder"]
    steps.clear()
    path = made.begin_run("main", 0, RunRecord(attempt=0, created=1.0))
    assert steps == ["file", "name", "folder", "folder", "folder"]
    steps.clear()
    write_record(path, STATE, State(shim=1, shim_start=""))
    assert steps == ["file", "name", "folder"]
