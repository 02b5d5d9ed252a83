"""Kills a server under load at random moments and checks that nothing acknowledged is lost.

    python tests/faults/crash.py --rounds 500 --seed 7

Each round starts `quarterdeck apiserver` on the same data directory, lets concurrent writers create,
update and delete ConfigMaps, kills the process with SIGKILL, and after the restart compares what is
stored with what was acknowledged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import wire

WRITERS = 8
RUN = [sys.executable, "-m", "quarterdeck.cli"]


class Lost(AssertionError):
    """An acknowledged write is not there, or a revision went back."""


class Connection:
    """One keep-alive connection that can break at any time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, target: wire.Target) -> Connection:
        return cls(*await asyncio.open_connection(target.host, target.port, ssl=target.context))

    async def request(self, method: str, path: str, document: object = None) -> tuple[int, dict[str, Any]]:
        body = b"" if document is None else json.dumps(document).encode()
        self._writer.write(wire.render(method, path, body))
        head = await self._reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        length = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        return status, json.loads(await self._reader.readexactly(length))

    async def stream(self, path: str, up_to: int) -> list[dict[str, Any]]:
        """The events of a watch up to a revision, or what comes within a second."""
        self._writer.write(wire.render("GET", path))
        await self._reader.readuntil(b"\r\n\r\n")
        events: list[dict[str, Any]] = []
        data = b""
        try:
            async with asyncio.timeout(1):
                while (
                    not events or int(events[-1]["object"]["metadata"].get("resourceVersion", up_to)) < up_to
                ):
                    size = int(await self._reader.readline(), 16)
                    if size == 0:
                        break
                    data += await self._reader.readexactly(size)
                    await self._reader.readline()
                    *lines, data = data.split(b"\n")
                    events += [json.loads(line) for line in lines]
        except TimeoutError:
            pass  # nothing but changes of other kinds after that revision
        return events

    def close(self) -> None:
        self._writer.close()


class KnownWrites:
    """What the server acknowledged, and what may or may not have happened."""

    def __init__(self) -> None:
        #: name -> (revision, counter) of the last acknowledged state; None: acknowledged as deleted
        self.known: dict[str, tuple[int, int] | None] = {}
        #: name -> counters of writes without an answer; None stands for a delete
        self.open: dict[str, list[int | None]] = {}
        self.highest = 0

    def acknowledge(self, name: str, rev: int, counter: int | None) -> None:
        self.known[name] = None if counter is None else (rev, counter)
        self.open.pop(name, None)
        self.highest = max(self.highest, rev)


def start(directory: Path) -> tuple[subprocess.Popen[bytes], wire.Target]:
    kubeconfig = directory / "kubeconfig"
    command = [*RUN, "apiserver", "--port", "0"]
    command += ["--data-dir", str(directory / "data"), "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    if not process.stdout.readline().startswith(b"ready"):
        raise RuntimeError("the server did not start")
    return process, wire.target(kubeconfig)


async def write(target: wire.Target, writes: KnownWrites, who: int, dice: random.Random) -> None:
    """Write until the server is gone."""
    try:
        connection = await Connection.open(target)
    except OSError:  # killed before anything was written
        return
    path = "/api/v1/namespaces/default/configmaps"
    try:
        while True:
            name = f"w{who}-{dice.randrange(12)}"
            present = writes.known.get(name)
            counter: int | None = dice.randrange(10**9)
            document = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name},
                "data": {"counter": str(counter)},
            }
            call: tuple[str, str, object]
            if present is None:
                call = ("POST", path, document)
            elif dice.random() < 0.25:
                counter = None
                call = ("DELETE", f"{path}/{name}", None)
            else:
                call = ("PUT", f"{path}/{name}", document)
            writes.open.setdefault(name, []).append(counter)
            status, answer = await connection.request(*call)
            if status >= 300:
                raise Lost(f"{call[0]} {name}: {status} {answer.get('message')}")
            rev = int(answer["metadata"].get("resourceVersion", 0))
            writes.acknowledge(name, rev, counter)
    except (OSError, asyncio.IncompleteReadError):
        return
    finally:
        connection.close()


async def verify(target: wire.Target, writes: KnownWrites, watch_from: int) -> int:
    """Compare the stored state with the writes; returns the revision of the list."""
    connection = await Connection.open(target)
    path = "/api/v1/namespaces/default/configmaps"
    status, listing = await connection.request("GET", path)
    assert status == 200
    rev = int(listing["metadata"]["resourceVersion"])
    if rev < writes.highest:
        raise Lost(f"revision {rev} after a restart, {writes.highest} was acknowledged before")
    stored = {item["metadata"]["name"]: item for item in listing["items"]}
    for name in writes.known.keys() | writes.open.keys():
        check(name, stored.get(name), writes)
    newest = max((int(item["metadata"]["resourceVersion"]) for item in stored.values()), default=0)
    events = await connection.stream(f"{path}?watch=1&resourceVersion={watch_from}", newest)
    if events and events[0]["type"] == "ERROR":
        assert events[0]["object"]["code"] == 410
    else:
        revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
        if revisions != sorted(set(revisions)) or any(each <= watch_from for each in revisions):
            raise Lost(f"watch from {watch_from} is out of order: {revisions[:20]}")
        replay(events, stored)
    connection.close()
    return rev


def check(name: str, item: dict[str, Any] | None, writes: KnownWrites) -> None:
    """The stored state of one object is the acknowledged one or that of a write without an answer."""
    counter = int(item["data"]["counter"]) if item else None
    expected = writes.known.get(name)
    allowed = [expected[1] if expected else None, *writes.open.get(name, [])]
    if counter not in allowed:
        raise Lost(f"{name}: stored {counter}, acknowledged {expected}, open {writes.open.get(name)}")
    rev = int(item["metadata"]["resourceVersion"]) if item else 0
    if item and expected and counter == expected[1] and rev != expected[0]:
        raise Lost(f"{name}: the same content at revision {rev}, acknowledged at {expected[0]}")
    writes.known[name] = (rev, counter) if counter is not None else None
    writes.open.pop(name, None)


def replay(events: list[dict[str, Any]], stored: dict[str, dict[str, Any]]) -> None:
    """The last event of an object is its stored state."""
    last = {event["object"]["metadata"]["name"]: event for event in events}
    for name, event in last.items():
        if (event["type"] == "DELETED") != (name not in stored):
            raise Lost(f"{name}: watch says {event['type']}, the list says otherwise")


async def one_round(directory: Path, writes: KnownWrites, dice: random.Random) -> None:
    process, target = await asyncio.to_thread(start, directory)
    try:
        before = writes.highest
        await verify(target, writes, max(before - dice.randrange(200), 1))
        writers = [
            asyncio.create_task(write(target, writes, who, random.Random(dice.random())))
            for who in range(WRITERS)
        ]
        await asyncio.sleep(dice.uniform(0.02, 0.4))
        process.kill()
        await asyncio.gather(*writers)
    finally:
        process.kill()
        process.wait()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    dice = random.Random(options.seed)
    writes = KnownWrites()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="quarterdeck-crash-") as name:
        for number in range(options.rounds):
            asyncio.run(one_round(Path(name), writes, dice))
            if sys.stdout.isatty():
                print(f"\rround {number + 1}/{options.rounds}, revision {writes.highest}", end="", flush=True)
        process, target = start(Path(name))
        asyncio.run(verify(target, writes, max(writes.highest - 50, 1)))
        process.terminate()
        process.wait()
    seconds = time.monotonic() - began
    print(f"{options.rounds} kills, revision {writes.highest}, nothing lost, {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
