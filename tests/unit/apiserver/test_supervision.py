"""What runs beside requests is never silently dead, and one part's failure costs no other anything."""

from __future__ import annotations

import asyncio
import json
import logging
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.storage import Durability, Event
from quarterdeck.apiserver.storage.log import Log
from quarterdeck.apiserver.supervision import Supervisor
from quarterdeck.testing import TestCluster, eventually

Json = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def ask(server: ApiServer, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    raw = b"" if body is None else json.dumps(body).encode()
    code, _, answer = await server.local().exchange(method, path, "", (), raw)
    try:
        return code, json.loads(answer)
    except ValueError:
        return code, answer.decode()


def hook(name: str, url: str) -> Json:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}
    webhook = {"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule]}
    return {"metadata": {"name": name}, "webhooks": [{**webhook, "clientConfig": {"url": url}}]}


def definition(url: str) -> Json:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
    ]
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": url}}
    spec = {
        "group": "ex.io",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": versions,
        "conversion": {"strategy": "Webhook", "webhook": webhook},
    }
    return {"metadata": {"name": "things.ex.io"}, "spec": spec}


ODD_URLS = [
    "https://127.0.0.1:99999/x",
    "https://127.0.0.1:0/x",
    "https://127.0.0.1:/x",
    "https://[::1]/x",
    "https://[::1]:99999999999999999999/x",
    "https://[fe80::1%25en0]:443/x",
    "https://a\u2100b/x",
    "https://a,b:1/x",
]


@pytest.mark.parametrize("url", ODD_URLS)
async def test_no_address_that_was_stored_prevents_a_start(tmp_path: Path, url: str) -> None:
    options = ServerOptions(data_dir=tmp_path)
    server = ApiServer(options)
    await server.start(listen=False)
    for path, document in ((HOOKS, hook("odd", url)), (CRDS, definition(url))):
        code, answer = await ask(server, "POST", path, document)
        assert code == 201, answer
    await server.stop()
    server = ApiServer(options)
    await server.start(listen=False)
    try:
        assert (await ask(server, "GET", "/readyz"))[0] == 200
        if "99999" in url:
            secrets = "/api/v1/namespaces/default/secrets"
            code, answer = await ask(server, "POST", secrets, {"metadata": {"name": "s"}})
            assert (code, answer["reason"]) == (500, "InternalError")
            assert re.search(r"dial tcp: address 99999\d*: invalid port$", answer["message"])
    finally:
        await server.stop()


async def test_an_object_that_an_index_cannot_take_stops_neither_a_start_nor_the_next_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    taken: list[str] = []

    def picky(chain: AdmissionChain, resource: str, name: str, obj: Json | None) -> None:
        if name == "bad":
            raise ValueError("a defect")
        taken.append(name)

    monkeypatch.setattr(AdmissionChain, "apply_change", picky)
    options = ServerOptions(data_dir=tmp_path)
    server = ApiServer(options)
    await server.start(listen=False)
    for name in ("bad", "good"):
        assert (await ask(server, "POST", HOOKS, hook(name, "https://127.0.0.1:1/x")))[0] == 201
    await server.stop()
    server = ApiServer(options)
    await server.start(listen=False)
    await server.stop()
    assert taken == ["good", "good"]
    failures = [each for each in caplog.records if each.message == "a stored object cannot take effect"]
    assert [(each.object, each.exc_info is not None) for each in failures] == [("bad", True)] * 2  # type: ignore[attr-defined]  # an extra


async def test_a_subscriber_that_raises_costs_nobody_an_event(
    cluster: TestCluster, caplog: pytest.LogCaptureFixture
) -> None:
    server = cluster.server

    def raises(events: list[Event]) -> None:
        raise ValueError("a defect")

    resource = server.table.get("", "v1", "configmaps")
    assert resource is not None
    resource.bucket.subscribers["raises"] = raises  # before the watch: it is told first
    _, _, stream = await server.local().open("GET", MAPS, "watch=1&timeoutSeconds=5", (), b"")
    for name in ("one", "two"):
        assert (await ask(server, "POST", MAPS, {"metadata": {"name": name}}))[0] == 201
    lines = b"".join([chunk async for chunk in stream]).splitlines()
    names = [json.loads(line)["object"]["metadata"]["name"] for line in lines]
    assert names[-2:] == ["one", "two"]
    assert [each.message for each in caplog.records].count("a subscriber failed") == 2


