"""Leader election: one replica acts, the others wait.

A manager uses ``ThreadedElector``; ``LeaderElector`` is the election itself, for any event loop;
``ShardedElector`` shares keys among replicas.
"""

from quarterdeck.runtime.election.elector import LeaderElector, LeaseOverdue
from quarterdeck.runtime.election.making import make_elector
from quarterdeck.runtime.election.options import LeaderElection, find_namespace, make_identity
from quarterdeck.runtime.election.shard import ShardedElector, rendezvous, shard_of
from quarterdeck.runtime.election.thread import ElectionFailed, ThreadedElector, election_client

__all__ = [
    "ElectionFailed",
    "LeaderElection",
    "LeaderElector",
    "LeaseOverdue",
    "ShardedElector",
    "ThreadedElector",
    "election_client",
    "find_namespace",
    "make_elector",
    "make_identity",
    "rendezvous",
    "shard_of",
]
