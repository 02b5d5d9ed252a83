"""Async tests run on virtual time, and must not leave tasks behind."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from quarterdeck.testing.clock import run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    run(_checked(pyfuncitem.obj, arguments))
    return True


async def _checked(test: Any, arguments: dict[str, Any]) -> None:
    async with asyncio.timeout(1_000_000):
        await test(**arguments)
    leaked = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not leaked, f"tasks left behind: {leaked}"
