"""The page on a large cluster, in a real browser: how soon it shows something, and what an update costs.

    python -m benchmarks dashboard [--nodes N] [--pods N] [--axe FILE]

The cluster is an embedded server with that many nodes and pods in it and nobody who runs them; the page is
the real one. First paint is from the navigation to the first numbers. While pods change, ten a second, the
longest task of the browser's main thread is what an update costs. Needs Chromium. ``--axe`` names a copy of
axe-core's axe.min.js (npm has it), which then looks for what keeps people from using the page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop

from quarterdeck.api import DynamicObject
from quarterdeck.client import Client, MergePatch
from quarterdeck.dashboard import Board, DashboardServer
from quarterdeck.operators.kai.assembly import operator as kai
from quarterdeck.testing import TestCluster

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from browser import Browser, find_chromium

Json = dict[str, Any]
_PAINT, _UPDATE = 2.0, 100.0
"""Aims: seconds, and milliseconds."""
_CHANGES = 100
_RACK = 20
_GANG = 8
_AT_ONCE = 32
_VIEWS = "123456789"
_DETAIL = "#problems?open=Node:node-7"
_LONG_TASKS = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
}).observe({ entryTypes: ["longtask"] });
"""


def _nodes(count: int) -> Iterator[Json]:
    for number in range(count):
        labels = {"topology.kubernetes.io/zone": f"rack-{number // _RACK}"}
        amounts = {"nvidia.com/gpu": "8", "cpu": "128", "memory": "1Ti", "pods": "110"}
        ready = {"type": "Ready", "status": "False" if number % 250 == 7 else "True"}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number}", "labels": labels},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        }


def _gangs(pods: int) -> Iterator[Json]:
    for number in range(pods // _GANG):
        spec = {"queue": "default-queue", "minMember": _GANG}
        metadata = {"name": f"gang-{number}", "namespace": "default"}
        yield {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": metadata,
            "spec": spec,
        }


def _pods(count: int, nodes: int) -> Iterator[Json]:
    for number in range(count):
        waits = number >= nodes * 8
        spec: Json = {
            "containers": [{"name": "main", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
            "serviceAccountName": "default",
        }
        if not waits:
            spec["nodeName"] = f"node-{number % nodes}"
        annotations = {"pod-group-name": f"gang-{number // _GANG}"}
        metadata = {"name": f"pod-{number}", "namespace": "default", "annotations": annotations}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def _fill(client: Client, objects: Iterator[Json]) -> None:
    async def work() -> None:
        for each in objects:
            await client.create(DynamicObject(each))

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())


async def _change(client: Client, number: int) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}", "namespace": "default"}}
    conditions = [{"type": "Ready", "status": "True"}]
    status = MergePatch({"status": {"phase": "Running", "conditions": conditions}})
    await client.status.patch(DynamicObject(pod), status)


def _look(url: str, nodes: int, changes: Any, axe: str) -> tuple[float, float, float, Json]:
    """Seconds to the first numbers, milliseconds of the longest task, height, what axe found."""
    with Browser() as browser:
        started = time.perf_counter()
        browser.open(url)
        browser.wait(f"document.querySelector('.tiles')?.innerText.includes('of {nodes}')")
        paint = time.perf_counter() - started
        browser.evaluate("new Promise((done) => setTimeout(done, 3000))")
        browser.evaluate(f"(() => {{ {_LONG_TASKS} }})()")
        changes()
        longest = float(browser.evaluate("window.longest"))
        height = float(browser.evaluate("document.documentElement.scrollHeight"))
        found: Json = {}
        if axe:
            browser.evaluate(Path(axe).read_text())
            for view in (*_VIEWS, _DETAIL):
                if view == _DETAIL:
                    browser.evaluate(f"location.hash = '{view}'")
                else:
                    browser.press(view)
                browser.evaluate("new Promise((done) => setTimeout(done, 1000))")
                answer = browser.evaluate("axe.run().then((found) => JSON.stringify(found.violations))")
                for each in json.loads(answer):
                    found[each["id"]] = f"{each['impact']}: {each['help']} ({each['nodes'][0]['html'][:140]})"
        assert browser.errors == [], browser.errors
        return paint, longest, height, found


async def _measure(nodes: int, pods: int, axe: str) -> bool:
    loop = asyncio.get_running_loop()
    async with TestCluster(crds=[*kai().definitions()]) as cluster:
        client = cluster.client
        for objects in (_nodes(nodes), _gangs(pods), _pods(pods, nodes)):
            await _fill(client, objects)
        board = Board(client, title="large")
        following = asyncio.create_task(board.run())
        await board.settled()

        async def change_some() -> None:
            for number in range(_CHANGES):
                await _change(client, number)
                await asyncio.sleep(0.1)
            await asyncio.sleep(2.0)

        def changes() -> None:
            asyncio.run_coroutine_threadsafe(change_some(), loop).result()

        async with DashboardServer(board) as server:
            look = asyncio.to_thread(_look, server.url, nodes, changes, axe)
            paint, longest, height, found = await look
        following.cancel()
        await asyncio.wait([following])
    print(f"  {nodes:,} nodes, {pods:,} pods")
    print(f"    first numbers      {paint:8.2f} s  (aim {_PAINT:.0f})")
    print(f"    longest task while pods change {longest:5.0f} ms (aim {_UPDATE:.0f}; below 50 is not seen)")
    print(f"    the overview is {height:,.0f} pixels high")
    for name, text in sorted(found.items()):
        print(f"    axe {name}: {text}")
    serious = [text for text in found.values() if text.startswith(("serious", "critical"))]
    return paint <= _PAINT and longest <= _UPDATE and not serious


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--axe", default="")
    options = parser.parse_args(arguments)
    print("dashboard")
    if not find_chromium():
        print("  left out: Chromium is not installed")
        return 0
    return 0 if uvloop.run(_measure(options.nodes, options.pods, options.axe)) else 1
