"""What was opened for a definition ends with it: watches, writes under way, deletions of what it defines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quarterdeck.apiserver import ApiServer
from quarterdeck.apiserver.inprocess import StreamReader
from quarterdeck.apiserver.storage import Store
from quarterdeck.apiserver.storage.write import Batch
from quarterdeck.testing import eventually

Json = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMED = f"{CRDS}/things.ex.io"
THINGS = "/apis/ex.io/v1/namespaces/default/things"
MERGE = "application/merge-patch+json"
TEXT = {"type": "string"}


def version(name: str, spec: Json, *, served: bool = True, storage: bool = True) -> Json:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}}


def definition(*versions: Json, scope: str = "Namespaced", **more: Any) -> Json:
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "ex.io", "scope": scope, "names": names, "versions": list(versions), **more}
    return {"metadata": {"name": "things.ex.io"}, "spec": spec}


def thing(name: str, *finalizers: str, **spec: str) -> Json:
    meta: Json = {"name": name, "finalizers": list(finalizers)}
    return {"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": meta, "spec": spec}


class Api:
    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self._local = server.local()

    async def __call__(
        self, method: str, path: str, body: Any = None, media: str = "application/json", query: str = ""
    ) -> tuple[int, Any]:
        raw = b"" if body is None else json.dumps(body).encode()
        code, _, answer = await self._local.exchange(method, path, query, (("Content-Type", media),), raw)
        try:
            return code, json.loads(answer)
        except ValueError:
            return code, answer.decode()

    async def define(self, crd: Json) -> None:
        code, answer = await self("POST", CRDS, crd)
        assert code == 201, answer
        served = next(each["name"] for each in crd["spec"]["versions"] if each["served"])

        async def is_served() -> bool:
            return (await self("GET", f"/apis/ex.io/{served}/things"))[0] == 200

        await eventually(is_served)

    async def watch(self, path: str, accept: str = "application/json", query: str = "") -> StreamReader:
        code, _, stream = await self._local.open("GET", path, f"watch=1{query}", (("Accept", accept),), b"")
        assert code == 200
        return stream


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    server = ApiServer()
    await server.start(listen=False)
    yield Api(server)
    await server.stop()


async def rest_of(stream: StreamReader) -> list[Json]:
    """The objects of a stream that ends."""
    async with asyncio.timeout(5):
        text = b"".join([chunk async for chunk in stream])
    return [json.loads(line)["object"] for line in text.splitlines()]


async def first_of(stream: StreamReader) -> Json:
    async with asyncio.timeout(5):
        found: Json = json.loads(await anext(stream))["object"]
    return found


HOOK = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/a"}}
MOVED = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:2/b"}}
CHANGES: dict[str, Json] = {
    "a field": {"versions": [version("v1", {"a": TEXT, "b": TEXT})]},
    "a column": {
        "versions": [
            {
                **version("v1", {"a": TEXT}),
                "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
            }
        ]
    },
    "another version": {"versions": [version("v1", {"a": TEXT}), version("v2", {}, storage=False)]},
    "the stored version": {
        "versions": [version("v1", {"a": TEXT}, storage=False), version("v2", {"a": TEXT})]
    },
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_watch_ends_when_its_definition_changes(api: Api, change: str) -> None:
    await api.define(definition(version("v1", {"a": TEXT})))
    stream = await api.watch(THINGS)
    code, answer = await api("PATCH", NAMED, {"spec": CHANGES[change]}, MERGE)
    assert code == 200, answer
    assert await rest_of(stream) == []


async def test_a_watch_ends_when_the_conversion_webhook_moves(api: Api) -> None:
    conversion = {"strategy": "Webhook", "webhook": HOOK}
    await api.define(definition(version("v1", {"a": TEXT}), conversion=conversion))
    stream = await api.watch(THINGS)
    code, answer = await api("PATCH", NAMED, {"spec": {"conversion": {"webhook": MOVED}}}, MERGE)
    assert code == 200, answer
    assert await rest_of(stream) == []


async def test_a_watch_opened_after_a_change_shows_the_new_fields(api: Api) -> None:
    await api.define(definition(version("v1", {"a": TEXT})))
    await api.watch(THINGS)
    await api("PATCH", NAMED, {"spec": CHANGES["a field"]}, MERGE)
    stream = await api.watch(THINGS)
    await api("POST", THINGS, thing("t", a="1", b="2"))
    assert (await first_of(stream))["spec"] == {"a": "1", "b": "2"}


async def test_a_watch_goes_on_when_only_labels_of_its_definition_change(api: Api) -> None:
    await api.define(definition(version("v1", {"a": TEXT})))
    stream = await api.watch(THINGS)
    await api("PATCH", NAMED, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    await api("POST", THINGS, thing("t"))
    assert (await first_of(stream))["metadata"]["name"] == "t"


async def test_a_watch_sees_the_last_instance_go_before_it_ends_with_its_definition(api: Api) -> None:
    await api.define(definition(version("v1", {"a": TEXT})))
    await api("POST", THINGS, thing("t", "ex.io/f"))
    stream = await api.watch(THINGS, query="&resourceVersion=0")
    await api("DELETE", NAMED)

    async def is_deleting() -> bool:
        return "deletionTimestamp" in (await api("GET", f"{THINGS}/t"))[1]["metadata"]

    await eventually(is_deleting)
    await api("PATCH", f"{THINGS}/t", {"metadata": {"finalizers": None}}, MERGE)
    seen = await rest_of(stream)
    assert ["deletionTimestamp" in each["metadata"] for each in seen] == [False, True, True]


@pytest.mark.parametrize("kind", ["PartialObjectMetadata", "Table"])
async def test_watches_of_two_versions_of_a_form_get_one_each(api: Api, kind: str) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    form = f"application/json;as={kind};g=meta.k8s.io;v="
    streams = {name: await api.watch(path, form + name) for name in ("v1", "v1beta1")}
    for stream in streams.values():  # kube-root-ca.crt is not there without controllers
        assert stream.buffered() == 0
    await api("POST", path, {"metadata": {"name": "m"}})
    shown = {name: (await first_of(stream))["apiVersion"] for name, stream in streams.items()}
    assert shown == {"v1": "meta.k8s.io/v1", "v1beta1": "meta.k8s.io/v1beta1"}


async def test_what_is_defined_again_with_another_scope_is_listed_in_all_namespaces(api: Api) -> None:
    await api.define(definition(version("v1", {}), scope="Cluster"))
    await api("DELETE", NAMED)

    async def is_gone() -> bool:
        return (await api("GET", NAMED))[0] == 404

    await eventually(is_gone)
    await api.define(definition(version("v1", {})))
    await api("POST", THINGS, thing("t"))
    _, listed = await api("GET", "/apis/ex.io/v1/things")
    assert [each["metadata"]["name"] for each in listed["items"]] == ["t"]


async def test_a_create_under_way_stores_nothing_after_its_definition_is_gone(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.define(definition(version("v1", {})))
    admission = api.server.admission
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(attributes: Any) -> None:
        if attributes.resource == "things" and attributes.operation == "CREATE":
            asked.set()
            await go_on.wait()

    monkeypatch.setattr(admission, "needs_admission", lambda *_: True)
    monkeypatch.setattr(admission, "validate", slow)
    creating = asyncio.create_task(api("POST", THINGS, thing("t")))
    await asked.wait()
    await api("DELETE", NAMED)

    async def is_gone() -> bool:
        return (await api("GET", NAMED))[0] == 404

    await eventually(is_gone)
    go_on.set()
    code, answer = await creating
    assert (code, answer["reason"]) == (404, "NotFound")
    assert api.server.store.bucket("ex.io", "things", namespaced=True).count == 0


async def test_a_create_under_way_is_refused_when_its_namespace_is_being_deleted(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api("POST", "/api/v1/namespaces", {"metadata": {"name": "short"}})
    admission = api.server.admission
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(attributes: Any) -> None:
        if attributes.resource == "configmaps":
            asked.set()
            await go_on.wait()

    monkeypatch.setattr(admission, "needs_admission", lambda *_: True)
    monkeypatch.setattr(admission, "validate", slow)
    path = "/api/v1/namespaces/short/configmaps"
    creating = asyncio.create_task(api("POST", path, {"metadata": {"name": "m"}}))
    await asked.wait()
    await api("DELETE", "/api/v1/namespaces/short")
    go_on.set()
    code, _ = await creating
    assert code == 403


async def test_deleting_a_definition_touches_each_instance_with_a_finalizer_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.define(definition(version("v1", {})))
    for number in range(20):
        await api("POST", THINGS, thing(f"t{number}", "ex.io/f"))
    asked: list[str] = []
    delete = api.server._delete_instance

    async def counted(resource: Any, namespace: str, name: str) -> None:
        asked.append(name)
        await delete(resource, namespace, name)

    monkeypatch.setattr(api.server._definitions, "_delete_instance", counted)
    await api("DELETE", NAMED)

    async def all_marked() -> bool:
        listed = (await api("GET", THINGS))[1]["items"]
        return all("deletionTimestamp" in each["metadata"] for each in listed)

    await eventually(all_marked)
    for number in range(20):
        await api("PATCH", f"{THINGS}/t{number}", {"metadata": {"finalizers": None}}, MERGE)

    async def is_gone() -> bool:
        return (await api("GET", NAMED))[0] == 404

    await eventually(is_gone)
    assert sorted(asked) == sorted({f"t{number}" for number in range(20)})


async def test_a_definition_whose_instances_cannot_be_deleted_is_tried_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.define(definition(version("v1", {})))
    await api("POST", THINGS, thing("t"))
    delete = api.server._delete_instance
    answers = iter([True, False])

    async def fails_once(resource: Any, namespace: str, name: str) -> None:
        if next(answers):
            raise RuntimeError("once")
        await delete(resource, namespace, name)

    monkeypatch.setattr(api.server._definitions, "_delete_instance", fails_once)
    await api("DELETE", NAMED)

    async def is_gone() -> bool:
        return (await api("GET", NAMED))[0] == 404

    await eventually(is_gone)


async def test_a_collection_is_deleted_in_few_commits(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    for number in range(50):
        await api("POST", path, {"metadata": {"name": f"m{number}"}})
    batches: list[int] = []
    publish = Store._publish

    def counted(store: Store, batch: Batch) -> None:
        batches.append(len(batch.events))
        publish(store, batch)

    monkeypatch.setattr(Store, "_publish", counted)
    code, listed = await api("DELETE", path)
    assert code == 200
    assert len(listed["items"]) == 50
    assert sum(batches) == 50
    assert len(batches) <= 3


def in_group(group: str, plural: str, kind: str) -> Json:
    crd = definition(version("v1", {}), version("v7", {}, storage=False))
    crd["metadata"] = {
        "name": f"{plural}.{group}",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    }
    crd["spec"]["group"] = group
    crd["spec"]["names"] = {
        "plural": plural,
        "singular": kind.lower(),
        "kind": kind,
        "listKind": f"{kind}List",
    }
    return crd


async def gone(api: Api, name: str) -> None:
    await api("DELETE", f"{CRDS}/{name}")

    async def is_gone() -> bool:
        return (await api("GET", f"{CRDS}/{name}"))[0] == 404

    await eventually(is_gone)


async def test_a_version_in_a_built_in_group_leaves_openapi_with_its_definition(api: Api) -> None:
    async def shown() -> tuple[bool, bool, bool, bool]:
        index = (await api("GET", "/openapi/v3"))[1]["paths"]
        group = json.dumps((await api("GET", "/openapi/v3/apis/networking.k8s.io/v1"))[1])
        whole = json.dumps((await api("GET", "/openapi/v2"))[1])
        code, _ = await api("GET", "/openapi/v3/apis/networking.k8s.io/v7")
        return (
            "apis/networking.k8s.io/v7" in index,
            "widgets" in group,
            "/apis/networking.k8s.io/v7/" in whole,
            code == 200,
        )

    assert await shown() == (False, False, False, False)
    await api("POST", CRDS, in_group("networking.k8s.io", "widgets", "Widget"))

    async def is_shown() -> bool:
        return await shown() == (True, True, True, True)

    await eventually(is_shown)
    await gone(api, "widgets.networking.k8s.io")
    assert await shown() == (False, False, False, False)


async def test_a_definition_with_the_name_of_a_built_in_resource_takes_nothing_away(api: Api) -> None:
    path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
    code, answer = await api("POST", CRDS, in_group("networking.k8s.io", "ingresses", "Ingress"))
    assert code == 201, answer

    async def is_served() -> bool:
        return (await api("GET", "/apis/networking.k8s.io/v7/namespaces/default/ingresses"))[0] == 200

    await eventually(is_served)
    resource = api.server.table.get("networking.k8s.io", "v1", "ingresses")
    assert resource is not None
    assert not resource.is_custom
    ingress = {
        "metadata": {"name": "i"},
        "spec": {"defaultBackend": {"resource": {"kind": "a", "name": "b"}}},
    }
    assert (await api("POST", path, ingress))[0] == 201
    _, custom = await api("GET", "/apis/networking.k8s.io/v7/namespaces/default/ingresses")
    assert custom["items"] == []
    await gone(api, "ingresses.networking.k8s.io")
    assert (await api("GET", f"{path}/i"))[0] == 200
    assert api.server.table.get("networking.k8s.io", "v1", "ingresses") is resource
    assert (await api("GET", path))[0] == 200


async def test_a_name_whose_object_cannot_be_converted_is_taken_and_nothing_more(api: Api) -> None:
    """As on kube-apiserver, which cannot tell then that the object is being deleted."""
    await api.define(definition(version("v1", {}), version("v2", {}, storage=False)))
    assert (await api("POST", THINGS, thing("t", "ex.io/f")))[0] == 201
    assert (await api("DELETE", f"{THINGS}/t"))[0] == 200
    code, answer = await api("POST", THINGS, thing("t"))
    assert (code, answer["message"].partition(":")[0]) == (409, "object is being deleted")
    client = {"url": "https://127.0.0.1:99999/"}
    spec = {
        "versions": [version("v1", {}, storage=False), version("v2", {})],
        "conversion": {
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
        },
    }
    assert (await api("PATCH", NAMED, {"spec": spec}, MERGE))[0] == 200
    code, answer = await api("POST", THINGS.replace("v1", "v2"), {**thing("t"), "apiVersion": "ex.io/v2"})
    assert (code, answer["message"]) == (409, 'things.ex.io "t" already exists')
