"""What a write took and did not store is free again, however the write ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quarterdeck.apiserver import ApiServer
from quarterdeck.apiserver.resource.serviceallocator import AddressPool
from quarterdeck.apiserver.status import StatusError

Json = dict[str, Any]
SERVICES = "/api/v1/namespaces/default/services"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


def service(name: str, **spec: Any) -> Json:
    meta = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"ports": [{"port": 80}], **spec},
    }


class Api:
    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def __call__(
        self, method: str, path: str, body: Any = None, media: str = "application/json", query: str = ""
    ) -> tuple[int, Any]:
        raw = b"" if body is None else json.dumps(body).encode()
        headers = (("Content-Type", media),)
        code, _, answer = await self.server.local().exchange(method, path, query, headers, raw)
        return code, json.loads(answer)

    def held(self) -> set[object]:
        pool = self.server.cluster.service_allocator
        assert isinstance(pool, AddressPool)
        return set(pool._holders)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    server = ApiServer()
    await server.start(listen=False)
    yield Api(server)
    await server.stop()


PORTS = [{"port": 80, "nodePort": 30010}]
BAD = {"type": "NodePort", "sessionAffinity": "Nonsense"}
GOOD = {"type": "NodePort"}
#: method, name, body, media type, query; all but those of dry runs are refused by validation
REFUSED: dict[str, tuple[str, str, Json, str, str]] = {
    "create": ("POST", "", service("new", **BAD), "application/json", ""),
    "create, dry run": ("POST", "", service("new", **GOOD), "application/json", "dryRun=All"),
    "create of a certain port": ("POST", "", service("new", **BAD, ports=PORTS), "application/json", ""),
    "generated name": (
        "POST",
        "",
        {**service("x", **BAD), "metadata": {"generateName": "new-"}},
        "application/json",
        "",
    ),
    "create by update": ("PUT", "new", service("new", **BAD), "application/json", ""),
    "update": ("PUT", "old", service("old", **BAD), "application/json", ""),
    "update, dry run": ("PUT", "old", service("old", **GOOD), "application/json", "dryRun=All"),
    "patch": ("PATCH", "old", {"spec": BAD}, MERGE, ""),
    "patch, dry run": ("PATCH", "old", {"spec": GOOD}, MERGE, "dryRun=All"),
    "create by apply": ("PATCH", "new", service("new", **BAD), APPLY, "fieldManager=m"),
    "apply": ("PATCH", "old", service("old", **BAD), APPLY, "fieldManager=m&force=true"),
    "apply, dry run": ("PATCH", "old", service("old", **GOOD), APPLY, "fieldManager=m&force=true&dryRun=All"),
    "a version that is old": (
        "PUT",
        "old",
        {**service("old", **GOOD), "metadata": {"name": "old", "resourceVersion": "1"}},
        "application/json",
        "",
    ),
    "a health check port": (
        "PATCH",
        "old",
        {"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "sessionAffinity": "Nonsense"}},
        MERGE,
        "",
    ),
}


@pytest.mark.parametrize("write", REFUSED)
async def test_a_write_that_is_not_stored_leaves_nothing_taken(api: Api, write: str) -> None:
    assert (await api("POST", SERVICES, service("old")))[0] == 201
    before = api.held()
    method, name, body, media, query = REFUSED[write]
    code, answer = await api(method, f"{SERVICES}/{name}".rstrip("/"), body, media, query)
    assert (code in (200, 201)) is ("dryRun" in query), answer
    assert api.held() == before


@pytest.mark.parametrize("write", ["create, dry run", "update, dry run", "patch, dry run", "apply, dry run"])
async def test_a_write_that_admission_denies_leaves_nothing_taken(
    api: Api, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await api("POST", SERVICES, service("old")))[0] == 201
    before = api.held()

    async def deny(attributes: Any) -> None:
        raise StatusError(403, "no", reason="Forbidden")

    monkeypatch.setattr(api.server.admission, "needs_admission", lambda *_: True)
    monkeypatch.setattr(api.server.admission, "validate", deny)
    method, name, body, media, query = REFUSED[write]
    query = query.replace("dryRun=All", "")
    code, _ = await api(method, f"{SERVICES}/{name}".rstrip("/"), body, media, query)
    assert code == 403
    assert api.held() == before


async def test_a_write_whose_client_is_gone_leaves_nothing_taken(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = api.held()
    asked = asyncio.Event()

    async def hang(attributes: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(api.server.admission, "needs_admission", lambda *_: True)
    monkeypatch.setattr(api.server.admission, "validate", hang)
    writing = asyncio.create_task(api("POST", SERVICES, service("new", type="NodePort")))
    await asked.wait()
    assert api.held() > before
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert api.held() == before


async def test_a_create_that_comes_second_leaves_nothing_taken(api: Api) -> None:
    assert (await api("POST", SERVICES, service("old", type="NodePort")))[0] == 201
    before = api.held()
    assert (await api("POST", SERVICES, service("old", type="NodePort")))[0] == 409
    assert api.held() == before


async def test_what_is_stored_stays_taken_until_it_is_deleted(api: Api) -> None:
    before = api.held()
    _, made = await api("POST", SERVICES, service("new"))
    assert api.held() == before | {made["spec"]["clusterIP"]}
    _, made = await api("PATCH", f"{SERVICES}/new", {"spec": {"type": "NodePort"}}, MERGE)
    assert api.held() == before | {made["spec"]["clusterIP"], made["spec"]["ports"][0]["nodePort"]}
    _, made = await api("PATCH", f"{SERVICES}/new", {"spec": {"type": "ClusterIP"}}, MERGE)
    assert api.held() == before | {made["spec"]["clusterIP"]}
    await api("DELETE", f"{SERVICES}/new")
    assert api.held() == before


LOCAL = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}


async def test_a_health_check_port_that_is_asked_for_belongs_to_one_service(api: Api) -> None:
    """Statuses and texts are those of kube-apiserver 1.36.3."""

    async def create(name: str, **spec: Any) -> str:
        code, answer = await api("POST", SERVICES, service(name, **spec))
        return "" if code == 201 else f"{code} {answer['message'].rpartition('NodePort ')[2]}"

    taken = "provided port is already allocated"
    assert await create("a", **LOCAL, healthCheckNodePort=31111) == ""
    assert await create("b", **LOCAL, healthCheckNodePort=31111) == f"500 31111: {taken}"
    ports = [{"port": 1, "nodePort": 31112}]
    assert await create("c", **LOCAL, healthCheckNodePort=31112, ports=ports) == f"500 31112: {taken}"
    assert (await create("d", **LOCAL, healthCheckNodePort=80)).startswith("500 80: provided port is not in")
    code, answer = await api(
        "PATCH", f"{SERVICES}/a", {"spec": {"ports": [{"port": 80, "nodePort": 31111}]}}, MERGE
    )
    assert (code, answer["message"].endswith(f"31111: {taken}")) == (422, True)
    assert await create("e", **LOCAL, allocateLoadBalancerNodePorts=False) == ""
    assert (await api("GET", f"{SERVICES}/e"))[1]["spec"]["healthCheckNodePort"]
    await api("PATCH", f"{SERVICES}/a", {"spec": {"type": "ClusterIP", "externalTrafficPolicy": None}}, MERGE)
    assert await create("f", **LOCAL, healthCheckNodePort=31111) == ""


async def test_applies_that_create_an_object_at_once_all_succeed(api: Api) -> None:
    def body(number: int) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "m"},
            "data": {f"k{number}": "v"},
        }

    answers = await asyncio.gather(
        *(api("PATCH", f"{MAPS}/m", body(number), APPLY, f"fieldManager=m{number}") for number in range(5))
    )
    assert sorted(code for code, _ in answers) == [200, 200, 200, 200, 201]
    _, stored = await api("GET", f"{MAPS}/m")
    assert stored["data"] == {f"k{number}": "v" for number in range(5)}
