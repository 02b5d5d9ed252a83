"""Workloads as kube-controller-manager runs them, and as ours do: the same stories, the same end.

The nodes are simulated on all sides by the same kubelet, and the same scheduler places pods. What
kube-controller-manager has made of the stories is recorded in ``workload_stories.json``; with
``RECORD_STORIES=1`` the tests marked ``kube`` write it anew. On a real server time is real; run them where
only loopback exists::

    tools/kube/netns.sh python -m pytest -m kube tests/integration/test_workload_real.py
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

from .setstory import STORIES, Record, tell_all

Records = dict[str, list[Record]]

RECORDED = Path(__file__).with_name("workload_stories.json")
_WORKLOADS = Workloads(nodes=NodeSettings(count=1))
_NODES_ONLY = ControllerChoice(["default-scheduler", "simulated-kubelet", "simulated-node"])


async def _ours(kubeconfig: str = "") -> Records:
    """With our controllers: on the embedded server on virtual time, or on the one that is named."""
    async with TestCluster(use_existing=kubeconfig or False) as cluster:
        controllers = ClusterControllers(cluster.link().client, root_ca=b"", workloads=_WORKLOADS)
        return await _with(
            controllers.run, controllers.request_stop, lambda: controllers.is_serving, cluster.client
        )


async def _theirs(kubeconfig: str) -> Records:
    """On kube-apiserver with kube-controller-manager; of ours, only the simulated nodes and the scheduler."""
    async with Client.connect(Config.load(kubeconfig), on_warning=lambda _: None) as client:
        manager = Manager(client, recorder=EventBroadcaster(client), options=ManagerOptions(watch_loop=False))
        registration = add_controllers(manager, root_ca=b"", workloads=_WORKLOADS, choice=_NODES_ONLY)
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


@pytest.fixture(scope="module")
def ours_there() -> Records:
    if not is_built():
        pytest.skip("there is no kube-apiserver (make kube)")
    with servers.real() as kubeconfig:
        return _comparable(uvloop.run(_ours(str(kubeconfig))))


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


@pytest.mark.kube
@pytest.mark.parametrize("name", STORIES)
def test_our_controllers_do_the_same_on_kube_apiserver(
    ours_there: Records, recorded: Records, name: str
) -> None:
    assert ours_there[name] == recorded[name]
