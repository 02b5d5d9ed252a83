"""All operators on one test cluster, on virtual time, as `quarterdeck up` has them but without webhooks.

Each operator is a program of its own, with its own line to the server, so that one can be disturbed, stopped
and started again without the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from quarterdeck.api.invariant import Broken
from quarterdeck.apiserver import ServerOptions
from quarterdeck.cli.check.command import find_broken, installed_invariants
from quarterdeck.cli.story.command import Kubectl
from quarterdeck.cli.story.script import Story, read_story
from quarterdeck.client.clock import Clock
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime.contract import Elector
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, installed_operators
from quarterdeck.runtime.webhook import WebhookOptions, WebhookServer
from quarterdeck.testing import Link, OperatorRun, TestCluster

FOLDER: Final = Path(__file__).parents[2] / "examples" / "concert"
NAMES: Final = ("grove", "ipam", "jobset", "kai", "nodegroup", "trainer")
PATIENCE: Final = 300.0


class Concert:
    """The cluster and what runs on it."""

    def __init__(self, cluster: TestCluster, story: Story) -> None:
        self.cluster: Final = cluster
        self.story: Final = story
        self.kubectl: Final = Kubectl(cluster.client, FOLDER)
        found = installed_operators()
        self._operators: Final[Mapping[str, Operator]] = {name: found[name] for name in NAMES}

    def program(self, name: str, **options: Any) -> OperatorRun:
        """One operator that has not started; options are those of ``OperatorRun``."""
        settings = self.story.settings.get(name, {})
        return OperatorRun(
            self.cluster, self._operators[name], settings, name=name, is_embedded=True, **options
        )

    def all_operators(self, link: Link, elector: Elector, clock: Clock) -> Manager:
        """All operators in one program, as `quarterdeck run` has them."""
        manager = self.cluster.manager(
            link=link, elector=elector, clock=clock, webhooks=WebhookServer(WebhookOptions(port=-1))
        )
        for name, operator in self._operators.items():
            settings = self.story.settings.get(name, {})
            operator.setup(manager, OperatorEnvironment(name=name, settings=settings, is_embedded=True))
        return manager

    async def broken(self) -> list[Broken]:
        """What does not hold, and still does not a few seconds later where it may for a moment."""
        return await find_broken(self.cluster.client, installed_invariants(), settle=20.0)


@asynccontextmanager
async def concert(seed: int = 0, server: ServerOptions | None = None) -> AsyncIterator[Concert]:
    """The cluster with its kinds and controllers; no operator runs yet."""
    found = installed_operators()
    kinds = [each for name in NAMES for each in found[name].definitions()]
    async with TestCluster(
        crds=kinds, controllers=Workloads(scheduler=None), server=server, seed=seed
    ) as cluster:
        yield Concert(cluster, read_story(FOLDER))
