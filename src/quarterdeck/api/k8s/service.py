"""Services and the legacy Endpoints.

Fields follow k8s.io/api v0.36.3; what a newer server adds survives as unknown fields.
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
    """Information on service's port."""

    name: str = omitempty("")
    protocol: Annotated[str, Default("TCP")] = omitempty("")
    app_protocol: Maybe[str] = UNSET
    port: Annotated[Maybe[int], Int32, Required()] = UNSET
    target_port: Maybe[IntOrString] = UNSET
    node_port: Annotated[Maybe[int], Int32] = UNSET


class ClientIPConfig(Model):
    """Configurations of Client IP based session affinity."""

    timeout_seconds: Annotated[Maybe[int], Int32] = UNSET


class SessionAffinityConfig(Model):
    """Configurations of session affinity."""

    client_ip: Maybe[ClientIPConfig] = UNSET


class ServiceSpec(Model):
    """Attributes that a user creates on a service."""

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
    """Error condition of a service port."""

    port: Annotated[Maybe[int], Int32, Required()] = UNSET
    protocol: Annotated[str, Required()] = omitempty("")
    error: Maybe[str] = UNSET


class LoadBalancerIngress(Model):
    """Status of a load-balancer ingress point: traffic intended for the service should be sent to an …"""

    ip: str = omitempty("")
    hostname: str = omitempty("")
    ip_mode: Maybe[str] = UNSET
    ports: Annotated[Seq[PortStatus], Atomic()] = omitempty(())


class LoadBalancerStatus(Model):
    """Status of a load-balancer."""

    ingress: Annotated[Seq[LoadBalancerIngress], Atomic()] = omitempty(())


class ServiceStatus(Model):
    """Current status of a service."""

    load_balancer: LoadBalancerStatus = omitempty(LoadBalancerStatus())
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class Service(Resource, version="v1", short_names=["svc"], status=True):
    """Named abstraction of software service (for example, mysql) consisting of local port (for example …"""

    spec: ServiceSpec = omitempty(ServiceSpec())
    status: ServiceStatus = omitempty(ServiceStatus())


class EndpointAddress(Model, rules=[Atomic()]):
    """Tuple that describes single IP address."""

    ip: Annotated[str, Required()] = omitempty("")
    hostname: str = omitempty("")
    node_name: Maybe[str] = UNSET
    target_ref: Maybe[ObjectReference] = UNSET


class EndpointPort(Model, rules=[Atomic()]):
    """Tuple that describes a single port."""

    name: str = omitempty("")
    port: Annotated[Maybe[int], Int32, Required()] = UNSET
    protocol: str = omitempty("")
    app_protocol: Maybe[str] = UNSET


class EndpointSubset(Model):
    """Group of addresses with a common set of ports."""

    addresses: Annotated[Seq[EndpointAddress], Atomic()] = omitempty(())
    not_ready_addresses: Annotated[Seq[EndpointAddress], Atomic()] = omitempty(())
    ports: Annotated[Seq[EndpointPort], Atomic()] = omitempty(())


class Endpoints(Resource, version="v1", plural="endpoints", short_names=["ep"]):
    """Collection of endpoints that implement the actual service."""

    subsets: Annotated[Seq[EndpointSubset], Atomic()] = omitempty(())
