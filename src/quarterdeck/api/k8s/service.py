"""Services and the legacy Endpoints.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.k8s.reference import ObjectReference
from quarterdeck.api.marker import Atomic, Default, Int32, ListMap, Required
from quarterdeck.api.meta import Condition
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, omitempty
from quarterdeck.api.resource import Resource

__all__ = [
    "ClientIPConfig",
    "EndpointAddress",
    "EndpointPort",
    "EndpointSubset",
    "Endpoints",
    "LoadBalancerIngress",
    "LoadBalancerStatus",
    "PortStatus",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
    "SessionAffinityConfig",
]


class ServicePort(Model):
    name: str = omitempty("")
    protocol: Annotated[str, Default("TCP")] = omitempty("")
    app_protocol: Maybe[str] = UNSET
    port: Annotated[Maybe[int], Int32, Required()] = UNSET
    target_port: Maybe[IntOrString] = UNSET
    node_port: Annotated[Maybe[int], Int32] = UNSET


class ClientIPConfig(Model):
    timeout_seconds: Annotated[Maybe[int], Int32] = UNSET


class SessionAffinityConfig(Model):
    client_ip: Maybe[ClientIPConfig] = UNSET


class ServiceSpec(Model):
    ports: Annotated[Seq[ServicePort], ListMap("port", "protocol")] = omitempty(())
    selector: Annotated[Map[str, str], Atomic()] = omitempty(EMPTY_MAP)
    cluster_ip: str = omitempty("")
    cluster_ips: Annotated[Seq[str], Atomic()] = omitempty(())
    type: str = omitempty("")
    external_ips: Annotated[Seq[str], Atomic()] = omitempty(())
    session_affinity: str = omitempty("")
    load_balancer_ip: str = omitempty("")
    load_balancer_source_ranges: Annotated[Seq[str], Atomic()] = omitempty(())
    external_name: str = omitempty("")
    external_traffic_policy: str = omitempty("")
    health_check_node_port: Annotated[Maybe[int], Int32] = UNSET
    publish_not_ready_addresses: Maybe[bool] = UNSET
    session_affinity_config: Maybe[SessionAffinityConfig] = UNSET
    ip_families: Annotated[Seq[str], Atomic()] = omitempty(())
    ip_family_policy: Maybe[str] = UNSET
    allocate_load_balancer_node_ports: Maybe[bool] = UNSET
    load_balancer_class: Maybe[str] = UNSET
    internal_traffic_policy: Maybe[str] = UNSET
    traffic_distribution: Maybe[str] = UNSET


class PortStatus(Model):
    port: Annotated[Maybe[int], Int32, Required()] = UNSET
    protocol: Annotated[str, Required()] = omitempty("")
    error: Maybe[str] = UNSET


class LoadBalancerIngress(Model):
    ip: str = omitempty("")
    hostname: str = omitempty("")
    ip_mode: Maybe[str] = UNSET
    ports: Annotated[Seq[PortStatus], Atomic()] = omitempty(())


class LoadBalancerStatus(Model):
    ingress: Annotated[Seq[LoadBalancerIngress], Atomic()] = omitempty(())


class ServiceStatus(Model):
    load_balancer: LoadBalancerStatus = omitempty(LoadBalancerStatus())
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class Service(Resource, version="v1", plural="services", short_names=["svc"], status=True):
    spec: ServiceSpec = omitempty(ServiceSpec())
    status: ServiceStatus = omitempty(ServiceStatus())


class EndpointAddress(Model, rules=[Atomic()]):
    ip: Annotated[str, Required()] = omitempty("")
    hostname: str = omitempty("")
    node_name: Maybe[str] = UNSET
    target_ref: Maybe[ObjectReference] = UNSET


class EndpointPort(Model, rules=[Atomic()]):
    name: str = omitempty("")
    port: Annotated[Maybe[int], Int32, Required()] = UNSET
    protocol: str = omitempty("")
    app_protocol: Maybe[str] = UNSET


class EndpointSubset(Model):
    addresses: Annotated[Seq[EndpointAddress], Atomic()] = omitempty(())
    not_ready_addresses: Annotated[Seq[EndpointAddress], Atomic()] = omitempty(())
    ports: Annotated[Seq[EndpointPort], Atomic()] = omitempty(())


class Endpoints(Resource, version="v1", plural="endpoints", short_names=["ep"]):
    subsets: Annotated[Seq[EndpointSubset], Atomic()] = omitempty(())
