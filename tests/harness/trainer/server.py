"""The server that trainer cases run on, one for all cases of a run.

The operator's webhooks are served on loopback and registered once; writes as the user `BYPASS` do not meet
them.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import AsyncExitStack
from typing import Any, Final

from quarterdeck.api import crd
from quarterdeck.errors import ignore_not_found
from quarterdeck.operators.jobset.types import definition as jobset_definition
from quarterdeck.operators.jobset.webhooks import jobset_webhooks
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.assembly import trainer_webhooks
from quarterdeck.operators.trainer.settings import TrainerSettings
from quarterdeck.operators.trainer.types import CoschedulingPodGroup, VolcanoPodGroup, definitions
from quarterdeck.runtime.operator.install import install_definitions
from quarterdeck.runtime.webhook import AdmissionWebhook, UrlTarget, webhook_configurations
from quarterdeck.testing import ServedWebhooks, serve_webhooks
from tests.harness.run import Run
from tests.harness.sharedserver import SharedServer

Json = dict[str, Any]

BYPASS: Final = "quarterdeck:bypass"
MASTERS: Final = "system:masters"
_PROBE: Final = {
    "apiVersion": names.API_VERSION,
    "kind": names.TRAIN_JOB,
    "metadata": {"name": "quarterdeck-probe", "namespace": "default"},
    "spec": {"runtimeRef": {"kind": "Nobody", "name": "x"}},
}
"""Refused as soon as the webhooks are in force."""

_servers: Final[weakref.WeakKeyDictionary[Run, TrainerServer]] = weakref.WeakKeyDictionary()
_lock: Final = threading.Lock()


def server_of(run: Run) -> TrainerServer:
    """The server of a run, made on first use."""
    with _lock:
        server = _servers.get(run)
        if server is None:
            server = _servers[run] = TrainerServer(run)
            run.at_end(server.close)
        return server


class TrainerServer(SharedServer):
    """The server of trainer cases."""

    def __init__(self, run: Run) -> None:
        super().__init__(run, is_embedded=run.is_embedded)
        self.patience: Final = run.patience
        self._hooks: ServedWebhooks | None = None
        self.start()

    async def _set_up(self, stack: AsyncExitStack) -> None:
        await self._install()
        self._hooks = await stack.enter_async_context(serve_webhooks(*self._handlers()))
        await self.register(names.WEBHOOK_CONFIGURATION, self._trainer_hooks(TrainerSettings()))
        await self._wait_in_force(_PROBE)

    async def _install(self) -> None:
        gangs = (crd(kind) for kind in (CoschedulingPodGroup, VolcanoPodGroup))
        await install_definitions(self.client, jobset_definition(), *definitions(), *gangs)

    def _handlers(self) -> tuple[AdmissionWebhook, ...]:
        return (*self._trainer_hooks(TrainerSettings()), *jobset_webhooks())

    def _trainer_hooks(self, settings: TrainerSettings) -> tuple[AdmissionWebhook, ...]:
        return trainer_webhooks(self.client, settings)

    async def register(
        self, name: str, hooks: tuple[AdmissionWebhook, ...], namespaces: tuple[str, ...] = ()
    ) -> None:
        """Tell the server about webhooks, for all namespaces or for some."""
        assert self._hooks is not None
        target = UrlTarget(self._hooks.url, self._hooks.ca_bundle)
        for made in webhook_configurations(name, hooks, target):
            document = made.to_dict()
            for webhook in document["webhooks"]:
                condition = {
                    "name": "not-bypassed",
                    "expression": f"request.userInfo.username != '{BYPASS}'",
                }
                webhook["matchConditions"] = [*webhook.get("matchConditions", ()), condition]
                if namespaces:
                    term = {
                        "key": "kubernetes.io/metadata.name",
                        "operator": "In",
                        "values": list(namespaces),
                    }
                    webhook["namespaceSelector"] = {"matchExpressions": [term]}
            await self._put(type(made).from_dict(document))

    async def unregister(self, name: str, hooks: tuple[AdmissionWebhook, ...]) -> None:
        """Take the webhooks away again."""
        assert self._hooks is not None
        for made in webhook_configurations(name, hooks, UrlTarget(self._hooks.url)):
            with ignore_not_found():
                await self.client.delete(made)

    async def _put(self, obj: Any) -> None:
        with ignore_not_found():
            await self.client.delete(obj)
        await self.client.create(obj)
