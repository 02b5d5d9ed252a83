"""What services count for: themselves, node ports and load balancers."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.quantity import Quantity
from quarterdeck.api.quota.amount import Amounts
from quarterdeck.api.quota.evaluator import ONE, Document, Evaluator, Operation

_NODE_PORTS: Final = "services.nodeports"
_LOAD_BALANCERS: Final = "services.loadbalancers"


class ServiceEvaluator(Evaluator):
    """Charges services."""

    def __init__(self) -> None:
        super().__init__("", "services", alias="services")

    def handles(self, operation: Operation, subresource: str, obj: Document, old: Document | None) -> bool:
        return not subresource

    def is_tracked(self, name: str) -> bool:
        return name in (_NODE_PORTS, _LOAD_BALANCERS) or super().is_tracked(name)

    def usage(self, obj: Document, now: float) -> Amounts:
        spec = obj.get("spec") or {}
        kind, ports = spec.get("type"), spec.get("ports") or ()
        node_ports = 0
        if kind == "NodePort" or (
            kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
        ):
            node_ports = len(ports)
        elif kind == "LoadBalancer":
            node_ports = sum(1 for port in ports if port.get("nodePort"))
        return {
            **super().usage(obj, now),
            _NODE_PORTS: Quantity(node_ports),
            _LOAD_BALANCERS: ONE if kind == "LoadBalancer" else Quantity("0"),
        }

    def frees(self, old: Document, new: Document, now: float) -> bool:
        return _charged_type(old) != _charged_type(new)


def _charged_type(service: Document) -> str:
    kind: str = (service.get("spec") or {}).get("type") or ""
    return kind if kind in ("NodePort", "LoadBalancer") else ""
