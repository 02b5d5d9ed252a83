"""Books of stories that are told to kube-controller-manager and to our controllers, to see how they end.

Each story has a namespace of its own, so that those of a book can be told at the same time. The nodes are
simulated on all sides by the same kubelet. Our controllers live on the embedded server on virtual time, or on
a kube-apiserver; on a real server time is real. What kube-controller-manager has made of a book is recorded
beside it; with ``RECORD_STORIES=1`` the tests marked ``kube`` write it anew. Run those where only loopback
exists::

    tools/kube/netns.sh python -m pytest -m kube tests/integration/test_workload_real.py
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kube.server import is_built
from parity import server as servers
from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import CoreEvent, Namespace
from quarterdeck.client import Client, Config
from quarterdeck.cluster.choice import ControllerChoice
from quarterdeck.cluster.controllers import ClusterControllers, add_controllers
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime.event import EventBroadcaster
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import ManagerOptions
from quarterdeck.testing import TestCluster, eventually, run

__all__ = ["Record", "Records", "Story", "StoryBook"]

Record = dict[str, Any]
Records = dict[str, list[Record]]
Story = Callable[[Client, str], Awaitable[list[Record]]]
EventKey = Callable[[CoreEvent], tuple[str, ...] | None]
"""What is to be recorded of an event; none if nothing is."""

QUIET = 5.0
_READY_TIMEOUT = 300.0


class StoryBook:
    """Stories, and who tells them; as a decorator it takes a story in."""

    def __init__(
        self,
        recorded: str,
        workloads: Workloads,
        *,
        simulated: list[str],
        event_key: EventKey | None = None,
        uncounted: Collection[str] = (),
    ) -> None:
        """``simulated`` are the controllers that kube-controller-manager has not.

        With ``event_key`` events are part of every record, those with reasons that are ``uncounted`` once.
        """
        self._recorded = Path(__file__).with_name(recorded)
        self._workloads = workloads
        self._simulated = ControllerChoice(simulated)
        self._event_key = event_key
        self._uncounted = uncounted
        self.stories: dict[str, Story] = {}

    def __call__(self, function: Story) -> Story:
        self.stories[function.__name__] = function
        return function

    def recorded(self) -> Records:
        """What kube-controller-manager has made of them."""
        read: Records = json.loads(self._recorded.read_text())
        return read

    def ours(self) -> Records:
        """Told to our controllers on the embedded server."""
        return _comparable(run(self._ours()))

    def ours_there(self) -> Records:
        """Told to our controllers on kube-apiserver."""
        if not is_built():
            pytest.skip("there is no kube-apiserver (make kube)")
        with servers.real() as kubeconfig:
            return _comparable(uvloop.run(self._ours(str(kubeconfig))))

    def theirs(self) -> Records:
        """Told to kube-controller-manager."""
        if not is_built():
            pytest.skip("there is no kube-controller-manager (make kube)")
        with servers.real(controllers=True) as kubeconfig:
            told = _comparable(uvloop.run(self._theirs(str(kubeconfig))))
        if os.environ.get("RECORD_STORIES"):
            self._recorded.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
        return told

    async def _ours(self, kubeconfig: str = "") -> Records:
        async with TestCluster(use_existing=kubeconfig or False) as cluster:
            authority = b"" if kubeconfig else cluster.server.credentials.authority.to_pem()
            sign_token = None if kubeconfig else cluster.server.sign_token
            controllers = ClusterControllers(
                cluster.link().client,
                root_ca=b"" if kubeconfig else cluster.server.credentials.authority.certificate_pem,
                sign_token=sign_token,
                authority=authority,
                workloads=self._workloads,
            )
            return await self._with(
                controllers.run, controllers.request_stop, lambda: controllers.is_serving, cluster.client
            )

    async def _theirs(self, kubeconfig: str) -> Records:
        async with Client.connect(Config.load(kubeconfig), on_warning=lambda _: None) as client:
            manager = Manager(
                client,
                recorder=EventBroadcaster(client, api="core"),
                options=ManagerOptions(watch_loop=False),
            )
            registration = add_controllers(
                manager, root_ca=b"", workloads=self._workloads, choice=self._simulated
            )
            assert registration is not None
            return await self._with(
                manager.serve, manager.request_stop, lambda: registration.is_complete, client
            )

    async def _with(
        self,
        run: Callable[[], Awaitable[None]],
        stop: Callable[[], None],
        is_ready: Callable[[], bool],
        client: Client,
    ) -> Records:
        async def serve() -> None:
            await run()

        async with asyncio.timeout(None), asyncio.TaskGroup() as group:
            group.create_task(serve())
            await eventually(is_ready, timeout=_READY_TIMEOUT)
            try:
                return await self._tell_all(client)
            finally:
                stop()

    async def _tell_all(self, client: Client) -> Records:
        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(self._tell(client, name)) for name in self.stories}
        found = {name: task.result() for name, task in tasks.items()}
        if self._event_key is not None:
            await _settled(client)
            for name, records in found.items():
                records.append(await self._events(client, _namespace(name)))
        return found

    async def _tell(self, client: Client, name: str) -> list[Record]:
        await client.create(Namespace(metadata=ObjectMeta(name=_namespace(name))))
        try:
            return await self.stories[name](client, _namespace(name))
        except TimeoutError as error:
            raise AssertionError(f"the story {name} does not come to its end") from error

    async def _events(self, client: Client, namespace: str) -> Record:
        assert self._event_key is not None
        told: Counter[tuple[str, ...]] = Counter()
        for each in (await client.list(CoreEvent, namespace=namespace)).items:
            key = self._event_key(each)
            if key is not None:
                told[key] = 1 if each.reason in self._uncounted else told[key] + (each.count or 1)
        return {"events": [[*key, number] for key, number in sorted(told.items())]}


def _namespace(name: str) -> str:
    return name.replace("_", "-")


def _comparable(records: Records) -> Records:
    """As they are read back from a file."""
    read: Records = json.loads(json.dumps(records))
    return read


async def _settled(client: Client) -> None:
    """Wait until no more events are written: controllers take their time for that."""
    before = -1
    while True:
        now = sum(each.count or 1 for each in (await client.list(CoreEvent)).items)
        if now == before:
            return
        before = now
        await asyncio.sleep(QUIET)
