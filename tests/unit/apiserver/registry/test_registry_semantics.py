"""Rules of writes, deletes, lists and watches that were checked against the real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.apiserver.inprocess import LocalServer

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
POD_SPEC = {"containers": [{"name": "c", "image": "i"}]}
DEPLOYMENT = {
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": POD_SPEC},
    },
}


class Api:
    def __init__(self, server: LocalServer) -> None:
        self._server = server

    async def call(
        self, method: str, path: str, body: Any = None, media: str = "application/json", **query: str
    ) -> tuple[int, Any]:
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = [("Content-Type", media)] if raw else []
        code, _, answer = await self._server.exchange(method, path, urlencode(query), headers, raw)
        try:
            return code, json.loads(answer)
        except ValueError:
            return code, [json.loads(line) for line in answer.splitlines()]


def run(scenario: Callable[[Api], Awaitable[None]]) -> None:
    async def serve() -> None:
        async with ApiServer(ServerOptions(port=0)) as server:
            await scenario(Api(server.local()))

    asyncio.run(serve())


def test_a_patch_may_not_drop_the_name() -> None:
    async def scenario(api: Api) -> None:
        await api.call("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
        code, answer = await api.call("PATCH", f"{CONFIGMAPS}/a", {"metadata": None}, MERGE)
        assert code == 400
        assert answer["message"].endswith("was undeterminable: name must be provided")

    run(scenario)


def test_a_missing_object_matters_more_than_a_bad_patch() -> None:
    async def scenario(api: Api) -> None:
        code, _ = await api.call("PATCH", f"{CONFIGMAPS}/a", b"{", MERGE)
        assert code == 404
        await api.call("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
        code, _ = await api.call("PATCH", f"{CONFIGMAPS}/a", b"{", MERGE)
        assert code == 400

    run(scenario)


def test_version_zero_means_an_unconditional_update() -> None:
    async def scenario(api: Api) -> None:
        await api.call("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
        body = {"metadata": {"name": "a", "resourceVersion": "0"}, "data": {"k": "v"}}
        code, _ = await api.call("PUT", f"{CONFIGMAPS}/a", body)
        assert code == 200

    run(scenario)


def test_strategic_type_errors_show_the_patch() -> None:
    async def scenario(api: Api) -> None:
        await api.call("POST", DEPLOYMENTS, DEPLOYMENT)
        code, answer = await api.call("PATCH", f"{DEPLOYMENTS}/d", {"spec": "x"}, STRATEGIC)
        assert code == 422
        assert '"map[spec:x]": cannot restore struct from: string' in answer["message"]

    run(scenario)


def test_watchers_see_a_pod_marked_before_it_is_gone() -> None:
    async def scenario(api: Api) -> None:
        _, pod = await api.call("POST", PODS, {"metadata": {"name": "p"}, "spec": POD_SPEC})
        version = pod["metadata"]["resourceVersion"]
        _, gone = await api.call("DELETE", f"{PODS}/p")
        assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
        _, events = await api.call("GET", PODS, watch="1", resourceVersion=version, timeoutSeconds="1")
        assert [event["type"] for event in events] == ["MODIFIED", "DELETED"]
        assert events[1]["object"]["metadata"]["resourceVersion"] == gone["metadata"]["resourceVersion"]

    run(scenario)


def test_the_last_finalizer_takes_the_stored_object_with_it() -> None:
    async def scenario(api: Api) -> None:
        meta = {"name": "a", "finalizers": ["ex.io/f"], "labels": {"l": "1"}}
        await api.call("POST", CONFIGMAPS, {"metadata": meta})
        _, marked = await api.call("DELETE", f"{CONFIGMAPS}/a")
        patch = {"metadata": {"finalizers": None, "labels": {"l": "2"}}}
        _, answer = await api.call("PATCH", f"{CONFIGMAPS}/a", patch, MERGE)
        assert answer["metadata"]["labels"] == {"l": "2"}
        version = marked["metadata"]["resourceVersion"]
        _, event = await api.call("GET", CONFIGMAPS, watch="1", resourceVersion=version, timeoutSeconds="1")
        assert event["type"] == "DELETED"
        assert event["object"]["metadata"]["labels"] == {"l": "1"}

    run(scenario)


def test_a_scale_write_owns_the_replicas_of_its_object() -> None:
    async def scenario(api: Api) -> None:
        await api.call("POST", DEPLOYMENTS, DEPLOYMENT, fieldManager="creator")
        patch = {"spec": {"replicas": 5}}
        code, scale = await api.call("PATCH", f"{DEPLOYMENTS}/d/scale", patch, MERGE, fieldManager="hpa")
        assert (code, scale["kind"], scale["spec"]) == (200, "Scale", patch["spec"])
        _, deployment = await api.call("GET", f"{DEPLOYMENTS}/d")
        owners = {entry["manager"]: entry for entry in deployment["metadata"]["managedFields"]}
        assert owners["hpa"]["subresource"] == "scale"
        assert owners["hpa"]["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
        assert "f:replicas" not in owners["creator"]["fieldsV1"]["f:spec"]

    run(scenario)


def test_a_watch_from_anywhere_marks_the_end_of_the_initial_state() -> None:
    async def scenario(api: Api) -> None:
        _, event = await api.call(
            "GET", CONFIGMAPS, watch="1", allowWatchBookmarks="true", timeoutSeconds="1"
        )
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    run(scenario)


def test_strict_problems_of_built_in_kinds_come_in_document_order() -> None:
    async def scenario(api: Api) -> None:
        body = b'{"metadata":{"name":"a","zz":1,"labels":{"a":"b","a":"c"}},"foo":1}'
        code, answer = await api.call("POST", CONFIGMAPS, body, fieldValidation="Strict")
        assert code == 400
        assert answer["message"].endswith(
            'unknown field "metadata.zz", duplicate field "metadata.labels.a", unknown field "foo"'
        )

    run(scenario)


def test_a_new_pod_gets_the_default_priority_class_of_the_moment() -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"

    async def priority(api: Api, name: str) -> tuple[int, str | None]:
        code, pod = await api.call("POST", PODS, {"metadata": {"name": name}, "spec": POD_SPEC})
        assert code == 201
        return pod["spec"]["priority"], pod["spec"].get("priorityClassName")

    async def scenario(api: Api) -> None:
        assert await priority(api, "before") == (0, None)
        usual = {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
        assert (await api.call("POST", classes, usual))[0] == 201
        assert await priority(api, "during") == (7, "usual")
        assert (await api.call("DELETE", f"{classes}/usual"))[0] == 200
        assert await priority(api, "after") == (0, None)

    run(scenario)
