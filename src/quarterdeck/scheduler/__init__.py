"""The gang scheduler's decisions: a pure function from a snapshot of the cluster to a list of decisions.

::

    result = schedule(snapshot, settings)
    for decision in result.decisions: ...

What goes in and out:

    snapshot, settings    the cluster as it is; what can be set
    intake                nodes and pods as they come from the API
    decision              what is to be done, and what became of every pod

Inside, from the bottom up:

    model                 the cluster in memory: nodes, queues, jobs and pods, topology, amounts
    order                 fair shares of queues, and whose turn it is
    placement             which nodes may take a pod, which is best, and a whole job or nothing
    transaction           all changes to the cluster in memory, with their undoing
    victim                whom to evict, and what each action accepts
    explanation           why a job waits
    action, cycle         the actions, and one cycle of them
"""

from quarterdeck.scheduler.cycle import schedule
from quarterdeck.scheduler.decision import CycleResult, Decision, PodState
from quarterdeck.scheduler.settings import Action, Settings
from quarterdeck.scheduler.snapshot import Snapshot

__all__ = ["Action", "CycleResult", "Decision", "PodState", "Settings", "Snapshot", "schedule"]
