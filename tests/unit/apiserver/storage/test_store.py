"""The store's invariants: durable before visible, ordered, never reused, exact history."""

import asyncio
import sqlite3
from collections.abc import Coroutine
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.apiserver.storage import (
    Compacted,
    Durability,
    Event,
    EventType,
    StorageError,
    StorageLocked,
    Store,
    WriteConflict,
    encode_value,
)
from quarterdeck.apiserver.storage.store import ANY


def value(name: str, **data: str) -> bytes:
    return encode_value({"metadata": {"name": name, "labels": {"app": name}}, "data": data})


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_new_object_gets_the_next_revision_and_carries_it_in_its_text() -> None:
    async def scenario() -> None:
        store = Store()
        bucket = store.bucket("", "things", namespaced=True)
        first = await store.put(bucket, "a", "x", value("x"), expected=0)
        second = await store.put(bucket, "a", "y", value("y"), expected=0)
        assert (first.rev, second.rev) == (1, 2)
        assert second.document()["metadata"] == {"resourceVersion": "2", "name": "y", "labels": {"app": "y"}}
        await store.close()

    run(scenario())


def test_who_is_told_of_a_write_finds_its_mark() -> None:
    async def scenario() -> None:
        store, schema = Store(), object()
        bucket = store.bucket("", "things", namespaced=True)
        seen: list[object] = []
        bucket.subscribers["test"] = lambda events: seen.extend(event.entry.mark for event in events)
        entry = await store.put(bucket, "a", "x", value("x"), expected=0, mark=schema)
        assert seen == [schema]
        assert entry.at(7).mark is schema
        await store.close()

    run(scenario())


def test_an_object_that_exists_is_not_created_again() -> None:
    async def scenario() -> None:
        store = Store()
        bucket = store.bucket("", "things", namespaced=True)
        entry = await store.put(bucket, "a", "x", value("x"), expected=0)
        with pytest.raises(WriteConflict) as lost:
            await store.put(bucket, "a", "x", value("x"), expected=0)
        assert lost.value.current is entry
        assert store.rev == 1
        await store.close()

    run(scenario())


def test_of_two_writes_against_one_revision_in_a_batch_exactly_one_wins() -> None:
    async def scenario() -> None:
        store = Store()
        bucket = store.bucket("", "things", namespaced=True)
        entry = await store.put(bucket, "a", "x", value("x"), expected=0)
        writes = [store.put(bucket, "a", "x", value("x", k=str(n)), expected=entry.rev) for n in range(5)]
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(result).__name__ for result in results].count("Entry") == 1
        assert store.rev == 2
        await store.close()

    run(scenario())


def test_nothing_is_visible_before_it_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        store = Store(tmp_path, Durability.FULL)
        bucket = store.bucket("", "things", namespaced=True)
        append = store._log.append
        seen = []

        def look_then_append(rows: Any) -> None:
            seen.append(bucket.get("a", "x"))
            append(rows)

        monkeypatch.setattr(store._log, "append", look_then_append)
        entry = await store.put(bucket, "a", "x", value("x"), expected=0)
        assert seen == [None]
        assert bucket.get("a", "x") is entry
        await store.close()

    run(scenario())


def test_everything_is_there_after_a_restart_and_revisions_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store(tmp_path)
        bucket = store.bucket("g.io", "things", namespaced=True)
        await store.put(bucket, "a", "x", value("x", k="1"), expected=0)
        await store.put(bucket, "a", "y", value("y"), expected=0)
        await store.put(bucket, "a", "x", value("x", k="2"), expected=1)
        await store.delete(bucket, "a", "y", expected=2, value=value("y"))
        await store.close()
        again = Store(tmp_path)
        bucket = again.bucket("g.io", "things", namespaced=True)
        assert [(entry.name, entry.rev, entry.create_rev) for entry in bucket.scan()] == [("x", 3, 1)]
        assert bucket.get("a", "x").labels == {"app": "x"}
        entry = await again.put(bucket, "a", "z", value("z"), expected=0)
        assert entry.rev == 5
        await again.close()

    run(scenario())


