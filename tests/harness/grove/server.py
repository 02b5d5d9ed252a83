"""The server that grove cases run on, one for all cases of a run.

The embedded server runs with the controllers that every cluster has. Cases about admission use the server
under test where that is somebody else's. Either way the operator's webhooks are served on loopback and
registered once; who answers them is up to the case.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from quarterdeck.client import Call, Client, Response
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.errors import ApiError, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import definitions
from quarterdeck.operators.kai.types import definitions as kai_definitions
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.webhook import AdmissionWebhook, UrlTarget, webhook_configurations
from quarterdeck.runtime.webhook.admission import Admission
from quarterdeck.testing import ServedWebhooks, VirtualLoop, serve_webhooks, what_is_left
from tests.harness.run import Run
from tests.harness.sharedserver import SharedServer

from .guard import model_webhooks
from .interception import Send, with_hook

Json = dict[str, Any]

_CONFIGURATION: Final = "grove-cases"
_WEBHOOK_PATIENCE: Final = 5.0
"""Seconds of real time that virtual time stands still for a webhook's answer."""
_GUARDED: Final = frozenset({"PodCliqueSet", "PodCliqueScalingGroup", "ClusterTopologyBinding", "Scale"})
_PROBE: Final = {
    "apiVersion": names.API_VERSION,
    "kind": "PodCliqueSet",
    "metadata": {"name": "quarterdeck-probe", "namespace": "default"},
    "spec": {"template": {"cliques": []}},
}
"""Refused as soon as the webhooks are in force."""

_servers: Final[weakref.WeakKeyDictionary[Run, dict[bool, GroveServer]]] = weakref.WeakKeyDictionary()
_lock: Final = threading.Lock()


def server_of(run: Run, *, is_private: bool = False) -> GroveServer:
    """The server of a run, made on first use; a private one is embedded whatever the server under test is."""
    is_embedded = run.is_embedded or is_private
    with _lock:
        servers = _servers.setdefault(run, {})
        server = servers.get(is_embedded)
        if server is None:
            server = servers[is_embedded] = GroveServer(run, is_embedded=is_embedded)
            run.at_end(server.close)
        return server


class Switch(AdmissionWebhook):
    """A webhook whose answers are up to the case that runs; without one it allows."""

    def __init__(self, model: AdmissionWebhook) -> None:
        super().__init__(model.path, model.settings, model.gvk, is_mutating=model.is_mutating)
        self.target: AdmissionWebhook | None = model

    def review(self, admission: Admission) -> Awaitable[None] | None:
        return self.target.review(admission) if self.target is not None else None


class GroveServer(SharedServer):
    """The server of grove cases."""

    def __init__(self, run: Run, *, is_embedded: bool) -> None:
        super().__init__(run, is_embedded=is_embedded)
        self._hooks: ServedWebhooks | None = None
        self._switches: dict[str, Switch] = {}
        self._calls = 0
        self.base: Manager | None = None
        """The controllers that every cluster has; none where the cluster is somebody else's."""
        self.start()

    async def _set_up(self, stack: AsyncExitStack) -> None:
        await self.cluster.install(*definitions(), *kai_definitions())
        models = await model_webhooks(self.cluster.client)
        self._switches = {model.path: Switch(model) for model in models}
        self._hooks = await stack.enter_async_context(serve_webhooks(*self._switches.values()))
        self._loop_patience(0.0)
        await self._register()
        stack.push_async_callback(self._unregister)
        if self.is_embedded:
            self.base = self._base_manager()
            await stack.enter_async_context(self.cluster.serving(self.base))

    def _base_manager(self) -> Manager:
        manager = self.cluster.manager(link=self.cluster.link(name="cluster"))
        server = self.cluster.server
        add_controllers(
            manager, root_ca=server.credentials.authority.certificate_pem, sign_token=server.sign_token
        )
        return manager

    @property
    def client(self) -> Client:
        """The administrator."""
        return self.patient(self.cluster.client)

    def patient(self, client: Client) -> Client:
        """A client like ``client`` whose writes may meet webhooks: virtual time waits for their answers."""
        if not self.is_embedded:
            return client

        async def send(call: Call, proceed: Send) -> Response:
            if not call.is_write or call.gvk.kind not in _GUARDED:
                return await proceed(call)
            async with self.patience():
                return await proceed(call)

        return with_hook(client, send)

    @asynccontextmanager
    async def patience(self) -> AsyncIterator[None]:
        """Time in which webhooks may be called: virtual time stands still until they have answered."""
        self._calls += 1
        self._loop_patience(_WEBHOOK_PATIENCE)
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._loop_patience(0.0)

    @staticmethod
    def _loop_patience(seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualLoop):
            loop.patience = seconds

    @property
    def webhook_url(self) -> str:
        """Where the webhooks are served."""
        assert self._hooks is not None
        return self._hooks.url

    @property
    def webhook_authority(self) -> bytes:
        """Who signs for them."""
        assert self._hooks is not None
        return self._hooks.ca_bundle

    def answer_with(self, webhooks: Sequence[AdmissionWebhook]) -> None:
        """Let these webhooks answer from now on; those that are not among them allow everything."""
        by_path = {webhook.path: webhook for webhook in webhooks}
        for path, switch in self._switches.items():
            switch.target = by_path.get(path)

    async def _register(self) -> None:
        target = UrlTarget(self.webhook_url, self.webhook_authority)
        # The authorizer is asked directly: its cases are about users and objects that do not exist.
        hooks = [each for each in self._switches.values() if each.path != names.AUTHORIZER_PATH]
        for made in webhook_configurations(_CONFIGURATION, hooks, target):
            with ignore_not_found():
                await self.cluster.client.delete(made)
            await self.cluster.client.create(made)
        await self._wait_in_force(_PROBE)

    async def _unregister(self) -> None:
        for made in webhook_configurations(
            _CONFIGURATION, self._switches.values(), UrlTarget(self.webhook_url)
        ):
            with suppress(ApiError):
                await self.cluster.client.delete(made)

    def left(self, managers: Sequence[Manager]) -> list[str]:
        """What controllers have to do now, those of the cluster included."""
        return [text for manager in self._everybody(managers) for text in what_is_left(manager)]

    def next_due(self, managers: Sequence[Manager]) -> float | None:
        """When a controller wants to work again, as loop time; nothing if none does by itself."""
        queues = [
            controller.queue
            for manager in self._everybody(managers)
            for controller in manager.statistics().controllers
        ]
        return min((queue.next_due for queue in queues if queue.next_due is not None), default=None)

    def _everybody(self, managers: Sequence[Manager]) -> list[Manager]:
        return [*managers, *([self.base] if self.base is not None else [])]
