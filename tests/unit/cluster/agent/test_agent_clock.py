"""What becomes of waits when the time of day jumps."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from quarterdeck.cluster.agent.container.container import Containers
from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.agent.pod.control import ContainerControl
from quarterdeck.cluster.agent.pod.plan import make_plan
from quarterdeck.cluster.agent.record.folder import PodFolder, PodRecord, RunRecord
from quarterdeck.cluster.agent.record.view import PodSight
from quarterdeck.cluster.agent.shim.order import EXIT, Exit, write_record

from .podkit import pod


class Clocks:
    """The time of day, which can be set, and the steady clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.day, self.steady = 1_700_000_000.0, 5_000.0
        monkeypatch.setattr(time, "time", lambda: self.day)
        monkeypatch.setattr(time, "monotonic", lambda: self.steady)

    def pass_by(self, seconds: float) -> None:
        self.day += seconds
        self.steady += seconds


def ended_container(folder: PodFolder, *, at: float) -> ContainerControl:
    """A container whose third run in a row has failed."""
    folder.set_up(PodRecord(namespace="n", name="p", uid="u"))
    folder.begin_run("main", 2, RunRecord(attempt=2, created=at - 1))
    write_record(folder.run_path("main", 2), EXIT, Exit(code=1, finished=at))

    def unused(*_: object, **__: object) -> None:
        raise AssertionError("nothing is told, started or woken")

    return ContainerControl(
        "main",
        folder,
        Containers(),
        Dialer(),
        tell=unused,
        wake=unused,
        spawn=unused,  # type: ignore[arg-type]
    )


def due(control: ContainerControl) -> tuple[int, float]:
    """Runs to start now, and seconds until the next."""
    sight = PodSight(containers={"main": control.look()}, now=time.time(), steady=time.monotonic())
    plan = make_plan(pod(), sight)
    return len(plan.start), plan.after


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_back_off_lasts_as_long_as_it_does_whatever_the_time_of_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    clocks = Clocks(monkeypatch)
    control = ended_container(PodFolder(tmp_path, "u"), at=clocks.day)
    assert due(control) == (0, 20.0)
    clocks.pass_by(5.0)
    clocks.day += jump
    assert due(control) == (0, 15.0)
    clocks.pass_by(15.0)
    assert due(control)[0] == 1


def test_the_wait_of_a_run_that_ended_before_the_agent_began_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks(monkeypatch)
    folder = PodFolder(tmp_path, "u")
    assert due(ended_container(folder, at=clocks.day - 15.0)) == (0, 5.0)
    # An end in the future can only mean that the clock was set back: wait as if it were now.
    assert due(ended_container(folder, at=clocks.day + 9_999.0)) == (0, 20.0)
