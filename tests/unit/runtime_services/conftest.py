"""Services talk over real sockets: their async tests run in real time unless they are marked virtual_time."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and not any(item.iter_markers("virtual_time")):
            item.add_marker(pytest.mark.real_time)
