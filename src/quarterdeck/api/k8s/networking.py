"""Network policies and ingresses.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
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
    protocol: Maybe[str] = UNSET
    port: Maybe[IntOrString] = UNSET
    end_port: Annotated[Maybe[int], Int32] = UNSET


class IPBlock(Model):
    cidr: Annotated[str, Required()] = omitempty("")
    except_: Annotated[Seq[str], Atomic()] = omitempty(())


class NetworkPolicyPeer(Model):
    pod_selector: Maybe[LabelSelector] = UNSET
    namespace_selector: Maybe[LabelSelector] = UNSET
    ip_block: Maybe[IPBlock] = UNSET


class NetworkPolicyIngressRule(Model):
    ports: Annotated[Seq[NetworkPolicyPort], Atomic()] = omitempty(())
    from_: Annotated[Seq[NetworkPolicyPeer], Atomic()] = omitempty(())


class NetworkPolicyEgressRule(Model):
    ports: Annotated[Seq[NetworkPolicyPort], Atomic()] = omitempty(())
    to: Annotated[Seq[NetworkPolicyPeer], Atomic()] = omitempty(())


class NetworkPolicySpec(Model):
    pod_selector: LabelSelector = omitempty(LabelSelector())
    ingress: Annotated[Seq[NetworkPolicyIngressRule], Atomic()] = omitempty(())
    egress: Annotated[Seq[NetworkPolicyEgressRule], Atomic()] = omitempty(())
    policy_types: Annotated[Seq[str], Atomic()] = omitempty(())


class NetworkPolicy(
    Resource, group="networking.k8s.io", version="v1", plural="networkpolicies", short_names=["netpol"]
):
    spec: NetworkPolicySpec = omitempty(NetworkPolicySpec())


class ServiceBackendPort(Model, rules=[Atomic()]):
    name: str = omitempty("")
    number: Annotated[Maybe[int], Int32] = UNSET


class IngressServiceBackend(Model):
    name: Annotated[str, Required()] = omitempty("")
    port: ServiceBackendPort = omitempty(ServiceBackendPort())


class IngressBackend(Model):
    service: Maybe[IngressServiceBackend] = UNSET
    resource: Maybe[TypedLocalObjectReference] = UNSET


class IngressTLS(Model):
    hosts: Annotated[Seq[str], Atomic()] = omitempty(())
    secret_name: str = omitempty("")


class HTTPIngressPath(Model):
    path: str = omitempty("")
    path_type: Annotated[Maybe[str], Required()] = UNSET
    backend: Annotated[IngressBackend, Required()] = omitempty(IngressBackend())


class HTTPIngressRuleValue(Model):
    paths: Annotated[Seq[HTTPIngressPath], Atomic(), Required()] = omitempty(())


class IngressRule(Model):
    host: str = omitempty("")
    http: Maybe[HTTPIngressRuleValue] = UNSET


class IngressSpec(Model):
    ingress_class_name: Maybe[str] = UNSET
    default_backend: Maybe[IngressBackend] = UNSET
    tls: Annotated[Seq[IngressTLS], Atomic()] = omitempty(())
    rules: Annotated[Seq[IngressRule], Atomic()] = omitempty(())


class IngressPortStatus(Model):
    port: Annotated[Maybe[int], Int32, Required()] = UNSET
    protocol: Annotated[str, Required()] = omitempty("")
    error: Maybe[str] = UNSET


class IngressLoadBalancerIngress(Model):
    ip: str = omitempty("")
    hostname: str = omitempty("")
    ports: Annotated[Seq[IngressPortStatus], Atomic()] = omitempty(())


class IngressLoadBalancerStatus(Model):
    ingress: Annotated[Seq[IngressLoadBalancerIngress], Atomic()] = omitempty(())


class IngressStatus(Model):
    load_balancer: IngressLoadBalancerStatus = omitempty(IngressLoadBalancerStatus())


class Ingress(
    Resource, group="networking.k8s.io", version="v1", plural="ingresses", short_names=["ing"], status=True
):
    spec: IngressSpec = omitempty(IngressSpec())
    status: IngressStatus = omitempty(IngressStatus())


class IngressClassParametersReference(Model):
    api_group: Maybe[str] = UNSET
    kind: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    scope: Maybe[str] = UNSET
    namespace: Maybe[str] = UNSET


class IngressClassSpec(Model):
    controller: str = omitempty("")
    parameters: Maybe[IngressClassParametersReference] = UNSET


class IngressClass(
    Resource, group="networking.k8s.io", version="v1", plural="ingressclasses", scope="Cluster"
):
    spec: IngressClassSpec = omitempty(IngressClassSpec())
