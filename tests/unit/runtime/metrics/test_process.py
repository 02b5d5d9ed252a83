"""What a process tells about itself, read from what Linux tells about it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from quarterdeck.runtime.metrics import Registry, follow_process, process

pytestmark = pytest.mark.real_time

# As in proc(5): the name may hold anything, fields 22 to 24 are the start in ticks, bytes and pages.
STAT = "4242 (a (strange) name) S " + " ".join(f"{field}000000" for field in range(4, 22))


@pytest.fixture
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = 100 * os.sysconf("SC_CLK_TCK")
    (tmp_path / "stat").write_text(f"{STAT} {ticks} 8192 3 9999 9998\n")
    (tmp_path / "uptime").write_text("1000.5 77.0\n")
    (tmp_path / "fd").mkdir()
    for descriptor in "012":
        (tmp_path / "fd" / descriptor).touch()
    monkeypatch.setattr(process, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(process, "_UPTIME", tmp_path / "uptime")
    monkeypatch.setattr(process, "_FDS", tmp_path / "fd")


@pytest.mark.usefixtures("linux")
def test_memory_descriptors_and_start_are_read_from_the_right_fields() -> None:
    registry = Registry()
    follow_process(registry)
    registry.expose()
    assert registry.value("process_virtual_memory_bytes") == 8192
    assert registry.value("process_resident_memory_bytes") == 3 * os.sysconf("SC_PAGE_SIZE")
    assert registry.value("process_open_fds") == 3
    # the machine is up for 1000 s, and the process came 100 s after it
    assert registry.value("process_start_time_seconds") == pytest.approx(time.time() - 900.5, abs=60)


def test_cpu_time_is_user_and_system_together() -> None:
    registry = Registry()
    end = follow_process(registry)
    before = time.process_time()
    registry.expose()
    told = registry.value("process_cpu_seconds_total")
    assert before - 0.05 <= told <= time.process_time() + 0.05
    end()
    registry.expose()
    assert registry.value("process_cpu_seconds_total") == told, "nobody reads it any more"


def test_a_system_without_proc_tells_when_it_was_first_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_STAT", tmp_path / "none")
    registry = Registry()
    follow_process(registry)
    registry.expose()
    assert registry.value("process_start_time_seconds") == pytest.approx(time.time(), abs=60)
    assert registry.value("process_resident_memory_bytes") == 0
