"""When a node was last heard of: pure.

What counts is when news of a node arrived here, not the times it writes: clocks differ. A controller that
starts anew gives every node its full time again.
"""

from __future__ import annotations

from typing import Final

import msgspec

from quarterdeck.cluster.nodehealth.nodeview import LeaseView, NodeView

MONITOR_PERIOD: Final = 5.0
"""Seconds between two looks at all nodes."""
GRACE_PERIOD: Final = 50.0
"""Seconds without news after which a node is not well; its lease may give it longer."""
STARTUP_GRACE_PERIOD: Final = 60.0
"""The same for a node whose kubelet has never said how it is."""


class Health(msgspec.Struct):
    """What is remembered of a node."""

    uid: str
    heard: float
    """When it was last heard of."""
    has_condition: bool
    heartbeat: str | None
    renewed: float = 0.0
    lease_duration: float = 0.0

    @classmethod
    def of(cls, node: NodeView, now: float) -> Health:
        """A node that is seen for the first time."""
        ready = node.ready
        if ready is None:
            return cls(node.uid, node.created, False, None)
        return cls(node.uid, now, True, ready.last_heartbeat_time)

    def note(self, node: NodeView, lease: LeaseView | None, now: float) -> None:
        """Take in the present state of a node."""
        ready = node.ready
        heartbeat = ready.last_heartbeat_time if ready is not None else None
        if (ready is not None, heartbeat) != (self.has_condition, self.heartbeat):
            self.heard = now
            self.has_condition, self.heartbeat = ready is not None, heartbeat
        if lease is not None and lease.renewed > self.renewed:
            self.renewed, self.heard = lease.renewed, now
        self.lease_duration = lease.duration if lease is not None else 0.0

    def is_silent(self, now: float) -> bool:
        """Whether there was no news for too long."""
        grace = max(GRACE_PERIOD, self.lease_duration) if self.has_condition else STARTUP_GRACE_PERIOD
        return now > self.heard + grace
