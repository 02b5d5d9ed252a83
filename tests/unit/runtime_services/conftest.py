"""Async tests run on uvloop in real time, or (marked ``virtual``) on virtual time; none may leave tasks."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
import uvloop

from quarterdeck.testing.clock import run


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "virtual: the test runs on virtual time")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    if pyfuncitem.get_closest_marker("virtual") is not None:
        run(_checked(pyfuncitem.obj, arguments, 1e9))
        return True
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_checked(pyfuncitem.obj, arguments, 60))
    return True


async def _checked(test: Any, arguments: dict[str, Any], limit: float) -> None:
    async with asyncio.timeout(limit):
        await test(**arguments)
    leaked = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not leaked, f"tasks left behind: {leaked}"
