"""What the kubectl tests share: the programs that are found, and one run of the script for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

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
        # the one on PATH; those that `make kube` built besides run with the other tests of what it builds
        first, others = next(iter(KUBECTLS), None), KUBECTLS[1:]
        metafunc.parametrize(
            "kubectl",
            [
                pytest.param(first, marks=() if first else nothing),
                *(pytest.param(each, marks=pytest.mark.kube) for each in others),
            ],
            ids=[f"kubectl-{each.version}" for each in KUBECTLS] or ["no-kubectl"],
            scope="session",
        )
    if "step" in metafunc.fixturenames:
        metafunc.parametrize("step", STEPS, ids=[step.id for step in STEPS])


@pytest.fixture(scope="session")
def embedded_outcomes() -> Callable[[Kubectl], dict[str, Outcome]]:
    """What the script does on a fresh embedded server, run once for each kubectl."""
    return cache(lambda kubectl: on_embedded(STEPS, kubectl))
