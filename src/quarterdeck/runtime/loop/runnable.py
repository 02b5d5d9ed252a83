"""What a manager runs, and in which order.

A runnable has ``async def run()``, which ends when it is cancelled. It may also have

- ``needs_leader_election``: ``False`` to run on every replica; the default is to need it;
- ``group``: the group it starts with, if it needs no leadership (a server, what controllers stand on);
- ``request_stop()``: called first on shutdown; ``run()`` then ends by itself within the grace period;
- ``is_serving``: the next group starts when this is true;
- ``adopt_checks(checks)``: it is told the manager's health checks when it is added.

Nothing else decides where it runs: what needs leadership never runs on a standby. Groups start one after the
other and stop in another order; within a group everything happens at once.

What a failure means is the policy that it is added with (``Manager.add``): it stops the manager, unless it is
to be restarted, or left out.
"""

from enum import Enum
from typing import Protocol


class Group(Enum):
    """The groups, in the order they start."""

    SERVERS = "servers"
    """Health, metrics, profiling: before caches, so that probes answer while they sync."""
    WEBHOOKS = "webhooks"
    """Before caches, because the first list may need the conversion webhook, and before whoever writes."""
    CACHES = "caches"
    """Caches, and what else controllers stand on."""
    OTHERS = "others"
    """What needs no leadership."""
    WARMUP = "warm-up"
    """Controllers that start their sources before the lease is won."""
    LEADER = "leader"
    """What one replica does and nobody else; where replicas share the keys, the one with the first shard."""
    CONTROLLERS = "controllers"
    """Controllers, with the lease; where replicas share the keys, with the first shard that is won."""


class Runnable(Protocol):
    """Something with a life."""

    async def run(self) -> None:
        """Do it until cancelled, or until it is done."""
        ...
