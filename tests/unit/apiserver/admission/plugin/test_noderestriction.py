"""What a kubelet may read and write: the Node authorizer and NodeRestriction."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.admission.plugin import FOR_TESTS

from .pluginkit import MERGE, PODS, Answer, Api, node_user, pod, run

Json = dict[str, Any]
ONE, TWO = node_user("one"), node_user("two")
DEFAULT = "/api/v1/namespaces/default"


async def prepare(api: Api) -> None:
    """A pod on node one that uses a Secret, a ConfigMap, a claim; another Secret that nobody uses."""
    await api.account()
    for node in ("one", "two"):
        await api.create("/api/v1/nodes", {"metadata": {"name": node}})
    for name in ("used", "unused"):
        await api.create(f"{DEFAULT}/secrets", {"metadata": {"name": name}})
        await api.create(f"{DEFAULT}/configmaps", {"metadata": {"name": name}})
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await api.create(f"{DEFAULT}/persistentvolumeclaims", claim)
    volumes = [
        {"name": "s", "secret": {"secretName": "used"}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    environment = {"envFrom": [{"configMapRef": {"name": "used"}}]}
    await api.create(PODS, pod("p", nodeName="one", volumes=volumes, container=environment))
    await api.create(PODS, pod("q", nodeName="two"))


@pytest.mark.parametrize(
    "path",
    [
        f"{DEFAULT}/secrets/used",
        f"{DEFAULT}/configmaps/used",
        f"{DEFAULT}/persistentvolumeclaims/data",
        f"{DEFAULT}/pods/p",
        f"{DEFAULT}/serviceaccounts/default",
        "/api/v1/nodes/one",
        "/api/v1/services",
    ],
)
def test_a_node_reads_what_its_pods_need(path: str) -> None:
    async def scenario(api: Api) -> None:
        await prepare(api)
        assert (await api.call("GET", path, as_user=ONE)).code == 200

    run(scenario)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (f"{DEFAULT}/secrets/unused", "no relationship found between node 'one' and this object"),
        (f"{DEFAULT}/secrets", "No Object name found"),
        ("/api/v1/secrets", "can only read namespaced object of this type"),
        (f"{DEFAULT}/pods/q", "no relationship found between node 'one' and this object"),
        (f"{DEFAULT}/pods", "can only list/watch pods with spec.nodeName field selector"),
        ("/api/v1/nodes", "node 'one' cannot read all nodes, only its own Node object"),
        ("/api/v1/nodes/two", "node 'one' cannot read 'two', only its own Node object"),
        ("/api/v1/persistentvolumes", "can only get individual resources of this type"),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/one",
            'can only access leases in the "kube-node-lease" system namespace',
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/two",
            "can only access node lease with the same name as the requesting node",
        ),
    ],
)
def test_a_node_reads_nothing_else(path: str, why: str) -> None:
    async def scenario(api: Api) -> None:
        await prepare(api)
        answer = await api.call("GET", path, as_user=ONE)
        assert answer.code == 403
        assert answer.message.endswith(f": {why}")

    run(scenario)


def test_what_pods_need_comes_and_goes_with_them() -> None:
    async def scenario(api: Api) -> None:
        await prepare(api)
        secret = f"{DEFAULT}/secrets/unused"
        assert (await api.call("GET", secret, as_user=TWO)).code == 403
        volumes = [{"name": "s", "secret": {"secretName": "unused"}}]
        await api.create(PODS, pod("r", volumes=volumes))
        assert (await api.call("GET", secret, as_user=TWO)).code == 403
        binding = {"metadata": {"name": "r"}, "target": {"kind": "Node", "name": "two"}}
        await api.create(f"{PODS}/r/binding", binding)
        assert (await api.call("GET", secret, as_user=TWO)).code == 200
        await api.call("DELETE", f"{PODS}/r", gracePeriodSeconds="0")
        assert (await api.call("GET", secret, as_user=TWO)).code == 403

    run(scenario)


def test_lists_by_node_are_a_nodes_own() -> None:
    async def scenario(api: Api) -> None:
        await prepare(api)
        answer = await api.call("GET", "/api/v1/pods", as_user=ONE, fieldSelector="spec.nodeName=one")
        assert [each["metadata"]["name"] for each in answer.body["items"]] == ["p"]
        answer = await api.call("GET", "/api/v1/pods", as_user=ONE, fieldSelector="spec.nodeName=two")
        assert answer.code == 403

    run(scenario)


def test_without_the_plugin_a_node_is_nobody() -> None:
    async def scenario(api: Api) -> None:
        await api.create("/api/v1/nodes", {"metadata": {"name": "one"}})
        assert (await api.call("GET", "/api/v1/nodes/one", as_user=ONE)).code == 403

    run(scenario, FOR_TESTS)


def test_a_node_writes_its_own_node() -> None:
    async def scenario(api: Api) -> None:
        await prepare(api)

        async def label(name: str, key: str) -> Answer:
            patch = {"metadata": {"labels": {key: "x"}}}
            return await api.call("PATCH", f"/api/v1/nodes/{name}", patch, media=MERGE, as_user=ONE)

        assert (await label("one", "example.com/a")).code == 200
        assert (await label("one", "kubernetes.io/arch")).code == 200
        answer = await label("one", "node-restriction.kubernetes.io/team")
        assert answer.why == "is not allowed to modify labels: node-restriction.kubernetes.io/team"
        answer = await label("two", "a")
        assert answer.why == 'node "one" is not allowed to modify node "two"'
        taint: Json = {"spec": {"taints": []}}
        answer = await api.call("PATCH", "/api/v1/nodes/one", taint, media=MERGE, as_user=ONE)
        assert answer.why == 'node "one" is not allowed to modify taints'
        new = {"metadata": {"name": "one", "labels": {"k8s.io/x": "y"}}}
        answer = await api.call("POST", "/api/v1/nodes", new, as_user=node_user("one"))
        assert answer.why == 'node "one" is not allowed to set the following labels: k8s.io/x'

    run(scenario)


def test_a_node_reports_and_deletes_its_own_pods() -> None:
    async def scenario(api: Api) -> None:
        await prepare(api)
        status = {"status": {"phase": "Running"}}

        async def report(name: str, patch: Json) -> Answer:
            return await api.call("PATCH", f"{PODS}/{name}/status", patch, media=MERGE, as_user=ONE)

        assert (await report("p", status)).code == 200
        answer = await report("q", status)
        assert answer.why == (
            'node "one" can only update pod status for pods with spec.nodeName set to itself'
        )
        answer = await report("p", {"metadata": {"labels": {"a": "b"}}})
        assert answer.why == 'node "one" cannot update labels through pod status'
        answer = await api.call("DELETE", f"{PODS}/q", as_user=ONE)
        assert answer.why == 'node "one" can only delete pods with spec.nodeName set to itself'
        answer = await api.call("POST", PODS, pod("x", nodeName="one"), as_user=ONE)
        assert answer.why == (
            'pod does not have "kubernetes.io/config.mirror" annotation, '
            'node "one" can only create mirror pods'
        )
        eviction = {"metadata": {"name": "q"}}
        answer = await api.call("POST", f"{PODS}/q/eviction", eviction, as_user=ONE)
        assert answer.why == "node one can only evict pods with spec.nodeName set to itself"

    run(scenario)


def test_a_mirror_pod_belongs_to_its_node() -> None:
    async def scenario(api: Api) -> None:
        await prepare(api)
        uid = (await api.call("GET", "/api/v1/nodes/one")).body["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": "one", "uid": uid, "controller": True}

        def mirror(**spec: Any) -> Json:
            metadata = {
                "annotations": {"kubernetes.io/config.mirror": "x"},
                "ownerReferences": [owner],
            }
            return pod("m", metadata=metadata, nodeName="one", **spec)

        secret = mirror(volumes=[{"name": "v", "secret": {"secretName": "unused"}}])
        answer = await api.call("POST", PODS, secret, as_user=ONE)
        assert answer.why == "a mirror pod may not reference secrets"
        assert (await api.call("POST", PODS, mirror(), as_user=ONE)).code == 201
        owner["controller"] = False
        answer = await api.call("POST", PODS, mirror(), as_user=ONE)
        assert answer.why == (
            'node "one" can only create pods with a controller owner reference set to itself'
        )

    run(scenario)


def test_tokens_are_bound_to_a_pod_of_the_node() -> None:
    async def scenario(api: Api) -> None:
        await prepare(api)
        path = f"{DEFAULT}/serviceaccounts/default/token"
        answer = await api.call("POST", path, {"spec": {}}, as_user=ONE)
        assert answer.why == "node requested token not bound to a pod"
        found = (await api.call("GET", f"{PODS}/p")).body
        bound = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": found["metadata"]["uid"]}
        answer = await api.call("POST", path, {"spec": {"boundObjectRef": bound}}, as_user=ONE)
        assert answer.code == 201
        answer = await api.call("POST", path, {"spec": {"boundObjectRef": bound}}, as_user=TWO)
        assert answer.why == "node requested token bound to a pod scheduled on a different node"
        wanted = {"spec": {"boundObjectRef": bound, "audiences": ["vault"]}}
        answer = await api.call("POST", path, wanted, as_user=ONE)
        assert answer.why == (
            'audience "vault" not found in pod spec volume, system:node:one is not authorized to request '
            "tokens for this audience"
        )

    run(scenario)
