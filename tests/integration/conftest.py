"""What the kubectl tests share: the programs that are found, and one run of the script for each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from kube.server import cache_dir
from parity import script
from parity.compare import on_embedded
from parity.runner import Kubectl, Outcome, find_kubectls

KUBECTLS = find_kubectls(cache_dir() / "kubectl")
STEPS = script.load()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kubectl" in metafunc.fixturenames:
        nothing = pytest.mark.skip("there is no kubectl on PATH, and none is built (make kube)")
        metafunc.parametrize(
            "kubectl",
            KUBECTLS or [pytest.param(None, marks=nothing)],
            ids=[f"kubectl-{each.version}" for each in KUBECTLS] or ["no-kubectl"],
            scope="session",
        )
    if "step" in metafunc.fixturenames:
        metafunc.parametrize("step", STEPS, ids=[step.id for step in STEPS])


@pytest.fixture(scope="session")
def embedded_outcomes() -> Callable[[Kubectl], dict[str, Outcome]]:
    """What the script does on a fresh embedded server, run once for each kubectl, all at the same time."""
    with ThreadPoolExecutor() as pool:
        runs = pool.map(lambda kubectl: on_embedded(STEPS, kubectl), KUBECTLS)
        known = dict(zip((kubectl.version for kubectl in KUBECTLS), runs, strict=True))
    return lambda kubectl: known[kubectl.version]
