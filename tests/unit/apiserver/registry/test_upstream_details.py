"""Small things in which the server does as kube-apiserver 1.36.3 did when it was asked the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.testing import TestCluster

Json = dict[str, Any]
JSON = (("Content-Type", "application/json"),)
EVENTS = "/namespaces/default/events"
CORE_EVENT: Json = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "core", "namespace": "default"},
    "involvedObject": {
        "kind": "Pod",
        "name": "p",
        "namespace": "default",
        "uid": "u1",
        "apiVersion": "v1",
        "resourceVersion": "5",
        "fieldPath": "spec.x",
    },
    "reason": "R",
    "type": "Normal",
    "source": {"component": "sc"},
    "reportingComponent": "rc",
}
NEW_EVENT: Json = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "new", "namespace": "default"},
    "regarding": {"kind": "Node", "name": "n", "namespace": "default", "uid": "u2"},
    "reason": "R2",
    "type": "Warning",
    "reportingController": "rc2/x",
    "reportingInstance": "ri",
    "action": "a",
    "eventTime": "2024-01-01T00:00:00.000000Z",
}
SELECTED = [
    ("/api/v1", "involvedObject.kind=Pod", ["core"]),
    ("/api/v1", "involvedObject.uid=u2", ["new"]),
    ("/api/v1", "reportingComponent=rc2/x", ["new"]),
    ("/api/v1", "source=sc", ["core"]),
    ("/apis/events.k8s.io/v1", "regarding.kind=Pod", ["core"]),
    ("/apis/events.k8s.io/v1", "regarding.kind=Node", ["new"]),
    ("/apis/events.k8s.io/v1", "regarding.kind!=Node", ["core"]),
    ("/apis/events.k8s.io/v1", "regarding.namespace=default", ["core", "new"]),
    ("/apis/events.k8s.io/v1", "regarding.name=p", ["core"]),
    ("/apis/events.k8s.io/v1", "regarding.uid=u1", ["core"]),
    ("/apis/events.k8s.io/v1", "regarding.apiVersion=v1", ["core"]),
    ("/apis/events.k8s.io/v1", "regarding.resourceVersion=5", ["core"]),
    ("/apis/events.k8s.io/v1", "regarding.fieldPath=spec.x", ["core"]),
    ("/apis/events.k8s.io/v1", "reportingController=rc", ["core"]),
    ("/apis/events.k8s.io/v1", "reportingController=rc2/x", ["new"]),
    ("/apis/events.k8s.io/v1", "type=Warning,reason=R2", ["new"]),
    ("/apis/events.k8s.io/v1", "source=sc", None),
    ("/apis/events.k8s.io/v1", "involvedObject.kind=Pod", None),
]


async def call(server: ApiServer, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
    path, _, query = path.partition("?")
    content = b"" if body is None else json.dumps(body).encode()
    status, _, answer = await server.local().exchange(method, path, query, JSON, content)
    return status, json.loads(answer)


@pytest.mark.parametrize("restarted", [False, True])
async def test_events_are_selected_by_the_fields_of_either_group(tmp_path: Path, restarted: bool) -> None:
    options = ServerOptions(data_dir=tmp_path)
    async with ApiServer(options) as server:
        assert (await call(server, "POST", f"/api/v1{EVENTS}", CORE_EVENT))[0] == 201
        assert (await call(server, "POST", f"/apis/events.k8s.io/v1{EVENTS}", NEW_EVENT))[0] == 201
        if not restarted:
            await _check_selections(server)
    if restarted:
        async with ApiServer(options) as server:
            await _check_selections(server)


async def _check_selections(server: ApiServer) -> None:
    for base, selector, names in SELECTED:
        status, answer = await call(server, "GET", f"{base}{EVENTS}?fieldSelector={quote(selector, safe='')}")
        if names is None:
            assert (status, answer["message"]) == (
                400,
                f"field label not supported: {selector.partition('=')[0]}",
            )
        else:
            assert [item["metadata"]["name"] for item in answer["items"]] == names, selector


@pytest.mark.parametrize(
    ("given", "micro", "seconds"),
    [
        ("0001-01-01T00:00:00.000000Z", None, None),
        ("0001-01-01T00:00:00.000001Z", "0001-01-01T00:00:00.000001Z", None),
        ("0001-01-01T00:00:02.000000Z", "0001-01-01T00:00:02.000000Z", "0001-01-01T00:00:02Z"),
        ("0999-06-01T00:00:00.123456Z", "0999-06-01T00:00:00.123456Z", "0999-06-01T00:00:00Z"),
        ("0999-06-01T02:00:00.000000+02:00", "0999-06-01T00:00:00.000000Z", "0999-06-01T00:00:00Z"),
    ],
)
async def test_early_years_have_four_digits_and_the_zero_time_is_null(
    cluster: TestCluster, given: str, micro: str | None, seconds: str | None
) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"acquireTime": given, "renewTime": given},
    }
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    status, answer = await call(cluster.server, "POST", path, lease)
    assert (status, answer.get("spec")) == (201, {"acquireTime": micro, "renewTime": micro})
    event = {**CORE_EVENT, "firstTimestamp": given}
    status, answer = await call(cluster.server, "POST", f"/api/v1{EVENTS}", event)
    assert (status, answer.get("firstTimestamp", "missing")) == (201, seconds)


async def watch(server: ApiServer, query: str) -> list[str]:
    """The types of the events of a watch of config maps, up to its time-out."""
    status, _, body = await server.local().exchange(
        "GET", "/api/v1/namespaces/default/configmaps", f"watch=1&allowWatchBookmarks=true&{query}", (), b""
    )
    assert status == 200
    return [json.loads(line)["type"] for line in body.splitlines()]


async def test_a_watch_gets_a_last_bookmark_only_after_a_change(cluster: TestCluster) -> None:
    server = cluster.server
    _, listed = await call(server, "GET", "/api/v1/namespaces/default/configmaps")
    known = listed["metadata"]["resourceVersion"]

    async def change(path: str, kind: str) -> None:
        await asyncio.sleep(1)
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}}
        assert (await call(server, "POST", path, body))[0] == 201

    assert await watch(server, f"timeoutSeconds=4&resourceVersion={known}") == []
    other, _ = await asyncio.gather(
        watch(server, f"timeoutSeconds=5&resourceVersion={known}"),
        change("/api/v1/namespaces/default/secrets", "Secret"),
    )
    assert other == []
    elsewhere, _ = await asyncio.gather(
        watch(server, f"timeoutSeconds=5&resourceVersion={known}"),
        change("/api/v1/namespaces/kube-system/configmaps", "ConfigMap"),
    )
    assert elsewhere == ["BOOKMARK"]
    here, _ = await asyncio.gather(
        watch(server, f"timeoutSeconds=5&resourceVersion={known}"),
        change("/api/v1/namespaces/default/configmaps", "ConfigMap"),
    )
    assert here == ["ADDED", "BOOKMARK"]
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    assert await watch(server, f"timeoutSeconds=5&{initial}") == ["ADDED", "BOOKMARK"]
    assert await watch(server, f"timeoutSeconds=5&resourceVersion={known}") == ["ADDED", "BOOKMARK"]


async def test_the_age_of_custom_resources_is_described_like_the_field_it_shows(cluster: TestCluster) -> None:
    server = cluster.server
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Thing", "plural": "things"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await call(server, "POST", path, definition))[0] == 201
    await asyncio.sleep(1)
    accept = (("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),)
    _, _, body = await server.local().exchange(
        "GET", "/apis/example.com/v1/namespaces/default/things", "", accept, b""
    )
    name, age = json.loads(body)["columnDefinitions"]
    assert (name["name"], age["name"]) == ("Name", "Age")
    assert age["description"].startswith("CreationTimestamp is a timestamp")


@pytest.mark.parametrize("name", ["a#b", "a?b=c", "a%20b", "a b", "ä'\""])
async def test_any_name_will_do_for_the_data_directory(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name / "data"
    path = "/api/v1/namespaces/default/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    async with ApiServer(ServerOptions(data_dir=directory)) as server:
        _, made = await call(server, "POST", path, body)
        await call(server, "PUT", f"{path}/x", {**body, "data": {"k": "v"}})
    assert (directory / "state.db").exists()
    async with ApiServer(ServerOptions(data_dir=directory)) as server:
        version = made["metadata"]["resourceVersion"]
        status, listed = await call(
            server, "GET", f"{path}?resourceVersion={version}&resourceVersionMatch=Exact"
        )
        assert status == 200, "history is read beside the writer"
        assert [item.get("data") for item in listed["items"] if item["metadata"]["name"] == "x"] == [None]
