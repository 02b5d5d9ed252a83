"""Machines of the two engines that order them: MCM and Cluster API. Read, never written."""

from __future__ import annotations

from quarterdeck.api import UNSET, Maybe, Resource
from quarterdeck.api.model import JsonObjectField


class McmMachine(Resource, group="machine.sapcloud.io", version="v1alpha1", kind="Machine"):
    """A machine of the Machine Controller Manager."""

    spec: Maybe[JsonObjectField] = UNSET
    status: Maybe[JsonObjectField] = UNSET


class McmMachineDeployment(
    Resource, group="machine.sapcloud.io", version="v1alpha1", kind="MachineDeployment"
):
    """Machines of one group in one zone."""

    spec: Maybe[JsonObjectField] = UNSET
    status: Maybe[JsonObjectField] = UNSET


class CapiMachine(Resource, group="cluster.x-k8s.io", version="v1beta2", kind="Machine"):
    """A machine of Cluster API."""

    spec: Maybe[JsonObjectField] = UNSET
    status: Maybe[JsonObjectField] = UNSET


class CapiMachineDeployment(Resource, group="cluster.x-k8s.io", version="v1beta2", kind="MachineDeployment"):
    """Machines of one group in one zone."""

    spec: Maybe[JsonObjectField] = UNSET
    status: Maybe[JsonObjectField] = UNSET