class Flaky:
    """A chore whose first rounds fail."""

    def __init__(self, *failures: bool) -> None:
        self._failures = iter(failures)
        self.rounds = 0
        self.due = asyncio.Event()

    async def work(self) -> None:
        self.rounds += 1
        self.due.clear()
        if next(self._failures, False):
            raise RuntimeError("a defect")

    async def wait(self) -> None:
        await self.due.wait()


async def test_a_chore_that_fails_is_logged_tried_again_and_not_well_until_it_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chores, flaky = Supervisor(), Flaky(False, True, True)
    await chores.start("flaky", flaky.work, flaky.wait)
    assert chores.checks() == {"flaky": True}
    flaky.due.set()
    await asyncio.sleep(0.1)
    assert chores.checks() == {"flaky": False}

    async def is_well() -> bool:
        return chores.checks()["flaky"]

    await eventually(is_well)
    assert flaky.rounds == 4
    assert [each.levelno for each in caplog.records] == [logging.ERROR] * 2
    await chores.stop()


@pytest.mark.parametrize("failure", [RuntimeError("a defect"), asyncio.CancelledError()])
async def test_a_chore_whose_wait_fails_goes_on(failure: BaseException) -> None:
    """Also when what it waited for was cancelled, not the chore itself."""
    chores, flaky = Supervisor(), Flaky()
    waits = 0

    async def wait() -> None:
        nonlocal waits
        waits += 1
        if waits == 1:
            raise failure
        await flaky.due.wait()

    await chores.start("flaky", flaky.work, wait)

    async def went_on() -> bool:
        return waits == 2 and chores.checks()["flaky"]

    await eventually(went_on)
    await chores.stop()


@pytest.mark.parametrize("chore", ["api-services", "compaction", "kubernetes-service", "crd-lifecycle"])
async def test_a_server_whose_chore_fails_is_not_ready_and_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chore: str
) -> None:
    place = {
        "api-services": "quarterdeck.apiserver.state.apiservices.LocalServices.sync",
        "compaction": "quarterdeck.apiserver.storage.Store.compact",
        "kubernetes-service": "quarterdeck.apiserver.state.ownservice.OwnService.sync",
        "crd-lifecycle": "quarterdeck.apiserver.crd.lifecycle.DefinitionLifecycle.sync",
    }[chore]

    owner, _, step = place.rpartition(".")
    real: Any = pkgutil.resolve_name(place)
    has_defect = True

    async def fails(chore: object) -> None:
        if has_defect:
            raise RuntimeError("a defect")
        await real(chore)

    monkeypatch.setattr(pkgutil.resolve_name(owner), step, fails)
    server = ApiServer(ServerOptions(data_dir=tmp_path))
    await server.start(listen=False)
    code, text = await ask(server, "GET", "/readyz")
    assert (code, f"[-]{chore} failed" in text) == (500, True)
    assert (await ask(server, "GET", "/livez"))[0] == 200
    has_defect = False

    async def is_ready() -> bool:
        return (await ask(server, "GET", "/readyz"))[0] == 200

    await eventually(is_ready)
    await server.stop()


@pytest.mark.parametrize(
    ("path", "code"), [("/foo/ping", 404), ("/ping", 404), ("/readyz/ping", 200), ("/healthz/ping", 200)]
)
async def test_only_probes_answer_pings(cluster: TestCluster, path: str, code: int) -> None:
    assert (await ask(cluster.server, "GET", path))[0] == code


def test_what_is_stored_is_for_its_owner_only(tmp_path: Path) -> None:
    for _ in range(2):  # a new one, and one that was made readable
        log = Log(tmp_path, Durability.FULL)
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.glob("state.db*")}
        log.close()
        assert set(modes.values()) == {0o600}, modes
        (tmp_path / "state.db").chmod(0o644)
