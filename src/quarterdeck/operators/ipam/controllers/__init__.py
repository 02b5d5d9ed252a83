"""The controllers: Subnets, pool status, claims, pool claims, the release of pools, pod ranges of nodes."""

from .allocator import CidrAllocator, claim_controller
from .audit import Auditor
from .podrange import pod_range_controller
from .poolclaim import pool_claim_controller
from .poolstatus import PoolStatusReconciler, pool_status_controller
from .release import release_controller
from .shared import SharedState
from .strict import StrictReservations
from .subnet import subnet_controller
from .trigger import Trigger

__all__ = [
    "Auditor",
    "CidrAllocator",
    "PoolStatusReconciler",
    "SharedState",
    "StrictReservations",
    "Trigger",
    "claim_controller",
    "pod_range_controller",
    "pool_claim_controller",
    "pool_status_controller",
    "release_controller",
    "subnet_controller",
]
