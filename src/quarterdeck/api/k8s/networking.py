"""Network policies and ingresses.

Fields follow k8s.io/api v0.36.3; what a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.k8s.reference import TypedLocalObjectReference
from quarterdeck.api.marker import Atomic, Int32, Required
from quarterdeck.api.meta import LabelSelector
from quarterdeck.api.model import UNSET, Maybe, Model, Seq, omitempty
from quarterdeck.api.resource import Resource

__all__ = [
    "HTTPIngressPath",
    "HTTPIngressRuleValue",
    "IPBlock",
    "Ingress",
    "IngressBackend",
    "IngressClass",
    "IngressClassParametersReference",
    "IngressClassSpec",
    "IngressLoadBalancerIngress",
    "IngressLoadBalancerStatus",
    "IngressPortStatus",
    "IngressRule",
    "IngressServiceBackend",
    "IngressSpec",
    "IngressStatus",
    "IngressTLS",
    "NetworkPolicy",
    "NetworkPolicyEgressRule",
    "NetworkPolicyIngressRule",
    "NetworkPolicyPeer",
    "NetworkPolicyPort",
    "NetworkPolicySpec",
    "ServiceBackendPort",
]


class NetworkPolicyPort(Model):
    """Port to allow traffic on."""

    protocol: Maybe[str] = UNSET
    port: Maybe[IntOrString] = UNSET
    end_port: Annotated[Maybe[int], Int32] = UNSET


class IPBlock(Model):
    """Particular CIDR (Ex."""

    cidr: Annotated[str, Required()] = omitempty("")
    except_: Annotated[Seq[str], Atomic()] = omitempty(())


class NetworkPolicyPeer(Model):
    """Peer to allow traffic to/from."""

    pod_selector: Maybe[LabelSelector] = UNSET
    namespace_selector: Maybe[LabelSelector] = UNSET
    ip_block: Maybe[IPBlock] = UNSET


class NetworkPolicyIngressRule(Model):
    """Particular set of traffic that is allowed to the pods matched by a NetworkPolicySpec's podSelector."""

    ports: Annotated[Seq[NetworkPolicyPort], Atomic()] = omitempty(())
    from_: Annotated[Seq[NetworkPolicyPeer], Atomic()] = omitempty(())


class NetworkPolicyEgressRule(Model):
    """Particular set of traffic that is allowed out of pods matched by a NetworkPolicySpec's podSelector."""

    ports: Annotated[Seq[NetworkPolicyPort], Atomic()] = omitempty(())
    to: Annotated[Seq[NetworkPolicyPeer], Atomic()] = omitempty(())


class NetworkPolicySpec(Model):
    """NetworkPolicySpec provides the specification of a NetworkPolicy."""

    pod_selector: LabelSelector = omitempty(LabelSelector())
    ingress: Annotated[Seq[NetworkPolicyIngressRule], Atomic()] = omitempty(())
    egress: Annotated[Seq[NetworkPolicyEgressRule], Atomic()] = omitempty(())
    policy_types: Annotated[Seq[str], Atomic()] = omitempty(())


class NetworkPolicy(Resource, group="networking.k8s.io", version="v1", short_names=["netpol"]):
    """What network traffic is allowed for a set of Pods."""

    spec: NetworkPolicySpec = omitempty(NetworkPolicySpec())


class ServiceBackendPort(Model, rules=[Atomic()]):
    """Service port being referenced."""

    name: str = omitempty("")
    number: Annotated[Maybe[int], Int32] = UNSET


class IngressServiceBackend(Model):
    """IngressServiceBackend references a Kubernetes Service as a Backend."""

    name: Annotated[str, Required()] = omitempty("")
    port: ServiceBackendPort = omitempty(ServiceBackendPort())


class IngressBackend(Model):
    """Ll endpoints for a given service and port."""

    service: Maybe[IngressServiceBackend] = UNSET
    resource: Maybe[TypedLocalObjectReference] = UNSET


class IngressTLS(Model):
    """Transport layer security associated with an ingress."""

    hosts: Annotated[Seq[str], Atomic()] = omitempty(())
    secret_name: str = omitempty("")


class HTTPIngressPath(Model):
    """HTTPIngressPath associates a path with a backend."""

    path: str = omitempty("")
    path_type: Annotated[Maybe[str], Required()] = UNSET
    backend: Annotated[IngressBackend, Required()] = omitempty(IngressBackend())


class HTTPIngressRuleValue(Model):
    """List of http selectors pointing to backends."""

    paths: Annotated[Seq[HTTPIngressPath], Atomic(), Required()] = omitempty(())


class IngressRule(Model):
    """Rules mapping the paths under a specified host to the related backend services."""

    host: str = omitempty("")
    http: Maybe[HTTPIngressRuleValue] = UNSET


class IngressSpec(Model):
    """Ingress the user wishes to exist."""

    ingress_class_name: Maybe[str] = UNSET
    default_backend: Maybe[IngressBackend] = UNSET
    tls: Annotated[Seq[IngressTLS], Atomic()] = omitempty(())
    rules: Annotated[Seq[IngressRule], Atomic()] = omitempty(())


class IngressPortStatus(Model):
    """Error condition of a service port."""

    port: Annotated[Maybe[int], Int32, Required()] = UNSET
    protocol: Annotated[str, Required()] = omitempty("")
    error: Maybe[str] = UNSET


class IngressLoadBalancerIngress(Model):
    """Status of a load-balancer ingress point."""

    ip: str = omitempty("")
    hostname: str = omitempty("")
    ports: Annotated[Seq[IngressPortStatus], Atomic()] = omitempty(())


class IngressLoadBalancerStatus(Model):
    """Status of a load-balancer."""

    ingress: Annotated[Seq[IngressLoadBalancerIngress], Atomic()] = omitempty(())


class IngressStatus(Model):
    """IngressStatus describe the current state of the Ingress."""

    load_balancer: IngressLoadBalancerStatus = omitempty(IngressLoadBalancerStatus())


class Ingress(Resource, group="networking.k8s.io", version="v1", short_names=["ing"], status=True):
    """Collection of rules that allow inbound connections to reach the endpoints defined by a backend."""

    spec: IngressSpec = omitempty(IngressSpec())
    status: IngressStatus = omitempty(IngressStatus())


class IngressClassParametersReference(Model):
    """IngressClassParametersReference identifies an API object."""

    api_group: Maybe[str] = UNSET
    kind: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    scope: Maybe[str] = UNSET
    namespace: Maybe[str] = UNSET


class IngressClassSpec(Model):
    """IngressClassSpec provides information about the class of an Ingress."""

    controller: str = omitempty("")
    parameters: Maybe[IngressClassParametersReference] = UNSET


class IngressClass(Resource, group="networking.k8s.io", version="v1", scope="Cluster"):
    """Class of the Ingress, referenced by the Ingress Spec."""

    spec: IngressClassSpec = omitempty(IngressClassSpec())
