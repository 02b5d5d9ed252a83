"""Many writers of one object."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.apiserver.registry.write import turn
from quarterdeck.apiserver.registry.write.turn import Turns
from quarterdeck.apiserver.storage import Bucket, Durability, Store

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = (("Content-Type", "application/merge-patch+json"),)


@pytest.mark.real_time
@pytest.mark.parametrize("durability", Durability)
async def test_ten_patches_at_once_need_about_two_attempts_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability
) -> None:
    is_stored = durability is not Durability.MEMORY
    options = ServerOptions(data_dir=tmp_path, durability=durability) if is_stored else ServerOptions()
    server = ApiServer(options)
    await server.start(listen=False)
    local = server.local()
    await local.exchange("POST", MAPS, "", (), json.dumps({"metadata": {"name": "m"}}).encode())
    attempts = 0
    put = Store.put

    def counted(store: Store, *args: Any, **more: Any) -> Any:
        nonlocal attempts
        attempts += 1
        return put(store, *args, **more)

    monkeypatch.setattr(Store, "put", counted)

    async def patch(number: int) -> int:
        body = json.dumps({"data": {f"k{number}": "v"}}).encode()
        code, _, _ = await local.exchange("PATCH", f"{MAPS}/m", "", MERGE, body)
        return code

    assert await asyncio.gather(*(patch(number) for number in range(10))) == [200] * 10
    _, _, stored = await local.exchange("GET", f"{MAPS}/m", "", (), b"")
    assert len(json.loads(stored)["data"]) == 10
    assert 10 <= attempts <= 25
    await server.stop()


async def test_turns_come_in_order_and_leave_nothing_behind() -> None:
    turns, bucket = Turns(), Bucket("", "things", namespaced=True, last_rev=0)
    order: list[int] = []

    async def have(number: int) -> None:
        async with turns.take(bucket, "ns", "x"):
            order.append(number)
            await asyncio.sleep(0.01)
            order.append(number)

    await asyncio.gather(*(have(number) for number in range(3)))
    assert order == [0, 0, 1, 1, 2, 2]
    assert not turns._queues


async def test_who_waits_for_somebody_who_waits_for_them_goes_on() -> None:
    turns, bucket = Turns(), Bucket("", "things", namespaced=True, last_rev=0)
    began = asyncio.get_running_loop().time()
    async with turns.take(bucket, "ns", "x"), turns.take(bucket, "ns", "x"):
        waited = asyncio.get_running_loop().time() - began
    assert waited == pytest.approx(turn.PATIENCE, abs=0.1)
    async with asyncio.timeout(0.1), turns.take(bucket, "ns", "x"):
        assert turns._queues
    assert not turns._queues
