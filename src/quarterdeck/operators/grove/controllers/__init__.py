"""The controllers: sets, groups, cliques, gangs, topologies, and the start of the operator."""

from .backend import backend_controller
from .keeper import Keeper
from .operatorstatus import OperatorStatus
from .podclique import clique_controller
from .podcliquescalinggroup import group_controller
from .podcliqueset import set_controller
from .preflight import StartError
from .shared import SharedState
from .startup import Startup
from .topology import topology_controller

__all__ = [
    "Keeper",
    "OperatorStatus",
    "SharedState",
    "StartError",
    "Startup",
    "backend_controller",
    "clique_controller",
    "group_controller",
    "set_controller",
    "topology_controller",
]
