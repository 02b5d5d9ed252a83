"""The kai operator of a run, in a thread of its own: controllers, webhooks, and cycles on demand."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from quarterdeck.client import AnyKind
from quarterdeck.operators.kai.assembly import metrics_of, set_up
from quarterdeck.operators.kai.controllers import SchedulingCycle
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.operators.kai.webhooks import pod_group_webhook, pod_webhook, queue_webhook
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import ManagerOptions
from quarterdeck.runtime.webhook import UrlTarget, webhook_configurations
from quarterdeck.scheduler.decision import CycleResult
from quarterdeck.scheduler.settings import Settings
from quarterdeck.scheduler.snapshot import Snapshot
from quarterdeck.testing import Link, ServedWebhooks, serve_webhooks
from tests.harness.operatorthread import OperatorThread
from tests.harness.wire import Target

Json = dict[str, Any]

LIMIT: Final = 60.0
"""Seconds that anything may take."""
QUIET: Final = 0.05
"""Seconds without work after which the controllers count as settled."""


class KaiThread(OperatorThread):
    """The operator without its clock: nothing is scheduled unless ``run_cycle`` is called."""

    def __init__(self, kubeconfig: Path) -> None:
        self._served: ServedWebhooks | None = None
        self._cycle: SchedulingCycle | None = None
        self._revise: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot
        super().__init__(kubeconfig, name="kai")

    async def assemble(self, link: Link, stack: AsyncExitStack) -> Manager:
        self._served = await stack.enter_async_context(serve_webhooks(*_webhooks()))
        manager = Manager(link.client, options=ManagerOptions(watch_loop=False))
        self._cycle = set_up(
            manager, KaiSettings(), metrics_of(manager), revise=lambda seen: self._revise(seen)
        )
        return manager

    @property
    def webhooks(self) -> Target:
        """The webhook server itself."""
        assert self._served is not None
        context = ssl.create_default_context(cadata=self._served.ca_bundle.decode())
        return Target(host="127.0.0.1", port=self._served.server.port, tls=context)

    def webhook_configuration(self, name: str) -> Json:
        """The configuration that registers the webhooks, as the operator generates it."""
        assert self._served is not None
        target = UrlTarget(self._served.url, self._served.ca_bundle)
        (made,) = webhook_configurations(name, _webhooks(), target)
        document: Json = made.to_dict()
        return document

    def wait_seen(self, kind: AnyKind, namespace: str, version: str) -> None:
        """Wait until the cache has seen a version of an object."""
        self.call(self._wait_seen(kind, namespace, version), LIMIT)

    def settle(self) -> None:
        """Wait until the controllers have nothing to do."""
        self.call(self._settle(), LIMIT)

    def run_cycle(self, settings: Settings, revise: Callable[[Snapshot], Snapshot]) -> CycleResult:
        """One scheduling cycle; ``revise`` changes what it sees of the cluster."""
        return self.call(self._run_cycle(settings, revise), LIMIT)

    async def _run_cycle(self, settings: Settings, revise: Callable[[Snapshot], Snapshot]) -> CycleResult:
        assert self._cycle is not None
        self._cycle.settings, self._revise = settings, revise
        return await self._cycle.run_once()

    async def _wait_seen(self, kind: AnyKind, namespace: str, version: str) -> None:
        shard = (await self.manager.cache.synced(kind)).shard_for(namespace)
        reached = asyncio.Event()
        cancel = shard.when_version(version, reached.set) if shard is not None else reached.set
        try:
            await reached.wait()
        finally:
            cancel()

    async def _settle(self) -> None:
        since = time.monotonic()
        while time.monotonic() - since < QUIET:
            if not self.manager.is_idle(until=asyncio.get_running_loop().time()):
                since = time.monotonic()
            await asyncio.sleep(0.01)


def _webhooks() -> tuple[Any, ...]:
    return pod_group_webhook(), queue_webhook(), pod_webhook(KaiSettings().scheduler_name)
