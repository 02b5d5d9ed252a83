"""A write that is overtaken: by its definition, by its object, by its deadline while it goes to the disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.apiserver.status import StatusError
from quarterdeck.testing import eventually

from .test_definition_changes import MERGE, NAMED, TEXT, THINGS, Api, definition, thing, version

Json = dict[str, Any]
pytestmark = pytest.mark.real_time  # commits happen in a thread
APPLY = "application/apply-patch+yaml"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
BEFORE = version("v1", {"a": TEXT})
AFTER = version("v1", {"a": TEXT, "b": TEXT})


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    server = ApiServer(ServerOptions(data_dir=tmp_path))
    await server.start(listen=False)
    yield Api(server)
    await server.stop()


class Admission:
    """Keeps the first question about a resource waiting; `refuses` judges all of them."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch, resource: str) -> None:
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self.refuses: Callable[[Any], bool] = lambda _: False
        chain = api.server.admission

        async def validate(attributes: Any) -> None:
            if attributes.resource != resource:
                return
            refused = self.refuses(attributes)
            if not self.asked.is_set():
                self.asked.set()
                await self.go_on.wait()
            if refused:
                raise StatusError(403, "no", reason="Forbidden")

        monkeypatch.setattr(chain, "needs_admission", lambda *_: True)
        monkeypatch.setattr(chain, "validate", validate)


async def change_definition(api: Api) -> None:
    assert (await api("PATCH", NAMED, {"spec": {"versions": [AFTER]}}, MERGE))[0] == 200


async def make_definition_again(api: Api) -> None:
    await api("PATCH", f"{THINGS}/t", {"metadata": {"finalizers": None}}, MERGE)
    await api("DELETE", NAMED)

    async def is_gone() -> bool:
        return (await api("GET", NAMED))[0] == 404

    await eventually(is_gone)
    await api.define(definition(AFTER))
    assert (await api("POST", THINGS, thing("t", "ex.io/f", a="1")))[0] == 201


WRITES: dict[str, tuple[str, Any, str, str]] = {
    "merge patch": ("PATCH", {"spec": {"a": "2"}}, MERGE, ""),
    "json patch": (
        "PATCH",
        [{"op": "replace", "path": "/spec/a", "value": "2"}],
        "application/json-patch+json",
        "",
    ),
    "apply": (
        "PATCH",
        {"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": "2"}},
        APPLY,
        "fieldManager=m&force=true",
    ),
    "delete": ("DELETE", None, "application/json", ""),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("overtake", [change_definition, make_definition_again])
async def test_a_write_under_way_keeps_fields_that_its_definition_gains(
    api: Api, monkeypatch: pytest.MonkeyPatch, write: str, overtake: Callable[[Api], Any]
) -> None:
    await api.define(definition(BEFORE))
    assert (await api("POST", THINGS, thing("t", "ex.io/f", a="1")))[0] == 201
    admission = Admission(api, monkeypatch, "things")
    method, body, media, query = WRITES[write]
    writing = asyncio.create_task(api(method, f"{THINGS}/t", body, media, query))
    await admission.asked.wait()
    await overtake(api)
    assert (await api("PATCH", f"{THINGS}/t", {"spec": {"b": "new"}}, MERGE))[0] == 200
    admission.go_on.set()
    assert (await writing)[0] == 200
    _, stored = await api("GET", f"{THINGS}/t")
    assert stored["spec"] == {"a": "1" if write == "delete" else "2", "b": "new"}
    assert ("deletionTimestamp" in stored["metadata"]) is (write == "delete")


