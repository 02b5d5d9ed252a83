"""Leases: leader election and node heartbeats.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import MicroTime
from quarterdeck.api.marker import Int32
from quarterdeck.api.model import UNSET, Maybe, Model, omitempty
from quarterdeck.api.resource import Resource

__all__ = ["Lease", "LeaseSpec"]


class LeaseSpec(Model):
    holder_identity: Maybe[str] = UNSET
    lease_duration_seconds: Annotated[Maybe[int], Int32] = UNSET
    acquire_time: Maybe[MicroTime] = UNSET
    renew_time: Maybe[MicroTime] = UNSET
    lease_transitions: Annotated[Maybe[int], Int32] = UNSET
    strategy: Maybe[str] = UNSET
    preferred_holder: Maybe[str] = UNSET


class Lease(Resource, group="coordination.k8s.io", version="v1", plural="leases"):
    spec: LeaseSpec = omitempty(LeaseSpec())
