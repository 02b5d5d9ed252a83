"""The controllers: sets, groups, cliques, gangs, topologies, and the start of the operator."""

from .operatorstatus import OperatorStatus
from .podclique import clique_controller
from .podcliquescalinggroup import group_controller
from .podcliqueset import set_controller
from .podgang import gang_controller
from .shared import SharedState
from .startup import StartError, Startup
from .topology import topology_controller

__all__ = [
    "OperatorStatus",
    "SharedState",
    "StartError",
    "Startup",
    "clique_controller",
    "gang_controller",
    "group_controller",
    "set_controller",
    "topology_controller",
]