async def test_a_create_under_way_is_stored_as_its_definition_has_it_by_then(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.define(definition(BEFORE))
    admission = Admission(api, monkeypatch, "things")
    creating = asyncio.create_task(api("POST", THINGS, thing("t", a="1", b="new")))
    await admission.asked.wait()
    await change_definition(api)
    admission.go_on.set()
    code, made = await creating
    assert (code, made["spec"]) == (201, {"a": "1", "b": "new"})


@pytest.mark.parametrize("name", ["/m", ""])
async def test_a_deletion_is_asked_about_again_when_the_object_has_changed(
    api: Api, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whoever allowed it has not seen that the object is protected by now."""
    assert (await api("POST", MAPS, {"metadata": {"name": "m"}}))[0] == 201
    admission = Admission(api, monkeypatch, "configmaps")
    admission.refuses = lambda asked: (
        asked.operation == "DELETE" and "protected" in (asked.old_object["metadata"].get("labels") or {})
    )
    deleting = asyncio.create_task(api("DELETE", MAPS + name))
    await admission.asked.wait()
    protect = {"metadata": {"labels": {"protected": ""}}}
    assert (await api("PATCH", f"{MAPS}/m", protect, MERGE))[0] == 200
    admission.go_on.set()
    assert (await deleting)[0] == 403
    assert (await api("GET", f"{MAPS}/m"))[0] == 200


class SlowDisk:
    """A batch with the object `slow` in it stays on its way until it may go on."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self._begun, self.go_on = threading.Event(), threading.Event()
        log = api.server.store._log
        append = log.append

        def held(rows: Any) -> None:
            if any(row.key.endswith("/slow") for row in rows):
                self._begun.set()
                self.go_on.wait(10)
            append(rows)

        monkeypatch.setattr(log, "append", held)

    async def begun(self) -> None:
        async def has_begun() -> bool:
            return self._begun.is_set()

        await eventually(has_begun)


@pytest.fixture
def disk(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    slow = SlowDisk(api, monkeypatch)
    yield slow
    slow.go_on.set()


def service(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def test_what_is_being_stored_for_a_client_that_has_gone_keeps_its_address(
    api: Api, disk: SlowDisk
) -> None:
    creating = asyncio.create_task(api("POST", SERVICES, service("slow", clusterIP="10.0.0.77")))
    await disk.begun()
    creating.cancel()
    await asyncio.sleep(0)
    second = asyncio.create_task(api("POST", SERVICES, service("second", clusterIP="10.0.0.77")))
    code, answer = await asyncio.wait_for(second, 5)
    assert code == 422, answer
    disk.go_on.set()
    await asyncio.gather(creating, return_exceptions=True)
    assert creating.cancelled(), "an in-process client that is cancelled ends"
    assert (await api("GET", f"{SERVICES}/slow"))[0] == 200


@pytest.mark.parametrize(
    ("method", "name", "code"), [("POST", "", 201), ("PUT", "/slow", 200), ("DELETE", "/slow", 200)]
)
async def test_what_was_stored_after_all_is_answered_although_its_time_is_up(
    api: Api, monkeypatch: pytest.MonkeyPatch, method: str, name: str, code: int
) -> None:
    if name:
        assert (await api("POST", MAPS, {"metadata": {"name": "slow"}}))[0] == 201
    disk = SlowDisk(api, monkeypatch)
    body = None if method == "DELETE" else {"metadata": {"name": "slow"}, "data": {"k": "v"}}
    writing = asyncio.create_task(api(method, MAPS + name, body, query="timeout=50ms"))
    await disk.begun()
    await asyncio.sleep(0.1)
    assert not writing.done()
    disk.go_on.set()
    assert (await writing)[0] == code
    _, found = await api("GET", f"{MAPS}/slow")
    assert found.get("data") == (None if method == "DELETE" else {"k": "v"})


async def test_a_pod_that_was_removed_after_all_is_answered_although_its_time_is_up(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    assert (await api("POST", PODS, {"metadata": {"name": "slow"}, "spec": spec}))[0] == 201
    disk = SlowDisk(api, monkeypatch)
    deleting = asyncio.create_task(api("DELETE", f"{PODS}/slow", query="timeout=50ms&gracePeriodSeconds=0"))
    await disk.begun()
    await asyncio.sleep(0.1)
    disk.go_on.set()
    assert (await deleting)[0] == 200
    assert (await api("GET", f"{PODS}/slow"))[0] == 404


async def test_a_write_whose_client_has_gone_before_its_turn_is_not_charged(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes wait for the quota while another one is being charged."""
    quotas = "/api/v1/namespaces/default/resourcequotas"
    assert (await api("POST", quotas, {"metadata": {"name": "slow"}, "spec": {"hard": {"configmaps": "9"}}}))[
        0
    ] == 201
    status = {"status": {"hard": {"configmaps": "9"}, "used": {"configmaps": "0"}}}
    assert (await api("PATCH", f"{quotas}/slow/status", status, MERGE))[0] == 200
    disk = SlowDisk(api, monkeypatch)
    first = asyncio.create_task(api("POST", MAPS, {"metadata": {"name": "first"}}))
    await disk.begun()
    second = asyncio.create_task(api("POST", MAPS, {"metadata": {"name": "second"}}))
    await asyncio.sleep(0.05)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    disk.go_on.set()
    assert (await first)[0] == 201
    assert (await api("POST", MAPS, {"metadata": {"name": "third"}}))[0] == 201
    _, quota = await api("GET", f"{quotas}/slow")
    assert quota["status"]["used"] == {"configmaps": "2"}
