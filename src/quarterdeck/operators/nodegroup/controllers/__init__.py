"""The controllers: one keeps the status of groups, one plays the cloud on an embedded cluster."""

from quarterdeck.operators.nodegroup.controllers.simulation import add_simulation
from quarterdeck.operators.nodegroup.controllers.status import add_status

__all__ = ["add_simulation", "add_status"]
