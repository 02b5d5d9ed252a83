"""Webhooks: defaults and validation of sets, topologies and sizes, and the protection of what is managed."""

from .authorizer import Authorizer
from .podcliqueset import SetGuard
from .scalinggroup import GroupGuard
from .state import ClusterReader, LiveReader, SyncedReader
from .topology import TopologyGuard

__all__ = [
    "Authorizer",
    "ClusterReader",
    "GroupGuard",
    "LiveReader",
    "SetGuard",
    "SyncedReader",
    "TopologyGuard",
]
