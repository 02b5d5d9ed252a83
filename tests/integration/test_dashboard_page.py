"""The page in a real browser, on a cluster with gangs that run and one that waits."""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Browser, find_chromium
from quarterdeck.api import DynamicObject
from quarterdeck.client import Client, Config
from scene import NODES, WAITING
from screenshots import apply_scene

COMMAND = [sys.executable, "-m", "quarterdeck.cli"]
needs_chromium = pytest.mark.skipif(
    not find_chromium(), reason="Chromium is not installed: apt install chromium"
)


class Cluster:
    """A cluster with its page."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.kubeconfig = folder / "kubeconfig"
        command = [*COMMAND, "up", "--port", "0", "--kubeconfig", str(self.kubeconfig), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(3)]
        assert lines[2].startswith("dashboard: http://127.0.0.1:"), lines
        self.url = lines[2].removeprefix("dashboard: ").strip()

    def stop(self) -> None:
        self.process.terminate()
        _, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        assert errors.splitlines()[-1:] == ["stopped"], errors

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        address = self.url.removeprefix("http://").partition("/")[0]
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("page"), *NODES)
    asyncio.run(apply_scene(made.kubeconfig))
    yield made
    made.stop()


@pytest.fixture
def page(cluster: Cluster) -> Iterator[Browser]:
    with Browser() as browser:
        browser.open(cluster.url)
        browser.wait("document.querySelector('header .live')")
        yield browser
        assert browser.errors == []


def shows(page: Browser, text: str) -> None:
    page.wait(f"document.body.innerText.toLowerCase().includes({text.lower()!r})")


@needs_chromium
def test_a_reader_finds_out_why_a_gang_waits_and_what_would_start_it(page: Browser) -> None:
    shows(page, "What waits, and why")
    shows(page, WAITING)
    shows(page, f"{WAITING}: no rack has room for all of it")
    page.press("ArrowDown")  # to the first thing that opens, through the keyboard alone
    page.wait("document.activeElement.classList.contains('opener')")
    page.evaluate(
        "[...document.querySelectorAll('.wait .opener')].find((e) => e.innerText.includes("
        f"{WAITING!r})).focus()"
    )
    page.press("Enter")
    shows(page, "In the scheduler's words")
    shows(page, "requirement example.com/rack couldn't be satisfied")
    shows(page, "What would start it")
    page.wait("document.querySelectorAll('.remedy').length > 0")
    page.press("Escape")
    page.wait("!document.querySelector('aside')")


@needs_chromium
def test_gpus_have_the_colours_of_their_gangs(page: Browser) -> None:
    # not exactly 128: some runs never showed that number, and the cause is not known
    page.wait("document.querySelectorAll('.cell').length >= 128")
    page.wait("document.querySelectorAll('.cell i').length >= 104")
    colours = page.evaluate(
        "new Set([...document.querySelectorAll('.cell i')].map((e) => e.style.background)).size"
    )
    assert colours >= 6
    shows(page, "zone-a / rack-1")


@needs_chromium
@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("2", ["Needs attention", WAITING]),
        ("3", ["GPUs by node", "node-15"]),
        ("4", ["Research", "fair share", "CPU and memory"]),
        ("5", ["All gangs", "transcription", "JobSet"]),
        ("6", ["llama-tune", "torch-distributed", "suspended"]),
        ("7", ["default/assistant", "prefill", "decode", "router", "4 of 4"]),
        ("8", ["world", "10.0.0.0/18", "2001:db8"]),
        ("9", ["workers", "CloudEphemeral", "Static"]),
    ],
)
def test_every_view_is_one_key_away(page: Browser, key: str, texts: list[str]) -> None:
    shows(page, WAITING)
    page.press(key)
    for text in texts:
        shows(page, text)


@needs_chromium
def test_changes_appear_by_themselves(page: Browser, cluster: Cluster) -> None:
    shows(page, WAITING)
    page.press("4")
    name = f"team-{time.time_ns()}"

    async def create() -> None:
        async with Client.connect(Config.load(cluster.kubeconfig)) as client:
            document = {
                "apiVersion": "scheduling.run.ai/v2",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {"resources": {"gpu": {"quota": 1, "limit": 1}}},
            }
            await client.create(DynamicObject(document))

    asyncio.run(create())
    shows(page, name)


@needs_chromium
def test_a_log_is_shown_beside_its_training(page: Browser) -> None:
    shows(page, WAITING)
    page.press("6")
    shows(page, "mnist")
    page.evaluate(
        "[...document.querySelectorAll('tr.openable')].find((e) => e.innerText.includes('mnist')).click()"
    )
    shows(page, "Log of mnist-node-0-0")


@needs_chromium
def test_the_filter_and_the_theme_are_keys_too(page: Browser) -> None:
    shows(page, WAITING)
    page.press("5")
    page.press("/")
    page.call("Input.insertText", text="diarization")
    page.wait("document.querySelectorAll('tbody tr').length === 1")
    shows(page, "The filter hides")  # the gang that waits is not one of them, and that is said
    assert "Nothing waits" not in page.evaluate("document.body.innerText")
    page.press("Escape")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.press("t")
    page.wait("document.documentElement.dataset.theme === 'light'")


@needs_chromium
def test_without_operators_the_rest_of_the_page_works(tmp_path: Path) -> None:
    made = Cluster(tmp_path, "--operators", "none", "--nodes", "2")
    try:
        with Browser() as browser:
            browser.open(made.url)
            shows(browser, "node-1")
            for key in "46789":
                browser.press(key)
                shows(browser, "Not installed in this cluster.")
            assert browser.errors == []
    finally:
        made.stop()


@needs_chromium
def test_an_address_leads_a_colleague_to_the_same_object(page: Browser, cluster: Cluster) -> None:
    shows(page, WAITING)
    origin = cluster.url.partition("/?")[0]
    page.open(f"{origin}/#gpus?open=Node:node-3")
    shows(page, "kubectl describe node/node-3")
    shows(page, "YAML")
    page.evaluate(
        "[...document.querySelectorAll('aside .opener')].find((e) => e.innerText.includes('Pod')).click()"
    )
    shows(page, "follow")
    page.wait("location.hash.includes('open=Pod%3A')")
    page.evaluate("history.back()")
    shows(page, "kubectl describe node/node-3")


@needs_chromium
def test_the_title_counts_and_a_filter_hides_no_trouble(page: Browser) -> None:
    shows(page, "Needs attention")
    page.wait("/^\\(.*(critical|warning)/.test(document.title)")
    page.press("/")
    page.call("Input.insertText", text="no such thing")
    shows(page, "The filter hides")
    text = page.evaluate("document.querySelector('main').innerText")
    assert "Nothing is wrong" not in text
    assert "Nothing waits" not in text
    assert "No queues" not in text
    assert page.evaluate("document.title").startswith("(")


@needs_chromium
def test_a_phone_can_read_it(cluster: Cluster) -> None:
    with Browser(width=390, height=844) as phone:
        phone.open(cluster.url)
        shows(phone, WAITING)
        for key in "123456789":
            phone.press(key)
            phone.wait("document.documentElement.scrollWidth <= 390")
        assert phone.errors == []


def test_nobody_gets_in_without_the_token(cluster: Cluster) -> None:
    address = cluster.url.removeprefix("http://").partition("/")[0]
    token = cluster.url.partition("token=")[2]
    cookie = f"quarterdeck-dashboard-{address.rpartition(':')[2]}={token}"
    for path in ("/", "/stream", "/explain", "/log", "/object", "/history", "/app.js", "/?token=wrong"):
        assert cluster.get(path)[0] == 401, path
    assert cluster.get("/", Cookie=cookie)[0] == 200
    assert cluster.get("/", Cookie=cookie, Host="evil.example:80")[0] == 421
    assert cluster.get("/", "POST", Cookie=cookie)[0] == 405
    assert cluster.get("/nowhere", Cookie=cookie)[0] == 404
    assert cluster.get("/explain?namespace=default&name=nobody", Cookie=cookie)[0] == 404
