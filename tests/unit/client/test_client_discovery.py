"""Discovery: lazily, aggregated or not."""

import json
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.api.kind import GroupKind
from quarterdeck.client import Response
from quarterdeck.errors import NoKindMatch, NotFound

from .wireserver import Asked, in_process, status

WIDGET = GroupVersionKind("example.io", "v1", "Widget")


def reply(document: Any) -> Response:
    return Response(200, json.dumps(document).encode())


def resource(name: str, kind: str, group: str, version: str, scope: str = "Namespaced") -> dict[str, Any]:
    return {
        "resource": name,
        "responseKind": {"group": group, "version": version, "kind": kind},
        "scope": scope,
        "singularResource": kind.lower(),
        "verbs": ["get", "list"],
        "shortNames": [name[:2]],
        "subresources": [{"subresource": "status"}],
    }


def aggregated(asked: Asked) -> Response:
    items: list[dict[str, Any]]
    if asked.path == "/api":
        items = [
            {
                "metadata": {},
                "versions": [{"version": "v1", "resources": [resource("pods", "Pod", "", "v1")]}],
            }
        ]
    elif asked.path == "/apis":
        items = [
            {
                "metadata": {"name": "example.io"},
                "versions": [
                    {"version": "v1", "resources": [resource("widgets", "Widget", "example.io", "v1")]},
                    {
                        "version": "v1alpha1",
                        "resources": [resource("widgets", "Widget", "example.io", "v1alpha1", "Cluster")],
                    },
                ],
            }
        ]
    elif asked.path.startswith("/apis/example.io/v1/"):
        return reply({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}})
    else:
        return status(404, "NotFound", "the server could not find the requested resource")
    return reply({"kind": "APIGroupDiscoveryList", "items": items})


def legacy(asked: Asked) -> Response:
    documents: dict[str, Any] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "groups": [
                {
                    "name": "example.io",
                    "versions": [{"version": "v1alpha1"}, {"version": "v1"}],
                    "preferredVersion": {"version": "v1"},
                },
                {"name": "broken.io", "versions": [{"version": "v1"}]},
            ],
        },
        "/api/v1": {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get"]}]},
        "/apis/example.io/v1": {
            "resources": [
                {"name": "widgets", "kind": "Widget", "namespaced": True, "singularName": "widget"},
                {"name": "widgets/status", "kind": "Widget", "namespaced": True},
            ]
        },
        "/apis/example.io/v1alpha1": {
            "resources": [{"name": "widgets", "kind": "Widget", "namespaced": False}]
        },
    }
    if asked.path not in documents:
        return status(503, "ServiceUnavailable")
    return reply(documents[asked.path])


async def test_first_dynamic_kind_costs_two_requests() -> None:
    client, wire = in_process(aggregated)
    obj = await client.get(WIDGET, "w", "n")
    assert isinstance(obj, DynamicObject)
    assert obj.metadata.name == "w"
    await client.get(WIDGET, "w", "n")
    assert [asked.path for asked in wire.asked] == [
        "/api",
        "/apis",
        "/apis/example.io/v1/namespaces/n/widgets/w",
        "/apis/example.io/v1/namespaces/n/widgets/w",
    ]


@pytest.mark.parametrize("server", [aggregated, legacy])
async def test_mapping_knows_scope_and_subresources(server: Any) -> None:
    client, _ = in_process(server)
    mapping = await client.mapper.mapping(WIDGET)
    assert mapping.gvr.resource == "widgets"
    assert mapping.is_namespaced
    assert mapping.subresources == {"status"}
    old = await client.mapper.mapping(GroupVersionKind("example.io", "v1alpha1", "Widget"))
    assert not old.is_namespaced


@pytest.mark.parametrize("server", [aggregated, legacy])
async def test_preferred_version_comes_first(server: Any) -> None:
    client, _ = in_process(server)
    assert (await client.mapper.preferred(GroupKind("example.io", "Widget"))).gvk.version == "v1"
    assert [m.gvk.version for m in await client.mapper.all() if m.gvk.kind == "Widget"] == ["v1", "v1alpha1"]
    with pytest.raises(NoKindMatch):
        await client.mapper.preferred(GroupKind("example.io", "Gadget"))


@pytest.mark.parametrize("name", ["widgets", "widget", "Widget", "widgets.example.io", "wi"])
async def test_resources_are_found_by_any_name(name: str) -> None:
    client, _ = in_process(aggregated)
    assert (await client.mapper.find(name)).gvr.resource == "widgets"
    with pytest.raises(NoKindMatch):
        await client.mapper.find(f"{name}x")


async def test_unknown_kind_makes_it_look_at_that_group_again() -> None:
    client, wire = in_process(aggregated)
    await client.mapper.mapping(WIDGET)
    with pytest.raises(NoKindMatch, match=r'no matches for kind "New" in version "new\.io/v1"'):
        await client.mapper.mapping(GroupVersionKind("new.io", "v1", "New"))
    assert wire.asked[-1].path == "/apis/new.io/v1"

    def installed(asked: Asked) -> Response:
        if asked.path == "/apis/new.io/v1":
            return reply({"resources": [{"name": "news", "kind": "New", "namespaced": False}]})
        return aggregated(asked)

    wire.handler = installed
    assert (await client.mapper.mapping(GroupVersionKind("new.io", "v1", "New"))).gvr.resource == "news"


async def test_mapping_is_forgotten_when_the_resource_is_gone() -> None:
    client, wire = in_process(aggregated)
    await client.mapper.mapping(WIDGET)

    def removed(asked: Asked) -> Response:
        if asked.path.startswith("/apis/example.io"):
            return Response(404, b"404 page not found\n")
        return aggregated(asked)

    wire.handler = removed
    with pytest.raises(NotFound):
        await client.get(WIDGET, "w", "n")
    with pytest.raises(NoKindMatch):
        await client.get(WIDGET, "w", "n")


async def test_missing_object_does_not_forget_the_mapping() -> None:
    client, wire = in_process(aggregated)
    await client.mapper.mapping(WIDGET)
    wire.handler = lambda asked: status(404, "NotFound", 'widgets "w" not found', name="w")
    for _ in range(2):
        with pytest.raises(NotFound):
            await client.get(WIDGET, "w", "n")


async def test_server_that_refuses_the_media_type_is_asked_plainly() -> None:
    def picky(asked: Asked) -> Response:
        if "apidiscovery" in asked.headers["accept"]:
            return status(406, "NotAcceptable")
        return legacy(asked)

    client, _ = in_process(picky)
    assert (await client.mapper.mapping(WIDGET)).gvr.resource == "widgets"
