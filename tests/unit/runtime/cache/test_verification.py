"""What the consistency probe finds when it compares a store with the server's list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import pytest

from quarterdeck.api.kind import GroupVersionResource
from quarterdeck.client.call import Call
from quarterdeck.client.transport import Stream
from quarterdeck.errors import ApiError, Gone
from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.store import Store
from quarterdeck.runtime.cache.verification import find_differences
from tests.unit.runtime.widgetcluster import WIDGET

CALL = Call("list", WIDGET, GroupVersionResource("example.com", "v1", "widgets"), True)


def document(name: str, version: str = "1", uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": version}}


def entry(name: str, version: str = "1", uid: str = "u") -> Entry:
    return EntryFactory().make(msgspec.json.encode(document(name, version, uid)))


def store_of(*entries: Entry, version: str = "7") -> Store:
    store = Store(lambda old, new: None)
    for each in entries:
        store.put(each)
    store.version = version
    return store


class Server:
    """Answers each list with the same objects, and does something meanwhile."""

    def __init__(self, *items: dict[str, Any], meanwhile: Callable[[], object] = lambda: None) -> None:
        self.asked: list[Call] = []
        self._items: Sequence[dict[str, Any]] = items
        self._meanwhile = meanwhile

    async def open(self, call: Call) -> Stream:
        self.asked.append(call)
        return Stream(200, self._chunks())

    async def _chunks(self) -> AsyncIterator[bytes]:
        self._meanwhile()
        yield msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": self._items})


class Refusing:
    def __init__(self, error: ApiError) -> None:
        self._error = error

    async def open(self, call: Call) -> Stream:
        raise self._error


def refusal(code: int) -> ApiError:
    return ApiError("no", code=code)


async def problems(server: Server, store: Store) -> dict[str, str]:
    found = await find_differences(opener=server, call=CALL, store=store)
    assert found is not None
    return {f"{each.namespace}/{each.name}": each.problem for each in found}


async def test_missing_gone_outdated_and_recreated_objects_are_told_apart() -> None:
    store = store_of(entry("same"), entry("gone"), entry("old"), entry("again"))
    server = Server(document("same"), document("old", "2"), document("again", uid="v"), document("missed"))
    assert await problems(server, store) == {
        "ns/gone": "gone",
        "ns/old": "outdated",
        "ns/again": "outdated",
        "ns/missed": "missing",
    }


async def test_what_changed_while_the_answer_travelled_is_no_difference() -> None:
    store = store_of(entry("moved"))

    def change() -> None:
        store.put(entry("moved", "3"))
        store.put(entry("born"))

    server = Server(document("moved", "2"), document("born"), meanwhile=change)
    assert await problems(server, store) == {}


async def test_the_list_is_asked_for_at_exactly_the_stores_version_with_its_selectors() -> None:
    server = Server()
    selectors = (("labelSelector", "a=b"), ("fieldSelector", "metadata.name=x"))
    call = msgspec.structs.replace(CALL, query=(*selectors, ("limit", "500")))
    assert await find_differences(opener=server, call=call, store=store_of()) == []
    (asked,) = server.asked
    assert asked.query == (*selectors, ("resourceVersion", "7"), ("resourceVersionMatch", "Exact"))
    assert "PartialObjectMetadataList" in asked.accept


@pytest.mark.parametrize("version", ["", "0", "abc"])
async def test_a_store_without_a_version_is_not_compared(version: str) -> None:
    server = Server()
    assert await find_differences(opener=server, call=CALL, store=store_of(version=version)) is None
    assert server.asked == []


@pytest.mark.parametrize("error", [Gone("too old"), refusal(400), refusal(422)], ids=repr)
async def test_a_server_that_cannot_answer_an_exact_list_proves_nothing(error: ApiError) -> None:
    assert await find_differences(opener=Refusing(error), call=CALL, store=store_of()) is None


@pytest.mark.parametrize("code", [399, 401, 403, 421, 423, 500])
async def test_any_other_error_is_passed_on(code: int) -> None:
    with pytest.raises(ApiError):
        await find_differences(opener=Refusing(refusal(code)), call=CALL, store=store_of())
