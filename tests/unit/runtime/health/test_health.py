"""Probes and metrics over HTTP, and who may read them."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ClusterRole, ClusterRoleBinding
from quarterdeck.api.k8s.rbac import PolicyRule, RoleRef, Subject
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.certificate import EphemeralCertificates
from quarterdeck.runtime.health import (
    AccessReviewer,
    HealthChecks,
    HealthServer,
    MetricsServer,
    access,
    parse_address,
)
from quarterdeck.runtime.health.access import AccessReviewer as Reviewer
from quarterdeck.runtime.health.server import is_loopback
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.testing import FaultPlan, Refuse
from quarterdeck.wire.http import Request, text
from tests.unit.runtime.servicekit import Web, client_of, embedded, link_to

pytestmark = pytest.mark.real_time


async def ask(checks: HealthChecks, path: str, query: str = "") -> tuple[int, str]:
    response = await checks.handle(Request("GET", path, query))
    return response.status, response.body.decode()


def fail() -> None:
    raise RuntimeError("disk full")


async def test_without_checks_a_ping_answers() -> None:
    checks = HealthChecks("healthz")
    assert await ask(checks, "/healthz") == (200, "ok")
    assert await ask(checks, "/healthz", "verbose") == (200, "[+]ping ok\nhealthz check passed\n")
    assert await ask(checks, "/healthz/ping") == (200, "ok")
    assert await ask(checks, "/healthz/other") == (404, "404 page not found\n")


async def test_failures_list_every_check_sorted_and_withhold_the_reason() -> None:
    checks = HealthChecks("readyz")
    checks.add("storage", fail)
    checks.add("caches", lambda: None)
    checks.add("lease", lambda: "renewed 40 s ago")
    assert await ask(checks, "/readyz") == (
        500,
        (
            "[+]caches ok\n[-]lease failed: reason withheld\n"
            "[-]storage failed: reason withheld\nhealthz check failed\n"
        ),
    )
    assert await ask(checks, "/readyz", "verbose=1") == (
        500,
        (
            "[+]caches ok\n[-]lease failed: renewed 40 s ago\n"
            "[-]storage failed: disk full\nhealthz check failed\n"
        ),
    )
    assert await ask(checks, "/readyz/storage") == (500, "internal server error: disk full\n")
    assert await ask(checks, "/readyz/caches/") == (200, "ok")


async def test_checks_can_be_excluded_and_unknown_exclusions_are_named() -> None:
    checks = HealthChecks("readyz")
    checks.add("bad", fail)
    checks.add("good", lambda: None)
    assert await ask(checks, "/readyz", "exclude=bad") == (200, "ok")
    assert await ask(checks, "/readyz", "exclude=bad&verbose") == (
        200,
        "[+]bad excluded: ok\n[+]good ok\nhealthz check passed\n",
    )
    assert await ask(checks, "/readyz", "exclude=x&exclude=y&verbose") == (
        500,
        (
            "[-]bad failed: disk full\n[+]good ok\n"
            'warn: some health checks cannot be excluded: no matches for "x","y"\nhealthz check failed\n'
        ),
    )


@pytest.mark.virtual_time
async def test_checks_may_wait_but_not_for_ever() -> None:
    async def slow() -> None:
        await asyncio.sleep(60)

    async def quick() -> str | None:
        await asyncio.sleep(1)
        return None

    checks = HealthChecks("healthz")
    checks.add_all({"slow": slow, "quick": quick})
    assert await checks.failures() == {"slow": "no answer within 10 s"}
    checks.remove("slow")
    assert await checks.failures() == {}
    with pytest.raises(ValueError, match='"quick" exists already'):
        checks.add("quick", slow)
    checks.add("quick", quick)  # itself


async def test_servers_listen_on_loopback_and_can_be_switched_off() -> None:
    metrics = RuntimeMetrics()
    metrics.controller("gang")
    async with (
        HealthServer("127.0.0.1:0", liveness=HealthChecks("livez")) as health,
        MetricsServer(
            metrics.registry, "127.0.0.1:0", extra={"/extra": lambda request: text(200, "more")}
        ) as served,
        HealthServer("0") as off,
    ):
        assert health.is_serving
        assert served.is_serving
        health.add("/extra", lambda request: text(200, "for all"))
        with pytest.raises(ConfigError, match="path /readyz is served already"):
            health.add("/readyz", lambda request: text(200, "ok"))
        assert not off.is_enabled
        assert off.is_serving, "nothing to wait for"
        web = await Web.connect(health.address[1], None)
        assert await web.send("GET", "/livez") == (200, b"ok")
        assert await web.send("GET", "/readyz?verbose") == (200, b"[+]ping ok\nhealthz check passed\n")
        assert (await web.send("GET", "/healthz"))[0] == 404
        assert await web.send("GET", "/extra") == (200, b"for all")
        await web.close()
        web = await Web.connect(served.address[1], None)
        status, body = await web.send("GET", "/metrics")
        assert status == 200
        assert b'controller_runtime_active_workers{controller="gang"} 0\n' in body
        assert await web.send("GET", "/extra") == (200, b"more")
        await web.close()
    assert HealthServer()._address == ("127.0.0.1", 8081)
    assert MetricsServer(metrics.registry)._address == ("127.0.0.1", 8080)


def test_addresses_and_extra_paths_are_checked() -> None:
    assert parse_address(":8080") == ("", 8080)
    assert parse_address("") is None
    with pytest.raises(ConfigError, match="invalid bind address"):
        parse_address("8080")
    server = MetricsServer(RuntimeMetrics().registry)
    with pytest.raises(ConfigError, match="overriding builtin /metrics endpoint is not allowed"):
        server.add("/metrics", lambda request: text(200, ""))
    server.add("/x", lambda request: text(200, ""))
    with pytest.raises(ConfigError, match="duplicate path /x"):
        server.add("/x", lambda request: text(200, ""))


async def grant_metrics(client: Any, user: str) -> None:
    rule = PolicyRule(non_resource_urls=("/metrics",), verbs=("get",))
    await client.create(ClusterRole(metadata=ObjectMeta(name="metrics-reader"), rules=(rule,)))
    await client.create(
        ClusterRoleBinding(
            metadata=ObjectMeta(name="metrics-reader"),
            role_ref=RoleRef(
                api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="metrics-reader"
            ),
            subjects=(Subject(kind="User", api_group="rbac.authorization.k8s.io", name=user),),
        )
    )


async def test_secure_metrics_ask_the_api_server_who_it_is_and_what_they_may(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('scraper-token,scraper,1,"monitoring"\nstranger-token,stranger,2,""\n')
    certificates = EphemeralCertificates()
    async with embedded(token_file=tokens) as api:
        client = client_of(api)
        await grant_metrics(client, "scraper")
        server = MetricsServer(
            RuntimeMetrics().registry,
            "127.0.0.1:0",
            certificates=certificates,
            reviewer=AccessReviewer(client),
        )
        async with server:
            context = ssl.create_default_context(cadata=certificates.bundle.decode())
            web = await Web.connect(server.address[1], context)

            async def get(token: str, path: str = "/metrics") -> tuple[int, bytes]:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                return await web.send("GET", path, b"", headers)

            assert await get("") == (401, b"Unauthorized\n")
            assert await get("wrong") == (401, b"Unauthorized\n")
            assert await get("stranger-token") == (403, b"Authorization denied for user stranger\n")
            status, body = await get("scraper-token")
            assert status == 200
            assert b"rest_client" not in body
            assert await web.send("POST", "/metrics", b"", {"Authorization": "Bearer scraper-token"}) == (
                403,
                b"Authorization denied for user scraper\n",
            )
            await web.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", server.address[1])
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.0 400 Bad Request")
            assert b"rest_client" not in answer
            writer.close()
            await writer.wait_closed()


def test_access_review_without_tls_is_refused() -> None:
    with pytest.raises(ConfigError, match="need TLS"):
        MetricsServer(RuntimeMetrics().registry, reviewer=AccessReviewer(None))  # type: ignore[arg-type]  # unused


@pytest.mark.virtual_time
async def test_reviews_are_remembered_for_as_long_as_upstream_does(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('scraper-token,scraper,1,"monitoring"\nstranger-token,stranger,2,""\n')
    async with embedded(token_file=tokens) as api:
        await grant_metrics(client_of(api), "scraper")
        link = link_to(api)
        reviewer = Reviewer(link.client, clock=LoopClock())

        async def get(token: str) -> int:
            refusal = await reviewer.refuse(
                Request("GET", "/metrics", "", {"authorization": f"Bearer {token}"})
            )
            return 200 if refusal is None else refusal.status

        def asked() -> list[str]:
            kinds = [each.target.resource.partition(".")[0] for each in link.log]
            link.log.clear()
            return kinds

        assert [await get("scraper-token") for _ in range(3)] == [200, 200, 200]
        assert asked() == ["tokenreviews", "subjectaccessreviews"]
        await asyncio.sleep(61)
        assert await get("scraper-token") == 200
        assert asked() == ["tokenreviews"], "tokens for a minute, permissions for five"
        await asyncio.sleep(240)
        assert await get("scraper-token") == 200
        assert asked() == ["tokenreviews", "subjectaccessreviews"]
        assert [await get("stranger-token") for _ in range(2)] == [403, 403]
        assert asked() == ["tokenreviews", "subjectaccessreviews"]
        await asyncio.sleep(31)
        assert await get("stranger-token") == 403
        assert asked() == ["subjectaccessreviews"], "denials for half a minute"
        link.cut()
        assert await get("unknown") == 500
        assert await get("scraper-token") == 200, "what is remembered still holds"


@pytest.mark.parametrize(
    ("address", "is_local"),
    [
        ("0", True),
        ("127.0.0.1:8080", True),
        ("[::1]:8080", True),
        ("localhost:8080", True),
        (":8080", False),
        ("0.0.0.0:8080", False),
        ("example.com:8080", False),
    ],
)
def test_an_address_is_local_if_only_this_machine_reaches_it(address: str, is_local: bool) -> None:
    assert is_loopback(address) is is_local


def test_of_paths_that_end_with_a_slash_the_longest_serves_what_is_below() -> None:
    server = MetricsServer(RuntimeMetrics().registry)
    for path in ("/debug/", "/debug/deep/", "/plain"):
        server.add(path, lambda request: text(200, ""))
    find, routes = server._find, server._routes
    assert find("/debug/x") is routes["/debug/"]
    assert find("/debug/deep/x") is routes["/debug/deep/"]
    assert find("/plain") is routes["/plain"]
    assert find("/plain/x") is None
    assert find("/elsewhere") is None


def test_a_health_server_finds_a_check_by_the_first_step_of_its_path() -> None:
    server = HealthServer("127.0.0.1:0")
    assert server._find("/readyz") is server._find("/readyz/cache") is server._find("/readyz/a/b")
    assert server._find("/readyz") is not None
    assert server._find("/cache/readyz") is None


@pytest.mark.virtual_time
async def test_who_cannot_be_authorized_now_is_told_so_and_not_refused(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('scraper-token,scraper,1,""\n')
    broken = FaultPlan(0, Refuse(500, resources=frozenset({"subjectaccessreviews.authorization.k8s.io"})))
    async with embedded(token_file=tokens) as api:
        reviewer = Reviewer(link_to(api, broken).client, clock=LoopClock())
        headers = {"authorization": "Bearer scraper-token"}
        refusal = await reviewer.refuse(Request("GET", "/metrics", "", headers))
        assert refusal is not None
        assert (refusal.status, refusal.body) == (500, b"Authorization for user scraper failed\n")


def test_of_many_answers_the_oldest_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_REMEMBERED", 2)
    answers: access._Remembered[int] = access._Remembered()
    for place, name in enumerate(("a", "b", "a", "c")):
        answers.keep((name,), place, until=10.0)
    assert [answers.find((name,), now=9.0) for name in ("a", "b", "c")] == [(2,), None, (3,)]
    assert answers.find(("a",), now=10.0) is None
