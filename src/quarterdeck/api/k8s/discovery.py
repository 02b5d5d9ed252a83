"""Endpoint slices.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.k8s.reference import ObjectReference
from quarterdeck.api.marker import Atomic, Int32, ListSet, Required
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, omitempty
from quarterdeck.api.resource import Resource

__all__ = [
    "Endpoint",
    "EndpointConditions",
    "EndpointHints",
    "EndpointPort",
    "EndpointSlice",
    "ForNode",
    "ForZone",
]


class EndpointConditions(Model):
    ready: Maybe[bool] = UNSET
    serving: Maybe[bool] = UNSET
    terminating: Maybe[bool] = UNSET


class ForZone(Model):
    name: Annotated[str, Required()] = omitempty("")


class ForNode(Model):
    name: Annotated[str, Required()] = omitempty("")


class EndpointHints(Model):
    for_zones: Annotated[Seq[ForZone], Atomic()] = omitempty(())
    for_nodes: Annotated[Seq[ForNode], Atomic()] = omitempty(())


class Endpoint(Model):
    addresses: Annotated[Seq[str], ListSet(), Required()] = omitempty(())
    conditions: EndpointConditions = omitempty(EndpointConditions())
    hostname: Maybe[str] = UNSET
    target_ref: Maybe[ObjectReference] = UNSET
    deprecated_topology: Map[str, str] = omitempty(EMPTY_MAP)
    node_name: Maybe[str] = UNSET
    zone: Maybe[str] = UNSET
    hints: Maybe[EndpointHints] = UNSET


class EndpointPort(Model, rules=[Atomic()]):
    name: Maybe[str] = UNSET
    protocol: Maybe[str] = UNSET
    port: Annotated[Maybe[int], Int32] = UNSET
    app_protocol: Maybe[str] = UNSET


class EndpointSlice(Resource, group="discovery.k8s.io", version="v1", plural="endpointslices"):
    address_type: Annotated[str, Required()] = omitempty("")
    endpoints: Annotated[Seq[Endpoint], Atomic()] = omitempty(())
    ports: Annotated[Seq[EndpointPort], Atomic()] = omitempty(())
