"""The kai operator of a run, in a thread of its own: controllers, webhooks, and cycles on demand."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from quarterdeck.client import AnyKind, Client, Config
from quarterdeck.operators.kai.assembly import metrics_of, set_up
from quarterdeck.operators.kai.controllers import SchedulingCycle
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.operators.kai.webhooks import pod_group_webhook, pod_webhook, queue_webhook
from quarterdeck.runtime.certificate import FileCertificates
from quarterdeck.runtime.manager.manager import Manager, ManagerOptions
from quarterdeck.runtime.webhook import UrlTarget, WebhookOptions, WebhookServer, webhook_configurations
from quarterdeck.scheduler.decision import CycleResult
from quarterdeck.scheduler.settings import Settings
from quarterdeck.scheduler.snapshot import Snapshot
from tests.harness.case import CaseFailure
from tests.harness.hook import _certificates
from tests.harness.wire import Target

Json = dict[str, Any]
T = TypeVar("T")

START_TIMEOUT: Final = 60.0
LIMIT: Final = 60.0
"""Seconds that anything may take."""
QUIET: Final = 0.05
"""Seconds without work after which the controllers count as settled."""


class OperatorThread:
    """The operator without its clock: nothing is scheduled unless ``run_cycle`` is called."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig: Final = kubeconfig
        self._ready: Final = threading.Event()
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._manager: Manager | None = None
        self._cycle: SchedulingCycle | None = None
        self._revise: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot
        self._port = 0
        self._authority = b""
        threading.Thread(target=self._run, name="kai-operator", daemon=True).start()
        self._ready.wait(START_TIMEOUT)
        if self._error is not None or self._manager is None or not self._port:
            raise RuntimeError(f"the operator did not start: {self._error}")

    # -- from the thread of a case --------------------------------------------------------------------

    @property
    def webhooks(self) -> Target:
        """The webhook server itself."""
        context = ssl.create_default_context(cadata=self._authority.decode())
        return Target(host="127.0.0.1", port=self._port, tls=context)

    def webhook_configuration(self, name: str) -> Json:
        """The configuration that registers the webhooks, as the operator generates it."""
        target = UrlTarget(f"https://127.0.0.1:{self._port}", self._authority)
        (made,) = webhook_configurations(name, _webhooks(), target)
        document: Json = made.to_dict()
        return document

    def wait_seen(self, kind: AnyKind, namespace: str, version: str) -> None:
        """Wait until the cache has seen a version of an object."""
        self._call(self._wait_seen(kind, namespace, version))

    def settle(self) -> None:
        """Wait until the controllers have nothing to do."""
        self._call(self._settle())

    def run_cycle(self, settings: Settings, revise: Callable[[Snapshot], Snapshot]) -> CycleResult:
        """One scheduling cycle; ``revise`` changes what it sees of the cluster."""
        return self._call(self._run_cycle(settings, revise))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(LIMIT)
        except TimeoutError as error:
            future.cancel()
            raise CaseFailure(f"the operator did not come to it within {LIMIT:g} s") from error

    # -- in the thread of the operator ----------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - reported by the thread that waits
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        client = Client.connect(Config.load(kubeconfig=str(self._kubeconfig)))
        with tempfile.TemporaryDirectory(prefix="quarterdeck-kai-") as folder:
            self._authority = _write_certificates(Path(folder))
            server = WebhookServer(
                WebhookOptions(host="127.0.0.1", port=0), certificates=FileCertificates(folder)
            )
            manager = Manager(client, webhooks=server, options=ManagerOptions(watch_loop=False))
            self._cycle = set_up(
                manager, KaiSettings(), metrics_of(manager), revise=lambda seen: self._revise(seen)
            )
            manager.add_webhook(*_webhooks())
            async with client, manager, asyncio.TaskGroup() as group:
                group.create_task(manager.serve())
                while not _has_started(manager):  # noqa: ASYNC110  nobody signals it
                    await asyncio.sleep(0.01)
                self._port = server.port
                self._manager = manager
                self._ready.set()

    async def _run_cycle(self, settings: Settings, revise: Callable[[Snapshot], Snapshot]) -> CycleResult:
        assert self._cycle is not None
        self._cycle.settings, self._revise = settings, revise
        return await self._cycle.run_once()

    async def _wait_seen(self, kind: AnyKind, namespace: str, version: str) -> None:
        assert self._manager is not None
        shard = (await self._manager.cache.synced(kind)).shard_for(namespace)
        reached = asyncio.Event()
        cancel = shard.when_version(version, reached.set) if shard is not None else reached.set
        try:
            await reached.wait()
        finally:
            cancel()

    async def _settle(self) -> None:
        assert self._manager is not None
        since = time.monotonic()
        while time.monotonic() - since < QUIET:
            if not self._manager.is_idle(until=asyncio.get_running_loop().time()):
                since = time.monotonic()
            await asyncio.sleep(0.01)


def _write_certificates(folder: Path) -> bytes:
    """Make a key pair for 127.0.0.1; returns the authority."""
    authority, chain, key = _certificates()
    (folder / "tls.crt").write_bytes(chain)
    (folder / "tls.key").write_bytes(key)
    return authority


def _webhooks() -> tuple[Any, ...]:
    return pod_group_webhook(), queue_webhook(), pod_webhook(KaiSettings().scheduler_name)


def _has_started(manager: Manager) -> bool:
    return manager.is_leading and all(each.is_synced for each in manager.statistics().controllers)
