"""The process itself: CPU, memory and file descriptors, under the names every Prometheus client uses."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from quarterdeck.runtime.metrics.registry import Registry

_STAT: Final = Path("/proc/self/stat")
_FDS: Final = Path("/proc/self/fd")
_UPTIME: Final = Path("/proc/uptime")


def follow_process(registry: Registry) -> Callable[[], None]:
    """Show ``process_*`` at each scrape; returns the function that ends it. Linux shows all of them."""
    cpu = registry.counter(
        "process_cpu_seconds_total", "Total user and system CPU time spent in seconds."
    ).labelled()
    started = registry.gauge(
        "process_start_time_seconds", "Start time of the process since unix epoch in seconds."
    ).labelled()
    resident = registry.gauge("process_resident_memory_bytes", "Resident memory size in bytes.").labelled()
    virtual = registry.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.").labelled()
    descriptors = registry.gauge("process_open_fds", "Number of open file descriptors.").labelled()
    started.set(_start_time())

    def refresh() -> None:
        times = os.times()
        cpu.value = times.user + times.system
        if _STAT.exists():
            fields = _STAT.read_text().rpartition(")")[2].split()
            virtual.set(float(fields[20]))
            resident.set(float(fields[21]) * os.sysconf("SC_PAGE_SIZE"))
            descriptors.set(sum(1 for _ in _FDS.iterdir()))

    return registry.before_expose(refresh)


def _start_time() -> float:
    if not _STAT.exists():
        return time.time()
    ticks = float(_STAT.read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    up = float(_UPTIME.read_text().split()[0])
    return time.time() - up + ticks
