"""No list makes a request cost more than its length: the short form of ``tools/growth.py``, and what else can
be done with objects that have long lists. Everything is measured in the server's own work."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from growth import BUDGET, VARIANTS, Scale, scale, turned_round
from hostile.client import Request
from hostile.longlist import ELEMENTS, Place

Json = dict[str, Any]
MIB = 1 << 20
GROWTH = 400 * MIB
SOME = ELEMENTS // 2
"""Elements where every list is tried: enough to tell what grows with their square."""
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def server() -> Iterator[Scale]:
    with scale() as found:
        yield found


def chosen(places: list[Place]) -> list[Place]:
    """Every list once; those of pod templates, which a dozen kinds have, in each of these kinds in turn."""
    templates = [place for place in places if place.in_pod_spec]
    by_list = itertools.groupby(
        sorted(templates, key=lambda place: place.in_pod_spec), key=lambda p: p.in_pod_spec
    )
    turns = [list(group) for _, group in by_list]
    return [place for place in places if not place.in_pod_spec] + [
        group[number % len(group)] for number, group in enumerate(turns)
    ]


def test_no_list_of_any_kind_costs_more_than_its_length(server: Scale) -> None:
    places = chosen(server.places())
    assert len({place.kind.name for place in places}) > 70
    assert len(places) > 700
    findings = []
    for place, (is_rich, is_distinct) in zip(places, itertools.cycle(VARIANTS), strict=False):
        cost = server.measure(place, SOME, is_rich=is_rich, is_distinct=is_distinct)
        assert cost.status < 500 or place.kind.name == "Binding", cost
        findings.append(server.finding(place, cost, SOME, is_rich=is_rich, is_distinct=is_distinct))
    assert not [each for each in findings if each]
    assert server.peak() < GROWTH


def of(kind: str, spec: Json, api_version: str = "v1") -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "long"}, **spec}


def pod(**spec: Any) -> Json:
    return of("Pod", {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}})


NUMBERS = range(1, ELEMENTS + 1)
PODS, SERVICES = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/services"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
VALID: dict[str, tuple[str, Json]] = {
    "containers that share a port": (
        PODS,
        pod(containers=[{"name": f"c{n}", "image": "i", "ports": [{"containerPort": 1}]} for n in NUMBERS]),
    ),
    "ports of a container": (
        PODS,
        pod(
            containers=[
                {"name": "c", "image": "i", "ports": [{"containerPort": n, "name": f"p{n}"} for n in NUMBERS]}
            ]
        ),
    ),
    "variables": (
        PODS,
        pod(
            containers=[
                {"name": "c", "image": "i", "env": [{"name": f"V{n}", "value": "$(V1)"} for n in NUMBERS]}
            ]
        ),
    ),
    "volumes": (
        PODS,
        pod(
            volumes=[{"name": f"v{n}", "emptyDir": {}} for n in NUMBERS],
            containers=[
                {
                    "name": "c",
                    "image": "i",
                    "volumeMounts": [{"name": f"v{n}", "mountPath": f"/at/{n}"} for n in NUMBERS],
                }
            ],
        ),
    ),
    "tolerations": (PODS, pod(tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in NUMBERS])),
    "containers of a template": (
        "/apis/apps/v1/namespaces/default/deployments",
        of(
            "Deployment",
            {
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {
                            "containers": [
                                {"name": f"c{n}", "image": "i", "ports": [{"containerPort": 1}]}
                                for n in NUMBERS
                            ]
                        },
                    },
                }
            },
            "apps/v1",
        ),
    ),
    "ports of a service": (
        SERVICES,
        of(
            "Service",
            {"spec": {"ports": [{"port": n, "name": f"p{n}"} for n in NUMBERS], "selector": {"a": "b"}}},
        ),
    ),
    "rules": (
        f"{RBAC}/clusterroles",
        of(
            "ClusterRole",
            {"rules": [{"apiGroups": [""], "resources": [f"r{n}"], "verbs": ["get"]} for n in NUMBERS]},
            "rbac.authorization.k8s.io/v1",
        ),
    ),
    "subjects": (
        f"{RBAC}/clusterrolebindings",
        of(
            "ClusterRoleBinding",
            {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                "subjects": [
                    {"kind": "ServiceAccount", "name": f"s{n}", "namespace": "default"} for n in NUMBERS
                ],
            },
            "rbac.authorization.k8s.io/v1",
        ),
    ),
    "owners": (
        "/api/v1/namespaces/default/configmaps",
        of(
            "ConfigMap",
            {
                "metadata": {
                    "name": "long",
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Pod", "name": f"o{n}", "uid": f"u{n}"} for n in NUMBERS
                    ],
                }
            },
        ),
    ),
    "finalizers": (
        "/api/v1/namespaces/default/configmaps",
        of("ConfigMap", {"metadata": {"name": "long", "finalizers": [f"example.com/f{n}" for n in NUMBERS]}}),
    ),
    "keys": (
        "/api/v1/namespaces/default/configmaps",
        of("ConfigMap", {"data": {f"k{n}": "v" for n in NUMBERS}}),
    ),
    "addresses": (
        "/api/v1/namespaces/default/endpoints",
        of(
            "Endpoints",
            {
                "subsets": [
                    {
                        "addresses": [{"ip": f"10.0.{n // 250}.{n % 250 + 1}"} for n in NUMBERS],
                        "ports": [{"port": 1}],
                    }
                ]
            },
        ),
    ),
    "paths": (
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        of(
            "Ingress",
            {
                "spec": {
                    "rules": [
                        {
                            "host": f"h{n}.example.com",
                            "http": {
                                "paths": [
                                    {
                                        "path": "/",
                                        "pathType": "Prefix",
                                        "backend": {"service": {"name": "s", "port": {"number": 1}}},
                                    }
                                ]
                            },
                        }
                        for n in NUMBERS
                    ]
                }
            },
            "networking.k8s.io/v1",
        ),
    ),
}


def patched(document: Json) -> Json:
    """The same with every list the other way round and one more label."""
    other: Json = turned_round(document)
    return {**other, "metadata": {**other["metadata"], "labels": {"changed": "yes"}}}


@pytest.mark.parametrize("name", VALID)
def test_whatever_is_done_with_a_long_list_costs_no_more_than_its_length(server: Scale, name: str) -> None:
    path, document = VALID[name]
    own = f"{path}/long"
    other = json.dumps(patched(document)).encode()
    as_it_is = json.dumps(document).encode()

    def costs(method: str, where: str, body: bytes, media: str, accept: str = "application/json") -> int:
        headers = (("Content-Type", media), ("Accept", accept))
        cost = server.cost(Request("growth", method, where, headers, body))
        assert cost.seconds <= BUDGET, f"{media or accept}: {cost}"
        return cost.status

    assert costs("POST", path, as_it_is, "application/json") == 201
    try:
        for media in ("application/strategic-merge-patch+json", "application/merge-patch+json"):
            assert costs("PATCH", f"{own}?dryRun=All", other, media) in (200, 422)
        assert costs("PUT", f"{own}?dryRun=All", other, "application/json") in (200, 422)
        for manager in ("one", "two"):
            where = f"{own}?fieldManager={manager}&force=true"
            assert costs("PATCH", where, as_it_is, "application/apply-patch+yaml") == 200
        labelled = json.dumps([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]).encode()
        assert costs("PATCH", own, labelled, "application/json-patch+json") == 200
        for accept in (
            "application/json",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            "application/yaml",
        ):
            assert costs("GET", path, b"", "", accept) == 200
    finally:
        assert costs("DELETE", own, b"", "application/json") in (200, 202)
        emptied = json.dumps([{"op": "replace", "path": "/metadata/finalizers", "value": []}]).encode()
        costs("PATCH", own, emptied, "application/json-patch+json")
