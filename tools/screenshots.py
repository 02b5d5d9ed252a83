"""Pictures of the page for the docs: ``python tools/screenshots.py [FOLDER]`` (needs Chromium).

A cluster is started, filled with the scene, opened in a headless browser and photographed, view by view.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from browser import Browser, find_chromium
from quarterdeck.api import DynamicObject
from quarterdeck.client import Client, Config
from scene import NODES, WAITING, objects, troubles

ROOT = Path(__file__).resolve().parent.parent
COMMAND = [sys.executable, "-m", "quarterdeck.cli"]
SHOTS = (
    ("dashboard", "1", "dark", ""),
    ("dashboard-light", "1", "light", ""),
    ("dashboard-why", "5", "dark", WAITING),
    ("dashboard-inference", "7", "dark", ""),
    ("dashboard-addresses", "8", "dark", ""),
)
"""File, view, theme and the gang that is opened."""
TROUBLED = (("dashboard-problems", "2", 1440), ("dashboard-phone", "1", 390))
"""The same cluster after a node has failed and pods crash: file, view and width."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "images")
    folder: Path = parser.parse_args().folder
    if not find_chromium():
        print("Chromium is not installed: apt install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as home:
        kubeconfig = Path(home, "kubeconfig")
        environment = {**os.environ, "HOME": home}
        up = subprocess.Popen(
            [*COMMAND, "up", *NODES, "--port", "0", "--kubeconfig", str(kubeconfig)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        try:
            assert up.stdout is not None
            lines = [up.stdout.readline() for _ in range(3)]
            url = lines[-1].partition(": ")[2].strip()
            asyncio.run(apply_scene(kubeconfig))
            for name, view, theme, gang in SHOTS:
                with Browser(theme=theme) as browser:
                    photograph(browser, url, view, gang, folder / f"{name}.png")
                print(f"wrote {folder / name}.png")
            asyncio.run(apply_scene(kubeconfig, troubles()))
            for name, view, width in TROUBLED:
                with Browser(width=width) as browser:
                    browser.open(url)
                    for text in ("has stopped reporting", "again and again"):
                        browser.wait(f"document.body.innerText.includes('{text}')", seconds=180.0)
                    browser.press(view)
                    browser.evaluate("new Promise((done) => setTimeout(done, 1500))")
                    browser.screenshot(folder / f"{name}.png")
                print(f"wrote {folder / name}.png")
        finally:
            up.terminate()
            up.wait()
    return 0


async def apply_scene(kubeconfig: Path, wanted: Iterable[dict[str, Any]] | None = None) -> None:
    """Put the scene, or these objects, into a cluster."""
    async with Client.connect(Config.load(kubeconfig)) as client:
        for each in objects() if wanted is None else wanted:
            await client.apply(DynamicObject(each), field_manager="scene", force=True)


def photograph(browser: Browser, url: str, view: str, gang: str, file: Path) -> None:
    browser.open(url)
    browser.wait(f"document.body.innerText.includes('{WAITING}')")
    browser.wait("document.querySelectorAll('.cell i').length >= 90")
    browser.press(view)
    if gang:
        lines = "[...document.querySelectorAll('.wait .opener')]"
        browser.evaluate(f"{lines}.find((each) => each.innerText.includes('{gang}')).click()")
        browser.wait("document.body.innerText.includes('What would start it')")
    browser.evaluate("new Promise((done) => setTimeout(done, 1500))")
    browser.screenshot(file)


if __name__ == "__main__":
    sys.exit(main())
