"""Where the machine listens for pods."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.cluster.agent.network.hostport import host_ports
from quarterdeck.cluster.agent.network.proxy import Backends

from .podkit import pod

NODE = "10.244.0.1"
FOUND = Backends((("10.244.3.4", 80),))


def ports(
    *, node: str = NODE, address: str = "10.244.3.4", spec: dict[str, Any] | None = None, **port: Any
) -> Any:
    container = {"name": "main", "image": "i", "ports": [{"containerPort": 80, **port}]}
    return host_ports([(pod(containers=[container], **(spec or {})), address)], node)


@pytest.mark.parametrize(
    ("port", "places"),
    [
        ({}, []),
        ({"hostPort": 8080}, [(NODE, 8080), ("127.0.0.1", 8080)]),
        ({"hostPort": 8080, "hostIP": "0.0.0.0"}, [(NODE, 8080), ("127.0.0.1", 8080)]),
        ({"hostPort": 8080, "hostIP": "127.0.0.1"}, [("127.0.0.1", 8080)]),
        ({"hostPort": 8080, "hostIP": NODE}, [(NODE, 8080)]),
        ({"hostPort": 8080, "hostIP": "192.0.2.1"}, []),
        ({"hostPort": 8080, "protocol": "UDP"}, []),
        ({"hostPort": 8080, "spec": {"hostNetwork": True}}, []),
    ],
)
def test_addresses_of_a_host_port(port: dict[str, Any], places: list[tuple[str, int]]) -> None:
    assert ports(**port) == dict.fromkeys(places, FOUND)


def test_pods_in_the_machines_network_keep_their_own_ports() -> None:
    own: dict[str, Any] = {"node": "127.0.0.1", "address": "127.64.1.2"}
    assert ports(hostPort=80, **own) == {}
    assert ports(hostPort=8080, **own) == {("127.0.0.1", 8080): Backends((("127.64.1.2", 80),))}


def test_the_first_pod_keeps_a_port_that_two_want() -> None:
    container = {"name": "main", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}]}
    both = [(pod(containers=[container]), "10.244.3.4"), (pod(containers=[container]), "10.244.3.5")]
    assert host_ports(both, NODE)[NODE, 8080] == FOUND
