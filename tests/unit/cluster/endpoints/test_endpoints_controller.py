"""Endpoints and EndpointSlices of Services, as pods come and go."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, to_dict
from quarterdeck.api.k8s import Endpoints, EndpointSlice, Pod, Service
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.errors import NotFound
from quarterdeck.runtime import Manager
from quarterdeck.testing import TestCluster, eventually
from tests.unit.cluster.setkit import LABELS, made, pods, template, until
from tests.unit.cluster.workloadkit import NAMESPACE, behaving


@pytest.fixture(autouse=True)
async def cluster_at_work(cluster: TestCluster, manager: Manager) -> None:
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=2)))
    await cluster.start(manager)


def service(name: str = "web", **spec: Any) -> DynamicObject:
    whole = {"selector": LABELS, "ports": [{"port": 80, "targetPort": 8080}], **spec}
    document = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"team": "a"}},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }
    return DynamicObject(document)


async def slices(client: Client) -> list[EndpointSlice]:
    found = await client.list(
        EndpointSlice, namespace=NAMESPACE, labels={"kubernetes.io/service-name": "web"}
    )
    return list(found.items)


async def ready(client: Client, number: int) -> list[EndpointSlice]:
    async def probe() -> list[EndpointSlice] | None:
        found = await slices(client)
        there = [each for one in found for each in one.endpoints if each.conditions.ready]
        return found if len(there) == number and found else None

    found = await eventually(probe, timeout=120)
    assert found is not None
    return found


async def test_a_service_without_pods_has_an_empty_slice_and_endpoints(client: Client) -> None:
    await client.create(service())
    [only] = await ready(client, 0)
    assert (only.address_type, list(only.endpoints), list(only.ports)) == ("IPv4", [], [])
    assert dict(only.metadata.labels) == {
        "team": "a",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    found = await until(client, Endpoints, lambda _: True)
    assert dict(found.metadata.labels) == {
        "team": "a",
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
    }
    assert list(found.subsets) == []


async def test_ready_pods_are_endpoints_and_others_are_not(client: Client) -> None:
    await client.create(service())
    await client.create(made("Deployment", replicas=2))
    late = template(annotations=behaving(ready_seconds="never"))
    late["metadata"]["labels"]["late"] = "yes"
    selector = {"matchLabels": {"late": "yes"}}
    await client.create(made("Deployment", name="late", replicas=1, template=late, selector=selector))
    [only] = await ready(client, 2)
    assert [to_dict(each) for each in only.ports] == [{"name": "", "port": 8080, "protocol": "TCP"}]

    async def all_are_seen() -> Endpoints | None:
        found = await client.get(Endpoints, "web", NAMESPACE)
        if not found.subsets:
            return None
        subset = found.subsets[0]
        return found if (len(subset.addresses), len(subset.not_ready_addresses)) == (2, 1) else None

    assert await eventually(all_are_seen, timeout=60)
    names = {each.target_ref.name for each in only.endpoints if each.target_ref and each.conditions.ready}
    assert names == {each.metadata.name for each in await pods(client) if "late" not in each.metadata.labels}


async def test_endpoints_follow_pods_that_go(client: Client) -> None:
    await client.create(service())
    await client.create(made("Deployment", replicas=3))
    await ready(client, 3)
    deployment = made("Deployment", replicas=0)
    await client.apply(deployment, field_manager="test", force=True)
    [only] = await ready(client, 0)
    assert not only.endpoints


async def test_a_hundred_endpoints_fit_a_slice(client: Client) -> None:
    await client.create(service())
    await client.create(made("Deployment", replicas=130))
    found = await ready(client, 130)
    sizes = [len(each.endpoints) for each in found]
    assert (len(sizes), sum(sizes)) == (2, 130)
    assert max(sizes) <= 100


async def test_endpoints_go_with_their_service(client: Client) -> None:
    await client.create(service())
    await ready(client, 0)
    await until(client, Endpoints, lambda _: True)
    await client.delete(Service, "web", NAMESPACE)

    async def both_are_gone() -> bool:
        try:
            await client.get(Endpoints, "web", NAMESPACE)
        except NotFound:
            return not await slices(client)
        return False

    await eventually(both_are_gone, timeout=60)


async def test_a_service_without_selector_is_left_alone(client: Client) -> None:
    await client.create(service(selector=None))
    await client.create(service("other"))
    await until(client, Endpoints, lambda _: True, name="other")
    assert not await slices(client)


async def test_a_named_port_is_looked_up_in_the_pod(client: Client) -> None:
    await client.create(service(ports=[{"name": "http", "port": 80, "targetPort": "web"}]))
    spec = template()
    spec["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 9000}]
    await client.create(made("Deployment", replicas=1, template=spec))
    [only] = await ready(client, 1)
    assert [(each.name, each.port) for each in only.ports] == [("http", 9000)]


def endpoints(*addresses: str, **metadata: Any) -> DynamicObject:
    ports = [{"name": "b", "port": 81}, {"name": "a", "port": 80, "protocol": "UDP"}]
    subset = {"addresses": [{"ip": each} for each in addresses], "ports": ports}
    document = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "web", "namespace": NAMESPACE, **metadata},
        "subsets": [subset],
    }
    return DynamicObject(document)


async def test_endpoints_of_a_service_without_selector_are_mirrored(client: Client) -> None:
    await client.create(service(selector=None))
    await client.create(endpoints("10.0.0.1", "10.0.0.2", "fd00::1", labels={"x": "y"}))
    found = await ready(client, 3)
    assert sorted((each.address_type, len(each.endpoints)) for each in found) == [("IPv4", 2), ("IPv6", 1)]
    managed = "endpointslicemirroring-controller.k8s.io"
    assert {each.metadata.labels["endpointslice.kubernetes.io/managed-by"] for each in found} == {managed}
    assert found[0].metadata.labels["x"] == "y"
    known = await client.get(Endpoints, "web", NAMESPACE)
    await client.update(
        known.evolve(subsets=(known.subsets[0].evolve(addresses=known.subsets[0].addresses[:1]),))
    )
    [only] = await ready(client, 1)
    await client.delete(known)
    await gone_slices(client)
    assert only.metadata.owner_references[0].kind == "Endpoints"


async def gone_slices(client: Client) -> None:
    async def probe() -> bool:
        return not await slices(client)

    await eventually(probe, timeout=60)


async def test_endpoints_that_do_not_want_to_be_mirrored_are_not(client: Client) -> None:
    await client.create(service(selector=None))
    await client.create(endpoints("10.0.0.1", labels={"endpointslice.kubernetes.io/skip-mirror": "true"}))
    await client.create(service("other"))
    await until(client, Endpoints, lambda _: True, name="other")
    assert not await slices(client)


async def test_pods_and_services_find_each_other_whichever_changes(client: Client) -> None:
    """Services that name the same labels, one that names more; a pod and a Service change their mind."""

    async def selected(name: str) -> set[str]:
        subsets = (await client.get(Endpoints, name, NAMESPACE)).subsets
        addresses = [each for one in subsets for each in (*one.addresses, *one.not_ready_addresses)]
        return {each.target_ref.name for each in addresses if each.target_ref is not None}

    async def wait_for(**expected: set[str]) -> None:
        async def probe() -> bool:
            return {name: await selected(name) for name in expected} == expected

        assert await eventually(probe, timeout=120)

    for name, selector in (
        ("red", {"team": "red"}),
        ("blue", {"team": "blue"}),
        ("web", {"team": "red", "tier": "web"}),
    ):
        await client.create(service(name, selector=selector))
    for name, labels in (
        ("a", {"team": "red"}),
        ("b", {"team": "red", "tier": "web"}),
        ("c", {"tier": "web"}),
    ):
        await client.create(
            DynamicObject(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                }
            )
        )
    await wait_for(red={"a", "b"}, blue=set(), web={"b"})
    pod = await client.get(Pod, "b", NAMESPACE)
    await client.patch(pod, MergePatch({"metadata": {"labels": {"team": "blue"}}}))
    await wait_for(red={"a"}, blue={"b"}, web=set())
    found = await client.get(Service, "web", NAMESPACE)
    await client.patch(found, MergePatch({"spec": {"selector": {"team": None}}}))
    await wait_for(red={"a"}, blue={"b"}, web={"b", "c"})


async def test_many_services_that_come_with_their_pods_are_written_once(client: Client) -> None:
    """The first ones before anybody knows that they are many."""
    names = [f"web-{number}" for number in range(30)]
    for name in names:
        await client.create(service(name, selector={"app": name}))
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": name}}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await client.create(
            DynamicObject({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        )

    async def all_there() -> bool:
        found = await client.list(Endpoints, namespace=NAMESPACE)
        return {each.metadata.name for each in found.items if each.subsets} >= set(names)

    assert await eventually(all_there, timeout=120)
    found = await client.list(EndpointSlice, namespace=NAMESPACE)
    written_once = [each for each in found.items if each.endpoints and each.metadata.generation == 1]
    assert len(written_once) >= len(names) - 16
