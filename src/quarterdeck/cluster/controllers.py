"""The controllers of `quarterdeck.cluster`, for a manager to run."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from quarterdeck.client import Client
from quarterdeck.cluster import garbage
from quarterdeck.cluster.aggregation import aggregation_controller
from quarterdeck.cluster.certificate.controller import (
    approving_controller,
    cleaning_controller,
    signing_controller,
)
from quarterdeck.cluster.choice import ALL_CONTROLLERS, ControllerChoice
from quarterdeck.cluster.event import DEFAULT_TTL, event_ttl_controller
from quarterdeck.cluster.garbage import garbage_collector
from quarterdeck.cluster.joining import joining_controller
from quarterdeck.cluster.monitor import ResourceMonitor
from quarterdeck.cluster.namespace import namespace_controller
from quarterdeck.cluster.node.registration import NodeRegistration
from quarterdeck.cluster.policystatus import policy_status_controller
from quarterdeck.cluster.quota import quota_controller
from quarterdeck.cluster.rootca import root_ca_controller
from quarterdeck.cluster.serviceaccount import service_account_controller
from quarterdeck.cluster.servicecidr import service_cidr_controller
from quarterdeck.cluster.storageprotection import claim_protection_controller, volume_protection_controller
from quarterdeck.cluster.token import SignToken, token_controller
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime.cache.cache import Cache
from quarterdeck.runtime.cache.options import CacheOptions
from quarterdeck.runtime.contract import ReconcileMetrics
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.event import EventBroadcaster
from quarterdeck.runtime.loop.runnable import Group
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import ManagerMetrics, ManagerOptions
from quarterdeck.runtime.queue.workqueue import QueueMetrics


def add_controllers(
    manager: Manager,
    *,
    root_ca: bytes,
    sign_token: SignToken | None = None,
    event_ttl: float = DEFAULT_TTL,
    workloads: Workloads | None = None,
    choice: ControllerChoice = ALL_CONTROLLERS,
    elsewhere: Iterable[str] = (),
    authority: bytes = b"",
) -> NodeRegistration | None:
    """Add what every cluster has to a manager that has not started.

    The manager's cache must hold everything: what is left out of it is never collected. Beside operators,
    which restrict the cache to what they need, take ``ClusterControllers``.

    - ``root_ca``: the certificate (PEM) that signs the API server's own, for those who call it from inside;
      nothing is published without it.
    - ``sign_token``: makes the tokens of service-account Secrets; without it those are left alone.
    - ``event_ttl``: seconds an event is kept after its last write.
    - ``workloads``: what runs Jobs and pods; without it they are stored, and nothing happens to them. What
      makes the nodes is returned.
    - ``authority``: certificate and key (PEM) that sign what CertificateSigningRequests ask for; without it
      nobody does.
    - ``choice``: which of all these run. Raises ``ConfigError`` for names that none of them has, nor one
      that runs ``elsewhere``.
    """
    known = [*elsewhere]

    def add(controller: Controller[Any]) -> None:
        known.append(controller.name)
        if choice.includes(controller.name):
            manager.add(controller)

    monitor = ResourceMonitor(manager.client.mapper)
    add(garbage_collector(monitor, manager.client.mapper, manager.recorder(garbage.NAME)))
    add(quota_controller(monitor, manager.cache))
    add(namespace_controller())
    add(service_account_controller())
    add(aggregation_controller())
    add(claim_protection_controller())
    add(volume_protection_controller())
    add(event_ttl_controller(event_ttl))
    add(approving_controller())
    add(cleaning_controller())
    add(service_cidr_controller())
    add(policy_status_controller())
    if authority:
        add(signing_controller(authority))
    if root_ca:
        add(root_ca_controller(root_ca))
    if sign_token is not None:
        add(token_controller(root_ca, sign_token))
    registration = workloads.add_to(manager, add) if workloads is not None else None
    choice.check(known)
    return registration


class ClusterControllers:
    """The same as something a manager runs: with a cache of its own, because operators restrict theirs.

    Of the outer manager's groups it is with the caches. It starts before the operators and stops after them,
    as if it were another process: what operators leave behind while they stop is still collected. And
    webhooks are there as long as it writes: those of an earlier run would be asked in vain.
    """

    name: Final = "cluster"
    group: Final = Group.CACHES

    def __init__(
        self,
        client: Client,
        *,
        root_ca: bytes,
        sign_token: SignToken | None = None,
        event_ttl: float = DEFAULT_TTL,
        workloads: Workloads | None = None,
        choice: ControllerChoice = ALL_CONTROLLERS,
        elsewhere: Iterable[str] = (),
        authority: bytes = b"",
        metrics: ManagerMetrics | None = None,
        cache: CacheOptions | None = None,
        lender: Cache | None = None,
        waits_for_nodes: bool = False,
    ) -> None:
        """See ``add_controllers``; ``metrics`` count the work of these controllers among others.

        With ``waits_for_nodes`` what runs workloads begins when there is a node to run them.

        ``cache`` says how kinds are kept of which there may be very many; everything has to be in it. Kinds
        that ``lender``, the operators' cache, holds as a whole are not listed again to be collected.
        """
        self.manager: Final = Manager(
            client,
            cache=cache,
            metrics=_ControllerMetrics(metrics) if metrics is not None else None,
            # Legacy events, as kube-controller-manager writes them: they are few even of many pods.
            recorder=EventBroadcaster(client, api="core"),
            options=ManagerOptions(watch_loop=False),
        )
        if lender is not None:
            self.manager.cache.borrow_from(lender)
        self._registration = add_controllers(
            self.manager,
            root_ca=root_ca,
            sign_token=sign_token,
            event_ttl=event_ttl,
            workloads=None if waits_for_nodes else workloads,
            choice=choice,
            elsewhere=elsewhere,
            authority=authority,
        )
        if waits_for_nodes and workloads is not None:
            self.manager.add(joining_controller(partial(self._begin, workloads)))

    def _begin(self, workloads: Workloads) -> None:
        self._registration = workloads.add_to(self.manager)

    @property
    def is_serving(self) -> bool:
        """Whether all controllers have seen the whole cluster, and the nodes it should have are there."""
        has_nodes = self._registration is None or self._registration.is_complete
        return (
            has_nodes
            and self.manager.is_started
            and all(each.is_synced for each in self.manager.statistics().controllers)
        )

    async def run(self) -> None:
        """Run until asked to stop; raises what stopped it."""
        async with self.manager:
            await self.manager.serve()

    def request_stop(self) -> None:
        """Begin to stop."""
        self.manager.request_stop()


class _ControllerMetrics:
    """Another manager's metrics, for what is counted by controller: its caches are its own affair."""

    def __init__(self, metrics: ManagerMetrics) -> None:
        self._metrics: Final = metrics

    def controller(self, name: str) -> ReconcileMetrics:
        return self._metrics.controller(name)

    def queue(self, name: str) -> QueueMetrics:
        return self._metrics.queue(name)
