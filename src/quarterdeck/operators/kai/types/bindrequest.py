"""BindRequest: the scheduler's order to put a pod on a node."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Maybe, Model, Resource, Seq, omitempty
from quarterdeck.api.marker import Int32
from quarterdeck.api.model import JsonObjectField
from quarterdeck.operators.kai import names


class ReceivedGPU(Model):
    """GPUs the pod gets."""

    count: int = omitempty(0)
    portion: str = omitempty("")
    """Part of each device, with two decimals: 1.00 for whole ones."""


class ResourceClaimAllocation(Model):
    """What a resource claim of the pod gets, by the name that the pod gives it."""

    name: str = omitempty("")
    allocation: Maybe[JsonObjectField] = UNSET


class BindRequestSpec(Model):
    """Which pod, which node, with what."""

    pod_name: str = omitempty("")
    """Pod in the same namespace."""
    selected_node: str = omitempty("")
    """The node that was chosen."""
    received_resource_type: str = omitempty("")
    """Regular, Fraction or MigInstance."""
    received_gpu: Maybe[ReceivedGPU] = UNSET
    selected_gpu_groups: Seq[str] = omitempty(())
    """Shared GPUs, for a Fraction."""
    resource_claim_allocations: Seq[ResourceClaimAllocation] = omitempty(())
    backoff_limit: Annotated[Maybe[int], Int32] = UNSET
    """Attempts before binding is given up; one unless set."""


class BindRequestStatus(Model):
    """State of the binding."""

    phase: str = omitempty("")
    """Pending, Succeeded or Failed."""
    reason: str = omitempty("")
    failed_attempts: Annotated[int, Int32] = omitempty(0)
    """How often binding failed."""


class BindRequest(Resource, group=names.GROUP, version="v1alpha2", status=True):
    """The order to put a pod on a node."""

    spec: BindRequestSpec = omitempty(BindRequestSpec())
    status: BindRequestStatus = omitempty(BindRequestStatus())
