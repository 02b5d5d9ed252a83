"""Fixtures for all tests: the tools on the import path, one embedded server and one real one."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    # How long an example takes says something about the machine and what else runs on it.
    "quarterdeck",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("quarterdeck")

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

gc.disable()  # modules and test items come to stay: looking through them while they are made finds nothing


def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end: the collector need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)  # as in the programs that are tested: quarterdeck.cli.collector


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[Path]:
    """The kubeconfig of one embedded server in its own process; it must end with code 0 on SIGTERM."""
    from parity import server

    with server.embedded() as running:
        yield running.kubeconfig


@pytest.fixture(scope="session")
def real_server() -> Iterator[Path]:
    """The kubeconfig of a kube-apiserver with etcd, for tests marked ``kube``."""
    from kube.server import cache_dir
    from parity import server

    if not (cache_dir() / "kube-apiserver").exists():
        pytest.skip("there is no kube-apiserver (make kube)")
    with server.real() as kubeconfig:
        yield kubeconfig


@pytest.fixture
def young_heap() -> None:
    """Whatever exists before the test is no concern of the collector: its runs cost what the test made."""
    gc.collect()
    gc.freeze()
