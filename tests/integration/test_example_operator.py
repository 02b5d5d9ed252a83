"""The operator of the README, as a user runs it: a process of its own against `quarterdeck up`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import yaml

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.client import Client, Config, MergePatch
from quarterdeck.errors import NoKindMatch, NotFound
from tests.harness.server import start_embedded

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "greeter"
GREETER = GroupVersionKind("example.io", "v1", "Greeter")


def test_the_readme_shows_the_example_as_it_is() -> None:
    assert f"```py\n{(EXAMPLE / 'greeter.py').read_text()}```" in (ROOT / "README.md").read_text()


async def _greeting(client: Client, words: str) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                card = await client.get(ConfigMap, "crew", "default")
                greeter = await client.get(GREETER, "crew", "default")
                if card.data.get("greeting") == greeter.at("status", "greeting") == f"{words}, crew!":
                    assert card.metadata.owner_references[0].uid == greeter.metadata.uid
                    return
            except NotFound:
                pass
            await asyncio.sleep(0.05)


async def _definition_is_served(client: Client) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await client.list(GREETER)
                return
            except (NoKindMatch, NotFound):
                await asyncio.sleep(0.05)


async def _story(kubeconfig: Path) -> None:
    client = Client.connect(Config.load(kubeconfig))
    try:
        await _definition_is_served(client)
        manifest = yaml.safe_load((EXAMPLE / "greeter.yaml").read_text())
        manifest["metadata"]["namespace"] = "default"
        greeter = await client.create(DynamicObject(manifest))
        await _greeting(client, "Ahoy")
        await client.patch(greeter, MergePatch({"spec": {"words": "Land ho"}}))
        await _greeting(client, "Land ho")
        card = await client.get(ConfigMap, "crew", "default")
        await client.delete(card)
        await _greeting(client, "Land ho")
    finally:
        await client.aclose()


def test_a_greeter_is_greeted_again_when_it_changes_or_its_card_is_lost() -> None:
    server = start_embedded()
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    operator = subprocess.Popen([sys.executable, str(EXAMPLE / "greeter.py")], env=environment)
    try:
        asyncio.run(_story(server.kubeconfig))
        operator.terminate()
        assert operator.wait(10) == 0
    finally:
        operator.kill()
        operator.wait()
        server.stop()
