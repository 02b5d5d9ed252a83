"""The controllers: grouping, binding, statuses, defaults, and the scheduling cycle."""

from .binder import binder_controller
from .commit import Committer
from .cycle import SchedulingCycle, Ticker
from .installer import Installer
from .owner import RememberingReader
from .podgrouper import pod_grouper_controller
from .podgroupstatus import pod_group_status_controller
from .queuestatus import queue_status_controller
from .reservation import reservation_keeper
from .schedulingevent import SchedulingEvents
from .shards import Shards, shard_status_controller
from .snapshot import SnapshotTaker
from .usage import UsageCollector

__all__ = [
    "Committer",
    "Installer",
    "RememberingReader",
    "SchedulingCycle",
    "SchedulingEvents",
    "Shards",
    "SnapshotTaker",
    "Ticker",
    "UsageCollector",
    "binder_controller",
    "pod_group_status_controller",
    "pod_grouper_controller",
    "queue_status_controller",
    "reservation_keeper",
    "shard_status_controller",
]
