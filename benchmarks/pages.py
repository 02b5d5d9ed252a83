"""What a page of a chunked list costs, as the list grows.

    python -m benchmarks pages [--quick]

Lists of config maps are read from the first page to the last, 500 at a time, with nobody else there, and
with two writes before each page (one object changed, one created), which all pages but the first have to
leave out. Objects are put straight into storage: only the reading is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sys
import time
from statistics import median
from urllib.parse import quote

import msgspec

from quarterdeck.apiserver import ApiServer
from quarterdeck.apiserver.inprocess import LocalServer
from quarterdeck.apiserver.storage import Bucket, Entry, encode_value
from quarterdeck.apiserver.storage.entry import body_at

PAGE = 500
SIZES = (1_000, 10_000, 100_000, 1_000_000)
GROWTH_AIM = 2.0


class _ListMeta(msgspec.Struct, rename="camel"):
    remaining_item_count: int = 0
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw]


def _value(namespace: str, name: str) -> bytes:
    return encode_value({"metadata": {"name": name, "namespace": namespace}, "data": {"key": "value" * 10}})


def fill(bucket: Bucket, count: int) -> None:
    """Objects in a hundred namespaces, in no order."""
    places = [(f"space-{number % 100:03}", f"config-{number:07}") for number in range(count)]
    random.Random(1).shuffle(places)
    for rev, place in enumerate(places, 1):
        bucket.load(Entry(*place, rev, rev, body_at(_value(*place), rev)))


async def walk(server: ApiServer, local: LocalServer, *, writes: bool) -> tuple[list[float], int]:
    """Seconds of each full page, and the number of objects read."""
    bucket = server.store.bucket("", "configmaps", namespaced=True)
    dice = random.Random(2)
    seconds, read, token, expected = [], 0, "", bucket.count
    while True:
        if writes and token:
            space, changed = f"space-{dice.randrange(100):03}", f"config-{dice.randrange(expected):07}"
            old = bucket.get(space, changed)
            if old is not None:
                await server.store.put(bucket, space, changed, old.value(), expected=old.rev)
            name = f"new-{dice.randrange(10**9)}"
            await server.store.put(bucket, space, name, _value(space, name), expected=0)
        started = time.perf_counter()
        status, _, body = await local.exchange(
            "GET", "/api/v1/configmaps", f"limit={PAGE}&continue={quote(token)}", (), b""
        )
        elapsed = time.perf_counter() - started
        assert status == 200, body
        answer = msgspec.json.decode(body, type=_List)
        read += len(answer.items)
        if len(answer.items) == PAGE:
            seconds.append(elapsed)
        assert read + answer.metadata.remaining_item_count == expected
        token = answer.metadata.continue_
        if not token:
            return seconds, read


async def measure(count: int) -> tuple[float, float, float]:
    """Milliseconds of a page: the median alone, the slowest alone, the median among writers."""
    async with ApiServer() as server:
        local = server.local()
        bucket = server.store.bucket("", "configmaps", namespaced=True)
        fill(bucket, count - bucket.count)
        # the first change is behind everything that was put there
        server.store.rev = max(server.store.rev, bucket.last_rev)
        await local.exchange("GET", "/api/v1/configmaps", "limit=1", (), b"")
        gc.collect()
        gc.freeze()  # what the collector does with a million objects at rest is no cost of a page
        alone, read = await walk(server, local, writes=False)
        assert read == count
        among, read = await walk(server, local, writes=True)
        assert read == count
    gc.unfreeze()
    return median(alone) * 1e3, max(alone) * 1e3, median(among) * 1e3


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks pages", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 100,000 objects")
    options = parser.parse_args(argv)
    sizes = SIZES[:-1] if options.quick else SIZES
    print(f"\n## pages of {PAGE}, milliseconds")
    print(f"{'objects':>10} {'median':>8} {'slowest':>8} {'among writers':>14}")
    results = []
    for size in sizes:
        results.append(asyncio.run(measure(size)))
        print(f"{size:>10,} {results[-1][0]:>8.2f} {results[-1][1]:>8.2f} {results[-1][2]:>14.2f}")
    growth = results[-1][0] / results[0][0]
    print(f"growth      {growth:>8.1f}x from {sizes[0]:,} to {sizes[-1]:,} (aim below {GROWTH_AIM:g}x)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
