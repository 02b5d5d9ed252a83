"""Host ports: where the machine listens for a pod. Pure.

Pods with a network of their own have theirs at the node's address and at 127.0.0.1 of the network that stands
for the machine's. Other pods are in the machine's network already: a program that listens on all addresses
has its port there by itself, and would not get it if we did, so only ports that differ are passed on, and
only from loopback.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.agent.network.proxy import Backends, Place

_LOOPBACK: Final = "127.0.0.1"


def host_ports(pods: Iterable[tuple[Pod, str]], node: str, protocol: str = "TCP") -> dict[Place, Backends]:
    """Where to listen for these pods, each with its address, by one protocol; ``node`` is the node's address
    as they see it."""
    made: dict[Place, Backends] = {}
    for pod, address in pods:
        if pod.spec.host_network is True:
            continue
        for container in pod.spec.containers:
            for port in container.ports:
                number, inside = port.host_port, port.container_port
                if not isinstance(number, int) or not number or not isinstance(inside, int):
                    continue
                if (port.protocol or "TCP") != protocol or (node == _LOOPBACK and number == inside):
                    continue
                for place in _addresses(port.host_ip, node):
                    made.setdefault((place, number), Backends(((address, inside),)))
    return made


def _addresses(wanted: str, node: str) -> list[str]:
    """The addresses that a ``hostIP`` stands for; those beyond loopback are not listened on."""
    if wanted and wanted != "0.0.0.0":  # noqa: S104  not bound to
        try:
            return [wanted] if wanted == node or ipaddress.ip_address(wanted).is_loopback else []
        except ValueError:
            return []
    return list(dict.fromkeys((node, _LOOPBACK)))
