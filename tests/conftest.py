"""Fixtures for all tests: the tools on the import path, and one embedded server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[Path]:
    """The kubeconfig of one embedded server in its own process; it must end with code 0 on SIGTERM."""
    from parity import server

    with server.embedded() as running:
        yield running.kubeconfig
