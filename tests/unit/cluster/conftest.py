"""A cluster with the controllers every cluster has, on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.runtime import Manager
from quarterdeck.testing import TestCluster, run_until_idle

Settle = Callable[[], Awaitable[None]]


@pytest.fixture
async def settle(cluster: TestCluster, manager: Manager) -> Settle:
    """Runs the controllers; the function waits until they have nothing left to do."""
    add_controllers(
        manager,
        root_ca=cluster.server.credentials.authority.certificate_pem,
        sign_token=cluster.server.sign_token,
    )
    await cluster.start(manager)

    async def wait() -> None:
        await run_until_idle(manager)

    await wait()
    return wait
