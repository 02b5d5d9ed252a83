"""The operator put together: what ``quarterdeck up``, ``run`` and ``manifests`` know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api import Resource
from quarterdeck.runtime.cache import KindOptions
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.metrics import Registry, RuntimeMetrics
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, OperatorWebhooks

from . import names
from .controllers import (
    Auditor,
    CidrAllocator,
    PoolStatusReconciler,
    SharedState,
    StrictReservations,
    Trigger,
    claim_controller,
    pod_range_controller,
    pool_claim_controller,
    pool_status_controller,
    release_controller,
    subnet_controller,
)
from .metrics import IpamMetrics
from .settings import IpamSettings
from .types import Subnet, SubnetPool, definitions
from .webhooks import IpamGuard

REMEMBERED: Final = 512 * 1024
"""Packed bytes of Subnets that are kept decoded as well: some thousands, the last ones that changed."""
REMEMBERED_POOLS: Final = 128 * 1024
"""The same of pools, whose status may list thousands of Subnets."""


class IpamOperator:
    """Pools, Subnets and claims."""

    name: Final = "ipam"

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The four definitions."""
        return definitions()

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        """All four kinds are cached as a whole; of Subnets there may be a million, read when they change."""
        return {
            Subnet: KindOptions(is_packed=True, remembered_bytes=REMEMBERED),
            SubnetPool: KindOptions(is_packed=True, remembered_bytes=REMEMBERED_POOLS),
        }

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        """Add controllers, webhooks and the external trigger."""
        settings = environment.decode(IpamSettings)
        measured = manager.metrics
        registry = measured.registry if isinstance(measured, RuntimeMetrics) else Registry()
        shared = SharedState(manager.cache, IpamMetrics(registry), settings)
        auditor = Auditor(shared, manager.api_reader, LoopClock())
        pool_status = pool_status_controller(shared, PoolStatusReconciler(shared, auditor))

        def is_fed() -> bool:
            return pool_status.statistics().is_synced

        strict = StrictReservations(shared, manager.cache) if settings.strict_allocation else None
        allocator = CidrAllocator(shared, manager.recorder(names.COMPONENT), strict)
        manager.add(pool_status)
        manager.add(subnet_controller(shared))
        manager.add(
            claim_controller(
                shared,
                allocator,
                client=manager.api_reader,
                is_fed=is_fed,
                is_elected=manager.elector is not None,
            )
        )
        manager.add(release_controller(shared))
        if settings.enable_pool_claim:
            manager.add(pool_claim_controller(shared))
        if settings.pod_ranges.namespace:
            manager.add(pod_range_controller(settings.pod_ranges))
        guard = IpamGuard(shared.table, is_filled=is_fed, settings=settings)
        trigger = Trigger(shared, is_leading=lambda: manager.is_leading)
        return OperatorWebhooks(
            configuration=names.WEBHOOK_CONFIGURATION,
            admission=guard.webhooks(),
            endpoints={names.TRIGGER_PATH: trigger.handle},
        )


def operator() -> Operator:
    """For the entry point."""
    return IpamOperator()
