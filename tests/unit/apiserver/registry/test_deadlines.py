"""A request that is over, because its time is up or its client has gone, stores nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.testing import TestCluster
from tests.unit.apiserver.admission.hookendpoint import admission, hook_endpoint

Json = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MERGE = "application/merge-patch+json"
TOO_LATE = "Timeout: request did not complete within the allotted timeout"


async def ask(
    cluster: TestCluster, method: str, path: str, body: Any = None, query: str = "", media: str = ""
) -> tuple[int, Json]:
    raw = b"" if body is None else json.dumps(body).encode()
    headers = (("Content-Type", media or "application/json"),)
    code, _, answer = await cluster.server.local().exchange(method, path, query, headers, raw)
    found: Json = json.loads(answer)
    return code, found


def hang(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Admission never answers; the events tell that it was asked, and that the asking was given up."""
    asked, given_up = asyncio.Event(), asyncio.Event()

    async def never(attributes: Any) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    monkeypatch.setattr(cluster.server.admission, "needs_admission", lambda *_: True)
    monkeypatch.setattr(cluster.server.admission, "validate", never)
    return asked, given_up


@pytest.mark.parametrize(
    ("method", "name", "media"),
    [
        ("POST", "", ""),
        ("PUT", "/old", ""),
        ("PATCH", "/old", MERGE),
        ("DELETE", "/old", ""),
        ("DELETE", "", ""),
    ],
)
@pytest.mark.parametrize(("query", "seconds"), [("timeout=2s", 2), ("timeout=100h", 60), ("", 60)])
async def test_a_write_that_takes_too_long_stores_nothing(
    cluster: TestCluster,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    name: str,
    media: str,
    query: str,
    seconds: float,
) -> None:
    await ask(cluster, "POST", MAPS, {"metadata": {"name": "old"}})
    rev = cluster.server.store.rev
    _, given_up = hang(cluster, monkeypatch)
    body = {"metadata": {"name": "new" if method == "POST" else "old"}, "data": {"k": "v"}}
    loop = asyncio.get_running_loop()
    began = loop.time()
    code, answer = await ask(cluster, method, MAPS + name, None if method == "DELETE" else body, query, media)
    assert loop.time() - began == pytest.approx(seconds, abs=0.1)
    assert (code, answer["reason"], answer["message"]) == (504, "Timeout", TOO_LATE)
    assert given_up.is_set()
    await asyncio.sleep(1)
    assert cluster.server.store.rev == rev


@pytest.mark.parametrize(
    ("text", "why"),
    [("abc", 'time: invalid duration "abc"'), ("5", 'time: missing unit in duration "5"')],
)
async def test_what_is_no_duration_is_refused_except_by_watches(
    cluster: TestCluster, text: str, why: str
) -> None:
    code, answer = await ask(cluster, "GET", MAPS, query=f"timeout={text}")
    assert code == 400
    assert answer["message"] == f"invalid timeout specified in the request URL - {why}"
    code, _, _ = await cluster.server.local().exchange(
        "GET", MAPS, f"watch=1&timeoutSeconds=1&timeout={text}", (), b""
    )
    assert code == 200


@pytest.mark.parametrize("text", ["0s", "-1s", "1h", ""])
async def test_odd_durations_mean_the_usual_time(cluster: TestCluster, text: str) -> None:
    assert (await ask(cluster, "POST", MAPS, {"metadata": {"name": "m"}}, f"timeout={text}"))[0] == 201


@pytest.mark.real_time
async def test_a_webhook_slower_than_the_client_allows_is_not_waited_for(
    cluster: TestCluster,
) -> None:
    go_on = asyncio.Event()

    async def late(path: str, body: bytes) -> bytes:
        await go_on.wait()
        return admission(body)

    async with hook_endpoint(lambda path, body: late(path, body)) as hook:
        rule = {
            "operations": ["CREATE"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
        }
        webhook = {
            "name": "a.b.c",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": hook.config(),
            "rules": [rule],
        }
        await ask(cluster, "POST", HOOKS, {"metadata": {"name": "h"}, "webhooks": [webhook]})
        code, answer = await ask(cluster, "POST", MAPS, {"metadata": {"name": "m"}}, "timeout=300ms")
        assert (code, answer["message"]) == (504, TOO_LATE)
        assert hook.requests[0][0].endswith("?timeout=1s"), "rounded up"
        go_on.set()
        await ask(cluster, "POST", MAPS, {"metadata": {"name": "n"}})
        assert hook.requests[1][0].endswith("?timeout=10s")
        await asyncio.sleep(0.1)
    assert (await ask(cluster, "GET", f"{MAPS}/m"))[0] == 404


@pytest.mark.real_time
async def test_a_client_that_has_gone_stores_nothing(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked, given_up = hang(cluster, monkeypatch)
    await cluster.server.listen_privately(tmp_path / "socket")
    _, writer = await asyncio.open_unix_connection(tmp_path / "socket")
    body = json.dumps({"metadata": {"name": "m"}}).encode()
    writer.write(
        f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    async with asyncio.timeout(10):
        await asked.wait()
        writer.close()
        await given_up.wait()
    assert (await ask(cluster, "GET", f"{MAPS}/m"))[0] == 404


async def test_a_pod_whose_deletion_is_abandoned_halfway_is_gone_as_a_whole(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is marked first and removed then: nobody would remove one that is only marked."""
    pods = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await ask(cluster, "POST", pods, {"metadata": {"name": "p"}, "spec": spec})
    store, half = cluster.server.store, asyncio.Event()
    delete = store.delete

    def halfway(*args: Any, **more: Any) -> Any:
        half.set()
        return delete(*args, **more)

    monkeypatch.setattr(store, "delete", halfway)
    deleting = asyncio.create_task(ask(cluster, "DELETE", f"{pods}/p", query="gracePeriodSeconds=0"))
    await half.wait()
    deleting.cancel()
    await asyncio.gather(deleting, return_exceptions=True)
    await asyncio.sleep(1)
    assert (await ask(cluster, "GET", f"{pods}/p"))[0] == 404
