"""The gang scheduler's decisions: a pure function from a snapshot of the cluster to a list of decisions.

::

    result = schedule(snapshot, settings)
    for decision in result.decisions: ...

What goes in and out:

    snapshot, settings    the cluster as it is; what can be set
    intake                nodes and pods as they come from the API
    decision              what is to be done, and what became of every pod

Inside, from the bottom up:

    resource, state, hold       amounts, states of pods, ways to occupy a node
    sharing, node, nodeset      nodes: what is idle and what will be free; sets of nodes in order
    subgroup, task, job         gangs: trees of subgroups, pods, which pods come next
    fairshare, queue, capacity  queues: shares, accounts, limits
    topology, packing           domains of nodes, and which of them fit a gang
    affinity, predicate         which nodes may take a pod
    cluster, ledger             everything in memory, and all changes to it with their undoing
    picking, placing, refusal   the best node; a whole job or nothing; why not
    joborder, replacing         whose turn it is
    search, step, room          whom to evict
    reclaim, protection, ...    what an action accepts
    action, stale, report       the actions of a cycle and its reports
    cycle                       one cycle
"""

from quarterdeck.scheduler.cycle import schedule
from quarterdeck.scheduler.decision import CycleResult, Decision, PodState
from quarterdeck.scheduler.settings import Action, Settings
from quarterdeck.scheduler.snapshot import Snapshot

__all__ = ["Action", "CycleResult", "Decision", "PodState", "Settings", "Snapshot", "schedule"]
