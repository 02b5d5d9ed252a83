"""Nodes, volumes, devices and certificates as kube-controller-manager looks after them, and as ours do.

See ``test_workload_real``: what kube-controller-manager made of the stories is recorded in
``controller_stories.json``; with ``RECORD_STORIES=1`` the tests marked ``kube`` write it anew::

    tools/kube/netns.sh python -m pytest -m kube tests/integration/test_controllers_real.py
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from kube.server import is_built
from parity import server as servers
from quarterdeck.client import Client, Config
from quarterdeck.cluster.choice import ControllerChoice
from quarterdeck.cluster.controllers import ClusterControllers, add_controllers
from quarterdeck.cluster.node.registration import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime.event import EventBroadcaster
from quarterdeck.runtime.manager.manager import Manager, ManagerOptions
from quarterdeck.testing import TestCluster, eventually, run

from .clusterstory import NODES, STORIES, tell_all
from .setstory import Record

Records = dict[str, list[Record]]

RECORDED = Path(__file__).with_name("controller_stories.json")
_WORKLOADS = Workloads(nodes=NodeSettings(count=NODES))
_SIMULATION = ControllerChoice(
    ["default-scheduler", "simulated-kubelet", "simulated-node", "simulated-provisioner"]
)


async def _ours() -> Records:
    async with TestCluster() as cluster:
        controllers = ClusterControllers(
            cluster.link().client,
            root_ca=b"",
            authority=cluster.server.credentials.authority.to_pem(),
            workloads=_WORKLOADS,
        )
        return await _with(
            controllers.run, controllers.request_stop, lambda: controllers.is_serving, cluster.client
        )


async def _theirs(kubeconfig: str) -> Records:
    """With kube-controller-manager; of ours, what is simulated and the scheduler."""
    async with Client.connect(Config.load(kubeconfig), on_warning=lambda _: None) as client:
        manager = Manager(
            client, recorder=EventBroadcaster(client, api="core"), options=ManagerOptions(watch_loop=False)
        )
        registration = add_controllers(manager, root_ca=b"", workloads=_WORKLOADS, choice=_SIMULATION)
        assert registration is not None
        return await _with(manager.serve, manager.request_stop, lambda: registration.is_complete, client)


async def _with(
    run: object, stop: Callable[[], None], is_ready: Callable[[], bool], client: Client
) -> Records:
    async with asyncio.timeout(None), asyncio.TaskGroup() as group:
        assert callable(run)
        group.create_task(run())
        await eventually(is_ready, timeout=300)
        try:
            return await tell_all(client)
        finally:
            stop()


def _comparable(records: Records) -> Records:
    """As they are read back from a file."""
    read: Records = json.loads(json.dumps(records))
    return read


@pytest.fixture(scope="module")
def ours() -> Records:
    return _comparable(run(_ours()))


@pytest.fixture(scope="module")
def recorded() -> Records:
    read: Records = json.loads(RECORDED.read_text())
    return read


@pytest.fixture(scope="module")
def theirs() -> Records:
    if not is_built():
        pytest.skip("there is no kube-controller-manager (make kube)")
    with servers.real(controllers=True) as kubeconfig:
        told = _comparable(uvloop.run(_theirs(str(kubeconfig))))
    if os.environ.get("RECORD_STORIES"):
        RECORDED.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    return told


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_as_it_was_recorded_with_kube_controller_manager(
    ours: Records, recorded: Records, name: str
) -> None:
    assert ours[name] == recorded[name]


@pytest.mark.kube
@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_as_it_does_with_kube_controller_manager(
    theirs: Records, recorded: Records, name: str
) -> None:
    assert theirs[name] == recorded[name]
