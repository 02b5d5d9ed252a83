"""What YAML costs beside JSON, in CPU of the server's process.

    python -m benchmarks yaml_answers [--pods N]

The same pods are read in both forms: one of them, all of them in a list that nobody has asked for before, and
the same list again. The real kube-apiserver is measured beside it, if `make kube` has built it.
"""

from __future__ import annotations

import argparse

import uvloop

from . import wire
from .apiserver import Embedded, Real, Server, is_built, pods

LIMIT = 5.0
_YAML, _JSON = "application/yaml", "application/json"
_PODS = "/api/v1/namespaces/default/pods"
_GETS, _LISTS, _TRIES = 3000, 20, 5


async def _cost(server: Server, path: str, accept: str, count: int) -> float:
    """CPU milliseconds of one answer."""
    before = wire.cpu_seconds(server.pids)
    await wire.load(server.target, iter([wire.render("GET", path, accept=accept)] * count), 1)
    return (wire.cpu_seconds(server.pids) - before) / count * 1e3


async def _first_lists(server: Server, count: int, accept: str) -> float:
    """Of a list of pods that were just made: what is remembered of others is of no use."""
    total = 0.0
    for number in range(_TRIES):
        tag = f"new{number}{accept[-1]}"
        requests = (each.replace(b'"bench"', f'"{tag}"'.encode()) for each in pods(count, tag))
        await wire.load(server.target, (_sized(each) for each in requests), 8)
        total += await _cost(server, f"{_PODS}?labelSelector=app%3D{tag}", accept, 1)
    return total / _TRIES


def _sized(request: bytes) -> bytes:
    """The request with the length that its body has now."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])


async def _measure(server: Server, count: int) -> bool:
    await wire.load(server.target, pods(count, "pod"), 8)
    listed = f"{_PODS}?labelSelector=app%3Dbench"
    rows = {
        "one pod": [await _cost(server, f"{_PODS}/pod-0", accept, _GETS) for accept in (_JSON, _YAML)],
        f"{count:,} new pods": [await _first_lists(server, count, accept) for accept in (_JSON, _YAML)],
        f"{count:,} pods again": [await _cost(server, listed, accept, _LISTS) for accept in (_JSON, _YAML)],
    }
    print(f"  {server.name}")
    for name, (json, yaml) in rows.items():
        costs = f"JSON {json:8.3f} ms   YAML {yaml:8.3f} ms"
        print(f"    {name:16} {costs}   {yaml / json:5.1f}x (aim {LIMIT:.0f}x)")
    return all(yaml <= LIMIT * json for json, yaml in rows.values())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks yaml_answers", description=__doc__)
    parser.add_argument("--pods", type=int, default=500, help="pods of a list (default: %(default)s)")
    options, _ = parser.parse_known_args(arguments)
    print("YAML beside JSON, CPU of an answer")
    with Embedded("memory") as ours:
        good = uvloop.run(_measure(ours, options.pods))
    if is_built():
        with Real(fsync=False) as real:
            uvloop.run(_measure(real, options.pods))
    return 0 if good else 1
