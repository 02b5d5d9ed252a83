"""Services: addresses and node ports from a pool that can be rebuilt."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.apiserver.resource.serviceallocator import NETWORK, AddressPool
from quarterdeck.apiserver.status import StatusError
from tests.unit.apiserver.builtin.builtin_writepath import Context, create, update

Json = dict[str, Any]
SERVICES = "/api/v1/namespaces/ns/services"


def service(name: str = "s", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def test_addresses_avoid_what_is_stored() -> None:
    context = Context()
    addresses = set()
    for index in range(50):
        made = create(SERVICES, service(f"s{index}"), context)
        context.cluster.add("", "services", made)
        addresses.add(made["spec"]["clusterIP"])
    assert len(addresses) == 50
    assert all(ipaddress.ip_address(address) in NETWORK for address in addresses)


def test_a_pool_kept_by_the_caller_and_a_rebuilt_one_agree() -> None:
    kept = Context()
    kept.cluster.service_allocator = AddressPool()
    rebuilt = Context()
    for index in range(20):
        first = create(SERVICES, service(f"s{index}", type="NodePort"), kept)
        second = create(SERVICES, service(f"s{index}", type="NodePort"), rebuilt)
        rebuilt.cluster.add("", "services", second)
        assert first["spec"] == second["spec"]


def test_a_taken_address_is_refused() -> None:
    context = Context()
    context.cluster.add("", "services", create(SERVICES, service("a", clusterIP="10.0.0.9"), context))
    with pytest.raises(StatusError) as caught:
        create(SERVICES, service("b", clusterIP="10.0.0.9"), context)
    assert caught.value.message == (
        'Service "b" is invalid: spec.clusterIPs: Invalid value: ["10.0.0.9"]: '
        "failed to allocate IP 10.0.0.9: provided IP is already allocated"
    )


@pytest.mark.parametrize(
    ("port", "why"),
    [
        (5, "provided port is not in the valid range. The range of valid ports is 30000-32767"),
        (30007, "provided port is already allocated"),
    ],
)
def test_node_ports_have_a_range_and_one_holder(port: int, why: str) -> None:
    context = Context()
    taken = service("a", type="NodePort", ports=[{"port": 80, "nodePort": 30007}])
    context.cluster.add("", "services", create(SERVICES, taken, context))
    with pytest.raises(StatusError) as caught:
        create(SERVICES, service("b", type="NodePort", ports=[{"port": 80, "nodePort": port}]), context)
    assert caught.value.message == (
        f'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: {port}: {why}'
    )


def test_a_write_that_is_over_gives_everything_back() -> None:
    pool = AddressPool()
    first, second = pool.lease("ns/a"), pool.lease("ns/b")
    address, port = first.next_address(), first.next_port()
    assert second.take_address(address) == "provided IP is already allocated"
    assert second.take_port(port) == "provided port is already allocated"
    first.end()
    assert second.take_address(address) == ""
    assert second.take_port(port) == ""


def test_what_was_stored_stays_held_when_the_write_is_over() -> None:
    pool = AddressPool()
    first, second = pool.lease("ns/a"), pool.lease("ns/b")
    port = first.next_port()
    stored = service("a", ports=[{"port": 80, "nodePort": port}])
    stored["metadata"]["namespace"] = "ns"
    pool.hold(stored)
    first.end()
    assert second.take_port(port) == "provided port is already allocated"
    pool.release("ns/a")
    assert second.take_port(port) == ""


def test_of_two_writes_of_one_service_the_one_that_fails_takes_nothing_from_the_other() -> None:
    pool = AddressPool()
    first, again, other = pool.lease("ns/a"), pool.lease("ns/a"), pool.lease("ns/b")
    port = first.next_port()
    assert again.take_port(port) == ""
    first.end()
    assert other.take_port(port) == "provided port is already allocated"
    again.end()
    assert other.take_port(port) == ""


@given(st.lists(st.text("abc-", min_size=1, max_size=4), unique=True, max_size=40))
def test_owners_never_share(names: list[str]) -> None:
    pool = AddressPool()
    leases = [pool.lease(name) for name in names]
    assert len({lease.next_address() for lease in leases}) == len(names)
    assert len({lease.next_port() for lease in leases}) == len(names)


def test_a_full_range_is_reported() -> None:
    lease = AddressPool().lease("ns/a")
    for _ in range(30086, 32768):
        lease.next_port()
    with pytest.raises(LookupError, match="range is full"):
        lease.next_port()


def test_an_update_that_leaves_allocated_values_out_keeps_them() -> None:
    old = create(SERVICES, service(type="NodePort"))
    wanted = {"apiVersion": "v1", "kind": "Service", **service(type="NodePort", ports=[{"port": 81}])}
    changed = update(SERVICES, old, wanted)
    assert changed["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    assert changed["spec"]["ports"][0]["nodePort"] == old["spec"]["ports"][0]["nodePort"]


def test_a_new_type_sheds_what_the_old_one_needed() -> None:
    old = create(SERVICES, service(type="LoadBalancer", externalTrafficPolicy="Local"))
    changed = update(SERVICES, old, {**old, "spec": {**old["spec"], "type": "ClusterIP"}})
    for key in ("healthCheckNodePort", "allocateLoadBalancerNodePorts", "externalTrafficPolicy"):
        assert key not in changed["spec"]
    assert "nodePort" not in changed["spec"]["ports"][0]


def test_headless_services_without_selector_are_dual_stack() -> None:
    made = create(SERVICES, {"metadata": {"name": "s"}, "spec": {"clusterIP": "None"}})
    assert made["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    assert made["spec"]["ipFamilyPolicy"] == "RequireDualStack"
    selected = create(
        SERVICES, {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
    )
    assert selected["spec"]["ipFamilies"] == ["IPv4"]
