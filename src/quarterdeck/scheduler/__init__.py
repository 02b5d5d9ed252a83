"""The gang scheduler's decisions: a pure function from a snapshot of the cluster to a list of decisions.

::

    result = schedule(snapshot, settings)
    for decision in result.decisions: ...

What goes in and out:

    snapshot, settings    the cluster as it is; what can be set
    intake                nodes and pods as they come from the API
    decision              what is to be done, and what became of every pod

Inside, from the bottom up; each imports only from those before it, as a contract in pyproject.toml holds:

    resource, device      amounts; devices and claims
    snapshot, settings, decision   see above
    model                 the cluster in memory: nodes, queues and their fair shares, jobs and pods, topology,
                          claims, and which nodes may take a pod
    transaction           all changes to the cluster in memory, with their undoing
    joborder, fiterror    whose turn it is; why something does not fit
    placement             which node is best, a whole job or nothing, and why not
    victim                whom to evict, and what each action accepts
    action, report        the actions; why a job waits
    cycle                 one cycle of both
    plan                  what would happen if
"""

from quarterdeck.scheduler.cycle import schedule
from quarterdeck.scheduler.decision import CycleResult, Decision, PodState
from quarterdeck.scheduler.settings import Action, Settings
from quarterdeck.scheduler.snapshot import Snapshot

__all__ = ["Action", "CycleResult", "Decision", "PodState", "Settings", "Snapshot", "schedule"]
