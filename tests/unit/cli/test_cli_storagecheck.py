"""What `quarterdeck check storage` promises to find, and that a server which is written to has none of it."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.cli.check.storage import (
    Listing,
    Seen,
    StorageChange,
    compare_exact,
    find_storage_faults,
    look_at,
    replay,
)
from quarterdeck.cli.main import main
from quarterdeck.client import Client, MergePatch
from quarterdeck.testing import FaultPlan, Latency, TestCluster

A, B = Seen("uid-a", 3, b"a"), Seen("uid-b", 5, b"b")
FIRST = Listing(5, {"a": A, "b": B}, [])


def test_a_list_has_each_object_once_and_nothing_newer() -> None:
    assert list(look_at("X", FIRST)) == []
    [twice] = look_at("X", FIRST._replace(twice=["with UID uid-a"]))
    assert (twice.invariant, twice.object) == ("storage/one-value", "X with UID uid-a")
    [newer] = look_at("X", FIRST._replace(version=4))
    assert newer.problem == "has version 5 in a list of version 4"


def test_two_lists_of_one_version_are_the_same() -> None:
    assert list(compare_exact("X", FIRST, FIRST)) == []
    other = FIRST._replace(objects={"a": A._replace(digest=b"other")})
    assert [each.object for each in compare_exact("X", FIRST, other)] == ["X a", "X b"]


def test_a_watch_leads_from_one_list_to_the_next() -> None:
    changed, new = A._replace(version=6, digest=b"a2"), Seen("uid-c", 8, b"c")
    changes = [
        StorageChange("a", changed, False),
        StorageChange("b", B._replace(version=7), True),
        StorageChange("c", new, False),
    ]
    last = Listing(8, {"a": changed, "c": new}, [])
    assert list(replay("X", FIRST, changes, last)) == []
    assert [each.object for each in replay("X", FIRST, changes[:2], last)] == ["X c"]
    assert [each.problem for each in replay("X", FIRST, [changes[0], *changes], last)] == [
        "comes at version 6 after 6"
    ]
    later = StorageChange("a", changed._replace(version=9), False)
    assert list(replay("X", FIRST, [*changes, later], last)) == []


async def write(client: Client) -> None:
    for number in itertools.count():
        metadata = ObjectMeta(name=f"c-{number}", namespace="default")
        made = await client.create(ConfigMap(metadata=metadata))
        await asyncio.sleep(0.002)
        await client.patch(made, MergePatch({"data": {"n": str(number)}}))
        if number % 3:
            await client.delete(made)


@pytest.mark.virtual_time
async def test_a_server_keeps_its_promises_while_it_is_written_to() -> None:
    async with TestCluster() as cluster:
        slow = cluster.link(FaultPlan(1, Latency((0.005, 0.02))), name="checker")
        writing = asyncio.create_task(write(cluster.client))
        assert await find_storage_faults(slow.client) == []
        writing.cancel()
        await asyncio.wait([writing])
        watched = {each.target.resource for each in slow.log if each.verb == "watch"}
        assert watched == {"configmaps"}  # nothing else has changed between two lists


def test_the_promises_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--list", "storage"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == [
        "storage/exact-list",
        "storage/list-version",
        "storage/one-value",
        "storage/watch",
    ]
