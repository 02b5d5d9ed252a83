"""Verbs: what each one sends, and what comes back."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from quarterdeck.api import (
    DynamicObject,
    GroupVersionKind,
    Model,
    ObjectMeta,
    PartialObjectMetadata,
    Resource,
    Scheme,
    Selector,
)
from quarterdeck.api.k8s import ConfigMap, Deployment, Eviction, Lease, Namespace, Pod, ScaleSubresource
from quarterdeck.api.k8s.scale import ScaleSpec
from quarterdeck.api.meta import Status
from quarterdeck.client import (
    Bookmark,
    Client,
    JsonPatch,
    MergePatch,
    Response,
    StrategicMergePatch,
    Stream,
    WatchEvent,
    dry_run,
    field_owner,
    intercept,
    merge_from,
    metadata_of,
    namespaced,
)
from quarterdeck.client.call import Call, Proceed, ProceedStream
from quarterdeck.client.lane import LaneName
from quarterdeck.client.wrapper import field_validation, raise_once
from quarterdeck.errors import Conflict, Expired, NotFound, ProtocolError

from .wireserver import Asked, FunctionTransport, chunks, in_process, status

CM = ConfigMap(metadata=ObjectMeta(name="a", namespace="n"), data={"k": "v"})
GVK = GroupVersionKind("example.io", "v1", "Widget")


def echo(asked: Asked) -> Response:
    """Answer a write with what was written."""
    return Response(200, asked.body or CM.to_bytes())


def client(handler: Callable[[Asked], Any] = echo, **options: Any) -> tuple[Client, FunctionTransport]:
    return in_process(handler, **options)


async def test_get_reads_one_object() -> None:
    c, wire = client()
    assert await c.get(ConfigMap, "a", "n") == CM
    assert (wire.asked[0].method, wire.asked[0].path) == ("GET", "/api/v1/namespaces/n/configmaps/a")
    assert wire.asked[0].headers["accept"] == "application/json"
    assert wire.asked[0].headers["user-agent"]


async def test_names_are_encoded_in_paths() -> None:
    c, wire = client(lambda asked: Response(200, b"{}"))
    await c.get(Namespace, "system:a/b")
    assert wire.asked[0].path == "/api/v1/namespaces/system%3Aa%2Fb"


async def test_namespaced_object_needs_a_namespace() -> None:
    c, _ = client()
    with pytest.raises(ValueError, match='ConfigMap "a" is namespaced'):
        await c.get(ConfigMap, "a")
    with pytest.raises(ValueError, match="is namespaced"):
        await c.create(ConfigMap(metadata=ObjectMeta(name="b")))


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({}, ""),
        ({"limit": 5, "continue_token": "t k"}, "limit=5&continue=t%20k"),
        (
            {"labels": {"a": "b"}, "fields": "metadata.name=x"},
            "labelSelector=a%3Db&fieldSelector=metadata.name%3Dx",
        ),
        ({"labels": Selector.parse("a in (x,y)")}, "labelSelector=a%20in%20%28x%2Cy%29"),
        ({"labels": "", "fields": {}}, ""),
        (
            {"resource_version": "0", "resource_version_match": "NotOlderThan"},
            "resourceVersion=0&resourceVersionMatch=NotOlderThan",
        ),
    ],
)
async def test_list_options_become_a_query(options: dict[str, Any], query: str) -> None:
    body = json.dumps(
        {"metadata": {"resourceVersion": "7", "continue": "t"}, "items": [CM.to_dict()]}
    ).encode()
    c, wire = client(lambda asked: Response(200, body))
    page = await c.list(ConfigMap, namespace="n", **options)
    assert wire.asked[0].query == query
    assert (list(page), page.resource_version, page.continue_token) == ([CM], "7", "t")


async def test_selector_of_nothing_cannot_be_sent() -> None:
    c, _ = client()
    with pytest.raises(ValueError, match="matches nothing"):
        await c.list(ConfigMap, labels=Selector.nothing())


async def test_list_without_items_is_empty() -> None:
    c, _ = client(lambda asked: Response(200, b'{"metadata":{},"items":null}'))
    assert len(await c.list(ConfigMap)) == 0


async def test_items_do_not_keep_the_page_alive() -> None:
    body = json.dumps({"items": [{"metadata": {"managedFields": [{"fieldsV1": {"f:a": {}}}]}}]}).encode()
    c, _ = client(lambda asked: Response(200, body))
    raw = (await c.list(ConfigMap))[0].metadata.managed_fields[0].fields_v1
    assert isinstance(raw, msgspec.Raw)
    assert bytes(raw) == b'{"f:a": {}}'


async def test_pages_follow_the_token() -> None:
    def handler(asked: Asked) -> Response:
        token = "" if "continue" in asked.query else "next"
        return Response(200, json.dumps({"metadata": {"continue": token}, "items": [CM.to_dict()]}).encode())

    c, wire = client(handler)
    assert [len(page) async for page in c.pages(ConfigMap, namespace="n", limit=1)] == [1, 1]
    assert [asked.query for asked in wire.asked] == ["limit=1", "limit=1&continue=next"]


async def test_dynamic_items_get_their_type() -> None:
    c, _ = client(
        lambda asked: Response(200, b'{"items":[{"metadata":{"name":"x"}}]}'), scheme=Scheme([ConfigMap])
    )
    item = (await c.list(ConfigMap.type_info.gvk))[0]
    assert isinstance(item, DynamicObject)
    assert (item.kind, item.api_version, item.metadata.name) == ("ConfigMap", "v1", "x")


async def test_metadata_only_asks_for_less_and_names_the_kind() -> None:
    body = b'{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"a"}}'
    c, wire = client(lambda asked: Response(200, body))
    head = await c.get(metadata_of(ConfigMap), "a", "n")
    assert isinstance(head, PartialObjectMetadata)
    assert (head.kind, head.api_version) == ("ConfigMap", "v1")
    assert "as=PartialObjectMetadata;" in wire.asked[0].headers["accept"]


async def test_metadata_only_objects_cannot_be_written_whole() -> None:
    c, wire = client(scheme=Scheme([ConfigMap]))
    head = PartialObjectMetadata(api_version="v1", kind="ConfigMap", metadata=CM.metadata)
    writes: list[Any] = [c.create, c.update, lambda o: c.apply(o, field_manager="m")]
    for write in writes:
        with pytest.raises(TypeError, match="metadata-only"):
            await write(head)
    await c.patch(head, MergePatch({"metadata": {"labels": {"a": "b"}}}))
    await c.delete(head)
    assert [asked.method for asked in wire.asked] == ["PATCH", "DELETE"]


async def test_create_posts_to_the_collection() -> None:
    c, wire = client()
    await c.create(CM, field_manager="m", dry_run=True, field_validation="Strict")
    asked = wire.asked[0]
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/n/configmaps")
    assert asked.query == "dryRun=All&fieldManager=m&fieldValidation=Strict"
    assert asked.headers["content-type"] == "application/json"
    assert json.loads(asked.body) == CM.to_dict()


async def test_update_puts_the_object() -> None:
    c, wire = client()
    assert await c.update(CM) == CM
    assert (wire.asked[0].method, wire.asked[0].path) == ("PUT", "/api/v1/namespaces/n/configmaps/a")
    with pytest.raises(ValueError, match="has no name"):
        await c.update(ConfigMap(metadata=ObjectMeta(namespace="n")))


@pytest.mark.parametrize(
    ("patch", "media_type", "body"),
    [
        (
            JsonPatch([{"op": "remove", "path": "/data"}]),
            "application/json-patch+json",
            [{"op": "remove", "path": "/data"}],
        ),
        (MergePatch({"data": None}), "application/merge-patch+json", {"data": None}),
        (StrategicMergePatch({"data": {}}), "application/strategic-merge-patch+json", {"data": {}}),
        (
            merge_from(CM.evolve(data={"old": "1"})),
            "application/merge-patch+json",
            {"data": {"old": None, "k": "v"}},
        ),
    ],
)
async def test_patch_kinds(patch: Any, media_type: str, body: Any) -> None:
    c, wire = client(lambda asked: Response(200, CM.to_bytes()))
    await c.patch(CM, patch)
    assert wire.asked[0].method == "PATCH"
    assert wire.asked[0].headers["content-type"] == media_type
    assert json.loads(wire.asked[0].body) == body


@pytest.mark.parametrize("patch", [merge_from(CM), MergePatch({}), JsonPatch([]), StrategicMergePatch({})])
async def test_patch_without_content_is_not_sent(patch: Any) -> None:
    c, wire = client()
    assert await c.patch(CM, patch) is CM
    assert wire.asked == []


async def test_optimistic_lock_carries_the_version_read() -> None:
    before = CM.evolve(metadata=CM.metadata.evolve(resource_version="5"))
    c, wire = client(lambda asked: Response(200, CM.to_bytes()))
    await c.patch(before.evolve(data={"k": "w"}), merge_from(before, optimistic_lock=True))
    assert json.loads(wire.asked[0].body) == {"data": {"k": "w"}, "metadata": {"resourceVersion": "5"}}
    with pytest.raises(ValueError, match="does not have any resource version we can use"):
        await c.patch(CM.evolve(data={}), merge_from(CM, optimistic_lock=True))


async def test_apply_sends_the_configuration_without_managed_fields() -> None:
    c, wire = client()
    managed = ConfigMap.from_dict(
        {"metadata": {"name": "a", "namespace": "n", "managedFields": [{"manager": "x"}]}, "data": {"k": "v"}}
    )
    await c.apply(managed, field_manager="me", force=True)
    asked = wire.asked[0]
    assert asked.query == "fieldManager=me&force=true"
    assert asked.headers["content-type"] == "application/apply-patch+yaml"
    assert json.loads(asked.body) == CM.to_dict()
    with pytest.raises(ValueError, match="apply needs a field_manager"):
        await c.apply(CM)


async def test_delete_options_go_into_the_body() -> None:
    c, wire = client(lambda asked: Response(200, b'{"kind":"Status","status":"Success"}'))
    answer = await c.delete(
        CM, grace_period=0, propagation="Foreground", uid="u", resource_version="3", dry_run=True
    )
    assert isinstance(answer, Status)
    assert answer.status == "Success"
    assert wire.asked[0].query == "dryRun=All"
    assert json.loads(wire.asked[0].body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "3"},
    }


async def test_delete_by_name_answers_the_object_that_is_still_there() -> None:
    c, wire = client()
    answer = await c.delete(ConfigMap, "a", "n")
    assert isinstance(answer, DynamicObject)
    assert answer.metadata.name == "a"
    assert (wire.asked[0].method, wire.asked[0].body) == ("DELETE", b"")
    with pytest.raises(ValueError, match="has no name"):
        await c.delete(ConfigMap)


async def test_delete_all_of_needs_a_selector() -> None:
    c, wire = client(lambda asked: Response(200, b"{}"))
    with pytest.raises(ValueError, match="needs a selector"):
        await c.delete_all_of(ConfigMap, namespace="n")
    await c.delete_all_of(ConfigMap, namespace="n", labels="a=b", propagation="Orphan")
    assert (wire.asked[0].path, wire.asked[0].query) == (
        "/api/v1/namespaces/n/configmaps",
        "labelSelector=a%3Db",
    )


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (lambda c, **options: c.list(ConfigMap, **options), "label"),
        (lambda c, **options: c.create(CM, **options), "dryrun"),
        (lambda c, **options: c.update(CM, **options), "force"),
        (lambda c, **options: c.patch(CM, MergePatch({"data": {}}), **options), "manager"),
        (lambda c, **options: c.apply(CM, field_manager="m", **options), "forced"),
        (lambda c, **options: c.delete(CM, **options), "grace_period_seconds"),
        (lambda c, **options: c.delete_all_of(ConfigMap, labels="", **options), "uid"),
    ],
)
async def test_an_option_that_is_not_known_is_refused_before_anything_is_sent(call: Any, option: str) -> None:
    c, wire = client()
    with pytest.raises(TypeError, match=f"has no option '{option}'; it has "):
        await call(c, **{option: True})
    assert wire.asked == []


def test_a_watch_refuses_options_it_does_not_know() -> None:
    c, _ = client()
    options: Any = {"timeout": 1}
    with pytest.raises(TypeError, match="watch has no option 'timeout'"):
        c.watch(ConfigMap, **options)


DEPLOYMENT = Deployment(metadata=ObjectMeta(name="web", namespace="n"))
POD = Pod(metadata=ObjectMeta(name="p", namespace="n"))


async def test_status_has_the_same_verbs() -> None:
    c, wire = client(lambda asked: Response(200, DEPLOYMENT.to_bytes()))
    await c.status.update(DEPLOYMENT)
    await c.status.patch(DEPLOYMENT, MergePatch({"status": {"replicas": 1}}))
    await c.status.apply(DEPLOYMENT, field_manager="m")
    assert {asked.path for asked in wire.asked} == {"/apis/apps/v1/namespaces/n/deployments/web/status"}
    assert [asked.method for asked in wire.asked] == ["PUT", "PATCH", "PATCH"]


async def test_scale_is_read_and_put_as_its_own_kind() -> None:
    c, wire = client(lambda asked: Response(200, asked.body or b'{"kind":"Scale","spec":{"replicas":2}}'))
    scale = await c.subresource("scale").get(Deployment, "web", "n", returns=ScaleSubresource)
    assert scale.spec.replicas == 2
    put = await c.subresource("scale").put(DEPLOYMENT, scale.evolve(spec=ScaleSpec(replicas=3)))
    assert put.spec.replicas == 3
    assert wire.asked[1].path.endswith("/deployments/web/scale")


async def test_eviction_is_posted_to_the_pod() -> None:
    c, wire = client(lambda asked: Response(201, b'{"kind":"Status","status":"Success"}'))
    eviction = Eviction(metadata=ObjectMeta(name="p", namespace="n"))
    assert await c.subresource("eviction").create(POD, eviction) is eviction
    assert (wire.asked[0].method, wire.asked[0].path) == ("POST", "/api/v1/namespaces/n/pods/p/eviction")


async def test_logs_are_read_as_bytes() -> None:
    c, wire = client(lambda asked: Response(200, b"line\n"))
    assert await c.subresource("log").read(Pod, "p", "n", tailLines="1") == b"line\n"
    assert wire.asked[0].query == "tailLines=1"


async def test_leases_take_their_own_lane() -> None:
    lanes: list[LaneName] = []
    c, _ = client(lambda asked: Response(200, b"{}"), observer=lambda record: lanes.append(record.lane))
    await c.get(Lease, "l", "n")
    await c.get(ConfigMap, "a", "n")
    assert lanes == [LaneName.LEASE, LaneName.DEFAULT]


async def test_raw_requests_pass_through() -> None:
    c, wire = client(lambda asked: Response(200, b"ok"))
    assert (await c.raw("GET", "/readyz", query={"verbose": "true"})).body == b"ok"
    assert (wire.asked[0].path, wire.asked[0].query) == ("/readyz", "verbose=true")


async def test_closing_the_client_closes_the_transport() -> None:
    c, wire = client()
    async with c:
        pass
    assert wire.closed


def event(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


async def test_watch_decodes_events_and_bookmarks() -> None:
    bookmark = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
    text = event("ADDED", CM.to_dict()) + event("DELETED", CM.to_dict()) + event("BOOKMARK", bookmark)
    c, wire = client(lambda asked: Stream(200, chunks(text[:50], text[50:])))
    seen = []
    async with c.watch(
        ConfigMap,
        namespace="n",
        labels="a",
        send_initial_events=True,
        timeout_seconds=9,
        resource_version="5",
    ) as events:
        async for item in events:
            seen.append(item)
    assert [(e.type, e.object) for e in seen if isinstance(e, WatchEvent)] == [("ADDED", CM), ("DELETED", CM)]
    mark = seen[2]
    assert isinstance(mark, Bookmark)
    assert (mark.resource_version, mark.ends_initial_events) == ("9", True)
    assert wire.asked[0].query == (
        "watch=true&labelSelector=a&resourceVersion=5&resourceVersionMatch=NotOlderThan"
        "&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=9"
    )


async def collect(c: Client) -> list[Any]:
    async with c.watch(ConfigMap, namespace="n") as events:
        return [item async for item in events]


async def test_error_event_raises_its_status() -> None:
    expired = json.loads(status(410, "Expired", "too old").body)
    c, _ = client(lambda asked: Stream(200, chunks(event("ERROR", expired))))
    with pytest.raises(Expired, match="too old"):
        await collect(c)


async def test_broken_event_is_a_protocol_error() -> None:
    c, _ = client(lambda asked: Stream(200, chunks(b"{nonsense\n")))
    with pytest.raises(ProtocolError):
        await collect(c)


async def test_watch_must_be_opened_first() -> None:
    c, _ = client()
    with pytest.raises(RuntimeError, match="async with"):
        async for _ in c.watch(ConfigMap):
            pass


async def test_wrappers_combine() -> None:
    c, wire = client()
    careful = field_validation(field_owner(dry_run(namespaced(c, "n")), "owner"), "Strict")
    await careful.create(ConfigMap(metadata=ObjectMeta(name="a")))
    await careful.apply(CM, field_manager="other")
    await careful.delete(ConfigMap, "a")
    await careful.get(ConfigMap, "a")
    await careful.status.update(CM)
    assert [asked.query for asked in wire.asked] == [
        "dryRun=All&fieldManager=owner&fieldValidation=Strict",
        "fieldManager=other&dryRun=All&fieldValidation=Strict",
        "dryRun=All",
        "",
        "dryRun=All&fieldManager=owner&fieldValidation=Strict",
    ]
    assert all(asked.path.startswith("/api/v1/namespaces/n/") for asked in wire.asked)


async def test_namespaced_client_refuses_other_namespaces() -> None:
    c, wire = client()
    with pytest.raises(
        ValueError, match="namespace n of the object a does not match the namespace other on the client"
    ):
        await namespaced(c, "other").update(CM)
    await namespaced(c, "other").get(Namespace, "x")
    assert len(wire.asked) == 1


async def test_interceptors_replace_fail_and_pass() -> None:
    seen: list[Call] = []

    async def answer(call: Call, proceed: Proceed) -> Response:
        seen.append(call)
        return Response(200, CM.to_bytes())

    async def observe(call: Call, proceed: ProceedStream) -> Stream:
        seen.append(call)
        return await proceed(call)

    c, wire = client(lambda asked: Stream(200, chunks()) if "watch" in asked.query else echo(asked))
    faulty = intercept(c, get=answer, update=raise_once(lambda: Conflict("busy")), watch=observe)
    assert await faulty.get(ConfigMap, "x", "n") == CM
    with pytest.raises(Conflict):
        await faulty.update(CM)
    assert await faulty.update(CM) == CM
    assert await collect(faulty) == []
    assert [call.verb for call in seen] == ["get", "watch"]
    assert [asked.method for asked in wire.asked] == ["PUT", "GET"]
    with pytest.raises(NotFound):
        await intercept(c, delete=raise_once(NotFound("x"))).delete(CM)


class Widget(Resource, group="example.io", version="v1", scope="Cluster"):
    spec: Model = Model()


async def test_unknown_fields_come_back_through_the_client() -> None:
    stored = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "n"},
        "new": {"x": 1},
    }
    c, wire = client(lambda asked: Response(200, asked.body or json.dumps(stored).encode()))
    read = await c.get(ConfigMap, "a", "n")
    await c.update(read.evolve(data={"k": "v"}))
    assert json.loads(wire.asked[1].body) == {**stored, "data": {"k": "v"}}
