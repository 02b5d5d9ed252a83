"""The scheduling cycle written for reading: what the scheduler is measured and checked against.

Everything is computed from the list of pods whenever it is needed, every node is scored for every pod, and
the whole state is copied wherever something may have to be taken back. It knows whole GPUs, CPU, memory,
gangs, topologies and queues, and nothing else: no shared GPUs, no constraints on nodes, no minimum runtimes,
no messages.
"""

from quarterdeck.scheduler.settings import Settings
from quarterdeck.scheduler.snapshot import Snapshot

from .action import Actions
from .cluster import State

__all__ = ["State", "schedule"]


def schedule(snapshot: Snapshot, settings: Settings) -> State:
    """What becomes of every pod."""
    return Actions(snapshot, settings).run()
