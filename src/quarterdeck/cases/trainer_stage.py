"""The server that trainer cases run on, one for all cases of a run.

The embedded server runs in this process, on virtual time: a case that waits a minute takes as long as its
work. A server of somebody else is used over the wire, in real time. Either way the operator's webhooks are
served on loopback and registered once; writes as the user `BYPASS` do not meet them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

from quarterdeck.api import DynamicObject, crd
from quarterdeck.api.jobset import definition as jobset_definition
from quarterdeck.client import Client
from quarterdeck.cluster.jobset.webhook import jobset_webhooks
from quarterdeck.errors import ApiError, NotFound, ignore_not_found
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.assembly import trainer_webhooks
from quarterdeck.operators.trainer.settings import TrainerSettings
from quarterdeck.operators.trainer.types import CoschedulingPodGroup, VolcanoPodGroup, definitions
from quarterdeck.runtime.install import install_definitions
from quarterdeck.runtime.webhook import AdmissionWebhook, UrlTarget, webhook_configurations
from quarterdeck.testing import ServedWebhooks, TestCluster, VirtualLoop, serve_webhooks

from .case import CaseFailure
from .run import Run

Json = dict[str, Any]
T = TypeVar("T")

BYPASS: Final = "quarterdeck:bypass"
MASTERS: Final = "system:masters"
_TIMEOUT: Final = 30.0
_PROBE: Final = {
    "apiVersion": names.API_VERSION,
    "kind": names.TRAIN_JOB,
    "metadata": {"name": "quarterdeck-probe", "namespace": "default"},
    "spec": {"runtimeRef": {"kind": "Nobody", "name": "x"}},
}
"""Refused as soon as the webhooks are in force."""

_stages: Final[weakref.WeakKeyDictionary[Run, Stage]] = weakref.WeakKeyDictionary()
_lock: Final = threading.Lock()


def stage_of(run: Run) -> Stage:
    """The stage of a run, made on first use."""
    with _lock:
        stage = _stages.get(run)
        if stage is None:
            stage = _stages[run] = Stage(run)
            run.at_end(stage.close)
        return stage


class Stage:
    """Used by one thread at a time: all cases are in one lane."""

    def __init__(self, run: Run) -> None:
        logging.getLogger("quarterdeck").addHandler(logging.NullHandler())  # faults are what cases are about
        self.is_embedded: Final = run.is_embedded
        self.patience: Final = run.patience
        self._runner: Final = asyncio.Runner(loop_factory=VirtualLoop if run.is_embedded else None)
        self.cluster: Final = self._runner.run(self._make_cluster(run))
        self._hooks: ServedWebhooks | None = None
        self._stop: Final = asyncio.Event()
        self._life: Final = self._runner.run(self._begin())

    def play(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a case to its end."""
        return self._runner.run(main)

    def close(self) -> None:
        """End what all cases share."""
        self._runner.run(self._end())
        self._runner.close()

    async def _end(self) -> None:
        self._stop.set()
        await self._life

    @staticmethod
    async def _make_cluster(run: Run) -> TestCluster:
        return TestCluster(use_existing=False if run.is_embedded else run.kubeconfig())

    async def _begin(self) -> asyncio.Task[None]:
        ready = asyncio.Event()
        life = asyncio.create_task(self._live(ready), name="trainer-stage")
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((life, waiting), return_when=asyncio.FIRST_COMPLETED)
        if life.done():
            waiting.cancel()
            life.result()
        return life

    async def _live(self, ready: asyncio.Event) -> None:
        """Holds open what all cases share; in one task, because some of it must end where it began."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.cluster)
            await self._install()
            self._hooks = await stack.enter_async_context(serve_webhooks(*self._handlers()))
            await self.register(names.WEBHOOK_CONFIGURATION, self._trainer_hooks(TrainerSettings()))
            await self._wait_in_force()
            ready.set()
            await self._stop.wait()

    async def _install(self) -> None:
        gangs = (crd(kind) for kind in (CoschedulingPodGroup, VolcanoPodGroup))
        await install_definitions(self.client, jobset_definition(), *definitions(), *gangs)

    @property
    def client(self) -> Client:
        """The administrator."""
        return self.cluster.client

    # -- webhooks -------------------------------------------------------------------------------------

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

    async def _wait_in_force(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT
        while loop.time() < deadline:
            try:
                await self.client.create(DynamicObject(_PROBE), dry_run=True)
            except NotFound:
                pass  # the kind is not served yet
            except ApiError as error:
                if error.code == 403:
                    return
                raise
            await asyncio.sleep(0.05)
        raise CaseFailure(f"the webhooks are not in force after {_TIMEOUT:g} s")
