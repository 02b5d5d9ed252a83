"""Asking the scheduler: snapshots in files, why a gang waits, and what would happen if.

::

    recorded = load(Path("cluster.json").read_bytes())
    print(explain(recorded, Key("team", "training")).text())
    print(simulate(recorded, add_nodes("n1", 4), change_queue("vision", {"gpu.quota": 16})).text())

Everything here is a pure function of a recorded snapshot; nothing talks to a cluster.
"""

from .change import Change, add_nodes, change_queue, end_gangs, remove_nodes, submit_gang
from .course import Rest, after, run_to_rest
from .explanation import Explanation, explain
from .gangname import gangs_named
from .record import Recorded, decisions_text, dump, load
from .remedy import Remedy, remedies, verdict
from .simulation import Simulation, simulate

__all__ = [
    "Change",
    "Explanation",
    "Recorded",
    "Remedy",
    "Rest",
    "Simulation",
    "add_nodes",
    "after",
    "change_queue",
    "decisions_text",
    "dump",
    "end_gangs",
    "explain",
    "gangs_named",
    "load",
    "remedies",
    "remove_nodes",
    "run_to_rest",
    "simulate",
    "submit_gang",
    "verdict",
]
