"""Leader election: one replica acts, the others wait.

A manager uses ``ThreadedElector``, or ``ThreadedShardedElector`` to share keys among replicas.
``LeaderElector`` and ``ShardedElector`` are the elections themselves, for any event loop.
"""

from quarterdeck.runtime.election.elector import LeaderElector, LeaseOverdue
from quarterdeck.runtime.election.making import make_elector
from quarterdeck.runtime.election.options import LeaderElection, find_namespace, make_identity
from quarterdeck.runtime.election.shard import ShardedElector, rendezvous, shard_of
from quarterdeck.runtime.election.thread import (
    ElectionFailed,
    ThreadedElector,
    ThreadedShardedElector,
    election_client,
)

__all__ = [
    "ElectionFailed",
    "LeaderElection",
    "LeaderElector",
    "LeaseOverdue",
    "ShardedElector",
    "ThreadedElector",
    "ThreadedShardedElector",
    "election_client",
    "find_namespace",
    "make_elector",
    "make_identity",
    "rendezvous",
    "shard_of",
]
