"""The controllers: status of groups, registration of webhooks, and the cloud of an embedded cluster."""

from quarterdeck.operators.nodegroup.controllers.registration import registration_controller
from quarterdeck.operators.nodegroup.controllers.simulation import simulation_controller
from quarterdeck.operators.nodegroup.controllers.status import status_controller

__all__ = ["registration_controller", "simulation_controller", "status_controller"]