def test_the_last_revision_survives_compaction_of_a_deleted_newest_object(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store(tmp_path)
        bucket = store.bucket("", "things", namespaced=True)
        await store.put(bucket, "a", "x", value("x"), expected=0)
        await store.delete(bucket, "a", "x", expected=1, value=value("x"))
        await store.compact_to(2)
        await store.close()
        again = Store(tmp_path)
        assert again.rev == 2
        await again.close()

    run(scenario())


def test_a_second_server_on_the_same_directory_is_refused_by_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store(tmp_path)
        with pytest.raises(StorageLocked, match="in use by another server"):
            Store(tmp_path)
        await store.close()
        await Store(tmp_path).close()

    run(scenario())


def test_subscribers_see_each_change_once_in_order() -> None:
    async def scenario() -> None:
        store = Store()
        bucket = store.bucket("", "things", namespaced=True)
        seen: list[Event] = []
        bucket.subscribers["me"] = seen.extend
        await asyncio.gather(
            *(store.put(bucket, "a", f"x{n}", value(f"x{n}"), expected=0) for n in range(50))
        )
        await store.put(bucket, "a", "x1", value("x1", k="v"), expected=ANY)
        await store.delete(bucket, "a", "x2", expected=ANY, value=value("x2"))
        assert [event.rev for event in seen] == list(range(1, 53))
        assert [event.type for event in seen[-2:]] == [EventType.MODIFIED, EventType.DELETED]
        assert seen[-1].entry.document()["metadata"]["resourceVersion"] == "52"
        await store.close()

    run(scenario())


@pytest.mark.parametrize("on_disk", [False, True])
def test_history_is_exact_at_every_revision(tmp_path: Path, on_disk: bool) -> None:
    async def scenario() -> None:
        store = Store(tmp_path if on_disk else None)
        bucket = store.bucket("", "things", namespaced=True)
        states: dict[int, dict[str, str]] = {0: {}}
        current: dict[str, str] = {}
        for step in range(40):
            name = f"n{step % 7}"
            if name in current and step % 5 == 0:
                await store.delete(bucket, "a", name, expected=ANY, value=value(name))
                del current[name]
            else:
                await store.put(bucket, "a", name, value(name, step=str(step)), expected=ANY)
                current[name] = str(step)
            states[store.rev] = dict(current)
        for rev, expected in states.items():
            found = {
                entry.name: entry.document()["data"]["step"] for entry in store.at(bucket, rev).scan("a")
            }
            assert found == expected
        await store.close()

    run(scenario())


def test_changes_of_before_a_restart_are_read_from_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store(tmp_path)
        bucket = store.bucket("", "things", namespaced=True)
        await store.put(bucket, "a", "x", value("x"), expected=0)
        await store.put(bucket, "a", "x", value("x", k="v"), expected=1)
        await store.delete(bucket, "a", "x", expected=2, value=value("x", k="v"))
        await store.close()
        again = Store(tmp_path)
        bucket = again.bucket("", "things", namespaced=True)
        await again.put(bucket, "a", "y", value("y"), expected=0)
        kinds, rev = [], 1
        while rev < again.rev:  # from disk, then from memory
            events, rev = again.some_changes(bucket, rev)
            kinds += [(event.rev, event.type.name) for event in events]
        assert kinds == [(2, "MODIFIED"), (3, "DELETED"), (4, "ADDED")]
        await again.close()

    run(scenario())


@pytest.mark.parametrize("in_memory", [True, False])
def test_compacted_history_is_refused_and_live_values_stay(in_memory: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store(None if in_memory else tmp_path)
        bucket = store.bucket("", "things", namespaced=True)
        await store.put(bucket, "a", "old", value("old"), expected=0)
        for step in range(10):
            await store.put(bucket, "a", "x", value("x", k=str(step)), expected=ANY)
        removed = await store.compact_to(8)
        assert removed == (8 if in_memory else 6)  # two rows of the log are still somebody's newest
        with pytest.raises(Compacted):
            store.at(bucket, 5)
        assert {entry.name for entry in store.at(bucket, 8).scan("a")} == {"old", "x"}
        await store.close()

    run(scenario())


@pytest.mark.parametrize("in_memory", [True, False])
def test_history_is_limited_where_it_takes_memory(
    in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterdeck.apiserver.storage.store.RING_BYTES_WITHOUT_LOG", 13_000)

    async def scenario() -> None:
        store = Store(None if in_memory else tmp_path)
        bucket = store.bucket("", "things", namespaced=True)
        for step in range(40):
            await store.put(bucket, "a", "x", value("x", k=f"{step:01000}"), expected=ANY)
        kept = store.rev - store.compact_rev
        assert kept == (11 if in_memory else 40)
        with pytest.raises(Compacted) if in_memory else nullcontext():
            store.some_changes(bucket, store.rev - 20)
        assert [entry.rev for entry in store.at(bucket, store.rev - kept + 1).scan("a")] == [
            store.rev - kept + 1
        ]
        await store.close()

    run(scenario())


def test_a_failing_disk_stops_writes_and_keeps_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        store = Store()
        bucket = store.bucket("", "things", namespaced=True)
        await store.put(bucket, "a", "x", value("x"), expected=0)

        def fail(rows: Any) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(store._log, "append", fail)
        with pytest.raises(Exception, match="disk I/O error"):
            await store.put(bucket, "a", "y", value("y"), expected=0)
        assert bucket.get("a", "y") is None
        assert bucket.get("a", "x") is not None
        with pytest.raises(Exception, match="storage failed"):
            await store.put(bucket, "a", "z", value("z"), expected=0)
        await store.close()

    run(scenario())


def test_namespaces_are_listed_in_key_order() -> None:
    async def scenario() -> None:
        store = Store()
        bucket = store.bucket("", "things", namespaced=True)
        for namespace, name in [("a", "z"), ("a-b", "y"), ("b", "x"), ("a", "b")]:
            await store.put(bucket, namespace, name, value(name), expected=0)
        keys = [f"{entry.namespace}/{entry.name}" for entry in bucket.scan()]
        assert keys == sorted(keys)
        after = [entry.name for entry in bucket.scan(after=("a", "b"))]
        assert after == ["z", "x"]
        await store.close()

    run(scenario())


@pytest.mark.parametrize("durability", [Durability.NORMAL, Durability.FULL])
def test_a_refusal_comes_after_its_reason_is_durable(tmp_path: Path, durability: Durability) -> None:
    async def scenario() -> None:
        store = Store(tmp_path, durability)
        bucket = store.bucket("", "things", namespaced=True)
        first = store.put(bucket, "a", "x", value("x"), expected=0)
        second = store.put(bucket, "a", "x", value("x"), expected=0)
        with pytest.raises(WriteConflict):
            await second
        assert bucket.get("a", "x") is not None
        assert first.done()
        await store.close()

    run(scenario())


def test_a_refusal_whose_reason_is_never_stored_says_that_storage_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        store = Store(tmp_path, Durability.NORMAL)
        bucket = store.bucket("", "things", namespaced=True)

        def fail(rows: Any) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(store._log, "append", fail)
        writes = [store.put(bucket, "a", "x", value("x"), expected=0) for _ in range(2)]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StorageError] * 2
        await store.close()

    run(scenario())


@pytest.mark.parametrize("last", ["deleted", "changed", "created"])
def test_the_past_is_exact_after_a_restart_whatever_the_last_change_was(tmp_path: Path, last: str) -> None:
    async def scenario() -> None:
        store = Store(tmp_path, Durability.NORMAL)
        bucket = store.bucket("", "things", namespaced=True)
        entry = await store.put(bucket, "a", "x", value("x"), expected=0)
        await store.put(bucket, "a", "y", value("y"), expected=0)
        then = store.rev
        if last == "deleted":
            await store.delete(bucket, "a", "x", expected=entry.rev, value=entry.value())
        elif last == "changed":
            await store.put(bucket, "a", "x", value("x", k="2"), expected=entry.rev)
        else:
            await store.put(bucket, "a", "z", value("z"), expected=0)
        for _ in range(2):
            await store.close()
            store = Store(tmp_path, Durability.NORMAL)
            bucket = store.bucket("", "things", namespaced=True)
            past = list(store.at(bucket, then).scan("a"))
            assert [(each.name, each.rev) for each in past] == [("x", 1), ("y", 2)]
        await store.close()

    run(scenario())


@pytest.mark.parametrize("in_memory", [True, False])
def test_history_is_read_in_pieces_that_leave_nothing_out(
    in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterdeck.apiserver.storage.store.SOME_BYTES", 500)
    monkeypatch.setattr("quarterdeck.apiserver.storage.store.SOME_REVISIONS", 7)

    async def scenario() -> None:
        store = Store(None if in_memory else tmp_path)
        bucket = store.bucket("", "things", namespaced=True)
        other = store.bucket("", "others", namespaced=True)
        for step in range(20):
            await store.put(bucket, "a", f"x{step}", value("x", k="v" * 100), expected=0)
            for again in range(step):
                await store.put(other, "a", f"y{step}-{again}", value("y"), expected=0)
        if not in_memory:
            await store.close()
            store = Store(tmp_path)
            bucket = store.bucket("", "things", namespaced=True)
        names, rev, calls = [], 0, 0
        while rev < store.rev:
            events, rev = store.some_changes(bucket, rev)
            assert len(events) <= 4
            names += [event.entry.name for event in events]
            calls += 1
        assert names == [f"x{step}" for step in range(20)]
        assert calls >= 5
        await store.close()

    run(scenario())


def test_a_write_that_is_given_up_behind_another_batch_is_not_stored(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store(tmp_path, Durability.FULL)
        bucket = store.bucket("", "things", namespaced=True)
        first = store.put(bucket, "a", "x", value("x"), expected=0)
        await asyncio.sleep(0)  # its batch is being written
        second = store.put(bucket, "a", "y", value("y"), expected=0)
        second.cancel()
        await first
        await store.put(bucket, "a", "z", value("z"), expected=0)
        assert [entry.name for entry in bucket.scan("a")] == ["x", "z"]
        assert store.rev == 2
        await store.close()

    run(scenario())


def test_a_backup_begins_a_new_history_that_no_earlier_revision_belongs_to(tmp_path: Path) -> None:
    """Revisions that were given out after the backup must mean nothing, or a watch would go on from them."""
    backup = tmp_path / "backup"
    backup.mkdir()

    async def scenario() -> None:
        store = Store(tmp_path / "data")
        bucket = store.bucket("", "things", namespaced=True)
        kept = await store.put(bucket, "a", "kept", value("kept"), expected=0)
        gone = await store.put(bucket, "a", "gone", value("gone"), expected=0)
        await store.delete(bucket, "a", "gone", expected=gone.rev, value=gone.value())
        with sqlite3.connect(tmp_path / "data" / "state.db") as source:
            source.execute("VACUUM INTO ?", (str(backup / "state.db"),))
        source.close()
        lost = await store.put(bucket, "a", "lost", value("lost"), expected=0)
        await store.close()

        restored = Store(backup)
        bucket = restored.bucket("", "things", namespaced=True)
        found = bucket.get("a", "kept")
        assert found is not None
        assert (found.rev, bucket.get("a", "lost")) == (kept.rev, None)
        new = await restored.put(bucket, "a", "new", value("new"), expected=0)
        assert new.rev > lost.rev + 1_000_000
        for revision in (kept.rev, lost.rev, new.rev - 2):
            with pytest.raises(Compacted):
                restored.check_kept(bucket, revision)
        await restored.compact()
        assert restored.rev == new.rev
        await restored.close()
        with sqlite3.connect(backup / "state.db") as left:
            assert left.execute("SELECT key FROM log ORDER BY rev").fetchall() == [
                ("//things/a/kept",),
                ("//things/a/new",),
            ]
        left.close()

        again = Store(backup)  # which is no backup any more
        assert again.rev == new.rev
        await again.close()

    run(scenario())


@pytest.mark.parametrize("durability", [Durability.NORMAL, Durability.FULL])
@pytest.mark.parametrize("file", ["state.db", "state.db-wal"])
@pytest.mark.parametrize("is_replaced", [True, False])
def test_nothing_is_acknowledged_after_the_files_were_removed_or_replaced(
    tmp_path: Path, durability: Durability, file: str, is_replaced: bool
) -> None:
    async def scenario() -> None:
        store = Store(tmp_path, durability)
        bucket = store.bucket("", "things", namespaced=True)
        await store.put(bucket, "a", "x", value("x"), expected=0)
        (tmp_path / file).rename(tmp_path / "away")
        if is_replaced:
            (tmp_path / file).write_bytes((tmp_path / "away").read_bytes())
        with pytest.raises(StorageError, match=rf"{file} was removed or replaced .*; restart it"):
            await store.put(bucket, "a", "y", value("y"), expected=0)
        assert (bucket.get("a", "x") is not None, bucket.get("a", "y")) == (True, None)
        assert store.is_stuck
        await store.close()

    run(scenario())
