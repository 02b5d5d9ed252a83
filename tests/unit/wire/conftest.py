"""Async tests run on asyncio's loop and on uvloop, and must leave no task behind."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
import uvloop


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    for loop_factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(_checked(pyfuncitem.obj, arguments))
    return True


async def _checked(test: Any, arguments: dict[str, Any]) -> None:
    async with asyncio.timeout(60):
        await test(**arguments)
    leaked = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not leaked, f"tasks left behind: {leaked}"
