"""Jobs as kube-controller-manager runs them, and as ours do: the same stories, the same end.

The nodes are simulated on all sides by the same kubelet. On a real server time is real; run it where only
loopback exists: ``tools/kube/netns.sh python -m pytest -m kube tests/integration/test_job_real.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from kube.server import is_built
from parity import server as servers
from quarterdeck.client import Client, Config
from quarterdeck.cluster.controllers import ClusterControllers
from quarterdeck.cluster.node.registration import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime.event import EventBroadcaster
from quarterdeck.runtime.manager.manager import Manager, ManagerOptions
from quarterdeck.testing import TestCluster, eventually, run

from .jobstory import STORIES, Record, tell_all

Records = dict[str, list[Record]]


async def _ours(kubeconfig: str = "") -> Records:
    """With our controllers: on the embedded server on virtual time, or on the one that is named."""
    workloads = Workloads(nodes=NodeSettings(count=1), scheduler=None)
    async with TestCluster(use_existing=kubeconfig or False) as cluster:
        controllers = ClusterControllers(cluster.link().client, root_ca=b"", workloads=workloads)
        return await _with(
            controllers.run, controllers.request_stop, lambda: controllers.is_serving, cluster.client
        )


async def _theirs(kubeconfig: str) -> Records:
    """On kube-apiserver with kube-controller-manager; of ours, only the simulated nodes."""
    workloads = Workloads(nodes=NodeSettings(count=1), jobs=None, scheduler=None)
    async with Client.connect(Config.load(kubeconfig), on_warning=lambda _: None) as client:
        manager = Manager(client, recorder=EventBroadcaster(client), options=ManagerOptions(watch_loop=False))
        registration = workloads.add_to(manager)
        return await _with(manager.serve, manager.request_stop, lambda: registration.is_complete, client)


async def _with(
    run: object, stop: Callable[[], None], is_ready: Callable[[], bool], client: Client
) -> Records:
    async with asyncio.timeout(None), asyncio.TaskGroup() as group:
        assert callable(run)
        group.create_task(run())
        await eventually(is_ready)
        try:
            return await tell_all(client)
        finally:
            stop()


@pytest.fixture(scope="module")
def ours() -> Records:
    return run(_ours())


@pytest.fixture(scope="module")
def theirs() -> Records:
    if not is_built():
        pytest.skip("there is no kube-controller-manager (make kube)")
    with servers.real(controllers=True) as kubeconfig:
        return uvloop.run(_theirs(str(kubeconfig)))


@pytest.fixture(scope="module")
def ours_there() -> Records:
    if not is_built():
        pytest.skip("there is no kube-apiserver (make kube)")
    with servers.real() as kubeconfig:
        return uvloop.run(_ours(str(kubeconfig)))


@pytest.mark.kube
@pytest.mark.parametrize("name", STORIES)
def test_a_job_ends_as_it_does_with_kube_controller_manager(
    ours: Records, theirs: Records, name: str
) -> None:
    assert ours[name] == theirs[name]


@pytest.mark.kube
@pytest.mark.parametrize("name", STORIES)
def test_our_controller_does_the_same_on_kube_apiserver(
    ours: Records, ours_there: Records, name: str
) -> None:
    assert ours_there[name] == ours[name]
