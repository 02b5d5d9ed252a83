"""Managers and operators that run beside a test: for the time of a block, or from ``start`` to ``stop``."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from quarterdeck.errors import ConfigError
from quarterdeck.runtime.cache import CacheOptions
from quarterdeck.runtime.contract import Elector
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, OperatorWebhooks
from quarterdeck.runtime.webhook import WebhookOptions, WebhookServer
from quarterdeck.testing.assertion import run_until_idle
from quarterdeck.testing.cluster import TestCluster
from quarterdeck.testing.fault import FaultPlan
from quarterdeck.testing.link import Link
from quarterdeck.testing.recorder import EventLog

_STEP: Final = 0.001
_NOT_SERVED: Final = -1
_PAUSE: Final = 0.3
"""Seconds in which what nobody waits for (garbage collection, say) begins."""


class ManagerRun:
    """One life of a manager, in a task of its own."""

    def __init__(self, manager: Manager, *, name: str = "manager") -> None:
        self.manager: Final = manager
        self._name: Final = name
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Run it; returns when it leads and its controllers have seen everything, raises what ended it."""
        if self._task is not None:
            raise ConfigError(f"{self._name} has been started: a manager runs once, make another one")
        task = self._task = asyncio.create_task(_serve(self.manager), name=self._name)
        while not task.done() and not self._has_started:  # noqa: ASYNC110  either of two
            await asyncio.sleep(_STEP)
        if task.done():
            task.result()

    @property
    def _has_started(self) -> bool:
        controllers = self.manager.statistics().controllers
        return self.manager.is_leading and all(each.is_synced for each in controllers)

    async def stop(self) -> None:
        """End it as a process that is told to; raises what ended it before that."""
        task, self._task = self._task, None
        if task is not None:
            self.manager.request_stop()
            await task

    async def __aenter__(self) -> Manager:
        await self.start()
        return self.manager

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


async def _serve(manager: Manager) -> None:
    async with manager:
        await manager.serve()


class OperatorRun:
    """One instance of an operator on a cluster, with a link, metrics and events of its own::

    operator = OperatorRun(cluster, MyOperator(), {"replicas": 2}, plan=FaultPlan.storm(7))
    async with operator.running():
        await cluster.client.create(…)
        await operator.settle()

    Its webhooks are not served; ``TestCluster.serve_webhooks`` does that.
    """

    def __init__(
        self,
        cluster: TestCluster,
        operator: Operator,
        settings: Mapping[str, Any] | None = None,
        *,
        name: str = "operator",
        plan: FaultPlan | None = None,
        user: str = "",
        groups: Iterable[str] = (),
        cache: CacheOptions | None = None,
        elector: Elector | None = None,
        is_embedded: bool = False,
    ) -> None:
        """``is_embedded``: the operator simulates machines, as on ``quarterdeck up``."""
        self.cluster: Final = cluster
        self.link: Final[Link] = cluster.link(plan, name=name, user=user, groups=groups)
        self.metrics: Final = RuntimeMetrics()
        self.events: Final = EventLog()
        self.manager: Final[Manager] = cluster.manager(
            link=self.link,
            metrics=self.metrics,
            recorder=self.events,
            cache=cache,
            elector=elector,
            webhooks=WebhookServer(WebhookOptions(port=_NOT_SERVED)),
        )
        environment = OperatorEnvironment(name=name, settings=settings or {}, is_embedded=is_embedded)
        self.webhooks: Final[OperatorWebhooks] = operator.setup(self.manager, environment)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run for the time of a block."""
        async with self.cluster.serving(self.manager):
            yield

    async def settle(self, *others: "OperatorRun", horizon: float = 20.0) -> None:
        """Let everything come to rest, the controllers of the cluster included."""
        managers = (self.manager, *(other.manager for other in others))
        for _ in range(3):
            await asyncio.sleep(_PAUSE)
            await run_until_idle(*managers, horizon=horizon)

    def value(self, metric: str, *labels: str) -> float:
        """A metric of the operator now."""
        return self.metrics.registry.value(metric, *labels)
