"""A disk that is full for a while, one that fails for good, and the removal of old history."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.apiserver.inprocess import LocalServer
from quarterdeck.apiserver.storage import StorageFull, Store, encode_value, inspection
from quarterdeck.testing import eventually

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JSON = (("Content-Type", "application/json"),)

pytestmark = pytest.mark.real_time


class Disk:
    """A small file system; where none can be mounted, a database that may not grow."""

    def __init__(self, directory: Path, *, is_mounted: bool) -> None:
        self.directory = directory
        self.is_mounted = is_mounted
        self._filler = directory / "filler"

    def fill(self, store: Store) -> None:
        if self.is_mounted:
            with suppress(OSError), self._filler.open("wb", buffering=0) as file:
                for size in (65536, 4096, 1):
                    with suppress(OSError):
                        while file.write(b"x" * size):
                            pass
        else:
            [count] = store._log._db.execute("PRAGMA page_count").fetchone()
            store._log._db.execute(f"PRAGMA max_page_count={count}")

    def free(self, store: Store) -> None:
        if self.is_mounted:
            self._filler.unlink()
        else:
            store._log._db.execute("PRAGMA max_page_count=1000000")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    libc = ctypes.CDLL(None, use_errno=True)
    place = tmp_path / "disk"
    place.mkdir()
    is_mounted = libc.mount(b"none", os.fsencode(place), b"tmpfs", 0, b"size=4m") == 0
    yield Disk(place, is_mounted=is_mounted)
    if is_mounted:
        assert libc.umount2(os.fsencode(place), 2) == 0


async def create(local: LocalServer, name: str) -> tuple[int, dict[str, Any]]:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    document["data"] = {"text": "x" * 20_000}
    status, _, body = await local.exchange("POST", CONFIG_MAPS, "", JSON, json.dumps(document).encode())
    return status, json.loads(body)


async def health(local: LocalServer) -> tuple[int, int]:
    """The answers to /livez and /readyz."""
    return (
        (await local.exchange("GET", "/livez", "", (), b""))[0],
        (await local.exchange("GET", "/readyz", "", (), b""))[0],
    )


async def stored(local: LocalServer) -> set[str]:
    status, _, body = await local.exchange("GET", CONFIG_MAPS, "", (), b"")
    assert status == 200
    return {item["metadata"]["name"] for item in json.loads(body)["items"]}


async def test_a_full_disk_refuses_writes_while_it_lasts_and_takes_them_again(disk: Disk) -> None:
    options = ServerOptions(data_dir=disk.directory / "data")
    acknowledged = set()
    async with ApiServer(options) as server:
        local = server.local()
        assert await health(local) == (200, 200)
        disk.fill(server.store)
        for number in range(200):
            status, answer = await create(local, f"c{number}")
            if status != 201:
                break
            acknowledged.add(f"c{number}")
        assert (status, answer["reason"]) == (507, "InsufficientStorage")
        assert "cannot take writes now" in answer["message"]
        assert (await create(local, "another"))[0] == 507
        assert await health(local) == (200, 500)
        assert acknowledged <= await stored(local)
        disk.free(server.store)

        async def is_written() -> bool:
            return (await create(local, "afterwards"))[0] == 201

        await eventually(is_written)
        acknowledged.add("afterwards")
        assert await health(local) == (200, 200)
    async with ApiServer(options) as server:
        assert acknowledged <= await stored(server.local())
        assert "another" not in await stored(server.local())


async def test_what_must_be_restarted_fails_its_liveness_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ApiServer(ServerOptions(data_dir=tmp_path)) as server:
        local = server.local()
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = "SQLITE_IOERR_FSYNC"

        def fail(rows: object) -> None:
            raise error

        monkeypatch.setattr(server.store._log, "append", fail)
        status, answer = await create(local, "a")
        assert (status, answer["reason"]) == (503, "ServiceUnavailable")
        assert await health(local) == (500, 500)
        monkeypatch.undo()
        assert (await create(local, "b"))[0] == 503, "what an fsync lost is not found out by another one"


async def test_old_history_that_cannot_be_removed_shows_in_readiness_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ApiServer(ServerOptions(data_dir=tmp_path)) as server:
        local, store = server.local(), server.store
        await create(local, "a")

        def fail() -> None:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(store._log, "clean", fail)
        assert await store.compact(keep_seconds=0) == 0
        status, _, body = await local.exchange("GET", "/readyz", "verbose=", (), b"")
        assert status == 500
        assert b"[-]compaction failed" in body
        assert (await create(local, "b"))[0] == 201
        monkeypatch.undo()
        await store.compact(keep_seconds=3600)
        assert store.compaction_failure is None
        assert await health(local) == (200, 200)


async def test_removing_history_keeps_neither_the_loop_nor_writers_waiting(tmp_path: Path) -> None:
    store = Store(tmp_path)
    bucket = store.bucket("", "things", namespaced=True)
    text = encode_value({"metadata": {"name": "x"}, "data": {"text": "x" * 500}})
    for start in range(0, 20_000, 1_000):
        await asyncio.gather(
            *(
                store.put(bucket, "a", f"n{number % 50}", text, expected=-1)
                for number in range(start, start + 1_000)
            )
        )
    removal = asyncio.create_task(store.compact_to(store.rev))
    written = 0
    while not removal.done():
        await store.put(bucket, "a", "while", text, expected=-1)
        written += 1
    assert await removal == 20_000 - 50
    assert written > 3, "no write came in between"
    assert bucket.count == 51
    [vacuum] = store._log._db.execute("PRAGMA auto_vacuum").fetchone()
    assert vacuum == 2, "the file shrinks"
    await store.close()
    again = Store(tmp_path)
    assert again.bucket("", "things", namespaced=True).count == 51
    assert (tmp_path / "state.db").stat().st_size < 5_000_000
    await again.close()


async def test_removal_of_history_that_was_interrupted_goes_on_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    bucket = store.bucket("", "things", namespaced=True)
    text = encode_value({"metadata": {"name": "x"}})
    for number in range(300):
        await store.put(bucket, "a", f"n{number % 10}", text, expected=-1)
    for number in range(5):
        await store.delete(bucket, "a", f"n{number}", expected=-1, value=text)
    store._log.declare_compacted(store.rev)
    store._log._slice = 50
    assert store._log.clean()[1], "there is more to do"
    await store.close()
    again = Store(tmp_path)
    bucket = again.bucket("", "things", namespaced=True)
    assert {entry.name for entry in bucket.scan()} == {f"n{number}" for number in range(5, 10)}
    await again.compact()
    assert again._log._db.execute("SELECT COUNT(*) FROM log").fetchone() == (5,)
    assert {entry.name for entry in bucket.scan()} == {f"n{number}" for number in range(5, 10)}
    await again.close()


async def test_a_start_on_a_full_disk_says_so_and_loses_nothing(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
        raise error

    options = ServerOptions(data_dir=disk.directory / "data")
    async with ApiServer(options) as server:
        assert (await create(server.local(), "kept"))[0] == 201
    if disk.is_mounted:
        disk.fill(server.store)
    else:
        monkeypatch.setattr(inspection, "_inspect", no_room)
    with pytest.raises(StorageFull, match="its disk seems to be full: make room and start again"):
        await ApiServer(options).start()
    if disk.is_mounted:
        disk.free(server.store)
    monkeypatch.undo()
    async with ApiServer(options) as server:
        assert "kept" in await stored(server.local())
