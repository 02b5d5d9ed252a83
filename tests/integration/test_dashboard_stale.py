"""The page says that the cluster does not answer, and shows what it knew instead of zeros."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from browser import Browser, find_chromium
from quarterdeck.api import DynamicObject
from quarterdeck.dashboard import Board, DashboardServer
from quarterdeck.testing import TestCluster


def look(url: str, cut: Callable[[], object]) -> str:
    with Browser() as browser:
        browser.open(url)
        browser.wait("document.querySelector('.live')?.innerText === 'live'")
        browser.wait("document.querySelector('.tiles')?.innerText.includes('of 1')")
        cut()
        browser.wait(
            "document.querySelector('.live').innerText.includes('the cluster does not answer: what')"
        )
        browser.wait("/^\\(\\d+ critical/.test(document.title)")
        assert "of 1" in browser.evaluate("document.querySelector('.tiles').innerText"), "not zeros"
        text: str = browser.evaluate("document.querySelector('.problem').innerText")
        return text


@pytest.mark.skipif(not find_chromium(), reason="Chromium is not installed: apt install chromium")
@pytest.mark.real_time(limit=180)
async def test_a_cluster_that_does_not_answer_is_not_called_live() -> None:
    async with TestCluster() as cluster:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "known"}, "status": ready}
        await cluster.client.create(DynamicObject(node))
        link, loop = cluster.link(name="board"), asyncio.get_running_loop()
        board = Board(link.client, title="far away")
        following = asyncio.create_task(board.run())
        async with DashboardServer(board) as server:
            cut = partial(loop.call_soon_threadsafe, partial(link.cut, silently=True))
            first = await asyncio.to_thread(look, server.url, cut)
        following.cancel()
        await asyncio.wait([following])
    assert "it does not answer" in first, "it comes before everything else"
