"""The tutorial: its page shows the files of the example, and what it says happens when they run."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from quarterdeck.api import DynamicObject, GroupVersionKind, ObjectMeta
from quarterdeck.api.k8s import Container, Namespace, Pod, PodSpec, ResourceQuota
from quarterdeck.api.manifest import load_documents
from quarterdeck.client import Client, Config, MergePatch
from quarterdeck.errors import Forbidden, Invalid, NoKindMatch, NotFound
from quarterdeck.testing import eventually
from tests.harness.server import start_embedded

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "tutorial"
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
TEAM = GroupVersionKind("example.io", "v1", "Team")
MANIFEST = yaml.safe_load((EXAMPLE / "team.yaml").read_text())


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_shows_the_files_as_they_are() -> None:
    files = {path: path.read_text() for path in EXAMPLE.rglob("*.py")}
    shown: dict[str, list[str]] = {}
    for block in blocks("py"):
        [path] = [path for path, text in files.items() if block in text]
        shown.setdefault(path.name, []).append(block)
    partly = {"test_team.py", "__init__.py"}
    assert {path.name for path in files} - partly == shown.keys() - partly
    for path, text in files.items():
        if path.name not in partly:
            assert "\n\n".join(shown[path.name]) == text, path


def test_the_entry_point_of_the_page_is_that_of_the_package() -> None:
    [block] = blocks("toml")
    assert block == (EXAMPLE / "pyproject.toml").read_text()


def test_the_page_shows_every_file_of_the_folder() -> None:
    for path in EXAMPLE.rglob("*"):
        if path.is_file() and path.suffix in (".py", ".yaml", ".toml"):
            assert f"`{path.relative_to(EXAMPLE)}`" in PAGE or path.name == "__init__.py", path
    assert (EXAMPLE / "team.yaml").read_text() in PAGE
    assert "touch team_operator/__init__.py" in PAGE


def test_the_tests_of_the_example_pass(wheel_programs: Path, tmp_path: Path) -> None:
    copy = [str(wheel_programs / "quarterdeck"), "examples", "tutorial", "--to", str(tmp_path / "tutorial")]
    subprocess.run(copy, check=True)
    done = subprocess.run(
        [wheel_programs / "pytest", "-q"],
        cwd=tmp_path / "tutorial",
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


@contextmanager
def process(python: Path, *command: str, environment: Mapping[str, str]) -> Iterator[None]:
    """A process that must end with code 0 when it is asked to."""
    running = subprocess.Popen([python, "-m", *command], cwd=EXAMPLE, env=environment)
    try:
        yield
        running.terminate()
        assert running.wait(20) == 0
    finally:
        running.kill()
        running.wait()


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds the example as if pip had installed it."""
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    metadata = tmp_path / "team_operator-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: team-operator\nVersion: 0.1.0\n")
    sections = [
        "\n".join([f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())])
        for group, entries in points.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(sections))
    path = os.pathsep.join([str(EXAMPLE), str(tmp_path)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def team(name: str = "vision") -> DynamicObject:
    return DynamicObject({**MANIFEST, "metadata": {"name": name}})


async def ready(client: Client, wanted: str) -> None:
    async def probe() -> bool:
        found = await client.get(TEAM, "vision")
        conditions = {each["type"]: each for each in found.at("status", "conditions", default=()) or ()}
        return "Ready" in conditions and conditions["Ready"]["status"] == wanted

    await eventually(probe, timeout=20)


async def gone(client: Client, kind: type[Namespace] | GroupVersionKind, name: str) -> None:
    async def probe() -> bool:
        try:
            await client.get(kind, name)
        except NotFound:
            return True
        return False

    await eventually(probe, timeout=20)


async def play(client: Client) -> None:
    """Part 6 of the tutorial."""

    async def applied() -> DynamicObject | None:
        try:
            return await client.create(team())
        except (NoKindMatch, NotFound):
            return None  # the operator has not installed the definition yet

    vision = await eventually(applied, timeout=20)
    await ready(client, "True")

    quota = await client.get(ResourceQuota, "gpus", "team-vision")
    await client.delete(quota)
    await eventually(lambda: client.get(ResourceQuota, "gpus", "team-vision"), timeout=20)

    first = await client.get(Namespace, "team-vision")
    await client.delete(first)

    async def replaced() -> bool:
        await client.get(ResourceQuota, "gpus", "team-vision")
        return (await client.get(Namespace, "team-vision")).metadata.uid != first.metadata.uid

    await eventually(replaced, timeout=20)

    with pytest.raises(Invalid, match="spec: Invalid value: at most 8 GPUs for each member"):
        await client.patch(vision, MergePatch({"spec": {"gpus": 99}}))
    await ready(client, "True")
    spec = PodSpec(containers=(Container(name="main", image="busybox"),))
    pod = await client.create(Pod(metadata=ObjectMeta(name="train", namespace="team-vision"), spec=spec))

    async def counted() -> bool:
        return bool((await client.get(TEAM, "vision")).at("status", "pods") == 1)

    await eventually(counted, timeout=20)
    await client.delete(vision)
    await ready(client, "False")
    await client.delete(pod)
    await gone(client, TEAM, "vision")
    await gone(client, Namespace, "team-vision")


def test_what_happens_when_one_plays_with_it(wheel_programs: Path) -> None:
    server = start_embedded()
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "PYTHONDONTWRITEBYTECODE": "1"}

    async def story() -> None:
        async with Client.connect(Config.load(server.kubeconfig)) as client:
            await play(client)

    try:
        with process(wheel_programs / "python", "team_operator", environment=environment):
            asyncio.run(story())
    finally:
        server.stop()


def test_up_runs_it_among_the_operators(
    installed: dict[str, str], tmp_path: Path, wheel_programs: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    options = ("--port", "0", "--operators", "team", "--kubeconfig", str(kubeconfig))

    async def story() -> None:
        await eventually(kubeconfig.exists, timeout=30)  # written when everything is ready
        async with Client.connect(Config.load(kubeconfig)) as client:
            await client.create(team())
            await ready(client, "True")
            with pytest.raises(
                Forbidden, match=r'"vteam.example.io" denied the request: ada is in team vision'
            ):
                await client.create(team("speech"))

    with process(wheel_programs / "python", "quarterdeck.cli", "up", *options, environment=installed):
        asyncio.run(story())


def test_the_manifests_hold_its_definition_and_permissions(
    installed: dict[str, str], wheel_programs: Path
) -> None:
    command = [str(wheel_programs / "quarterdeck"), "manifests", "--operators", "team"]
    printed = subprocess.run(command, env=installed, capture_output=True, text=True, check=True).stdout
    documents = {each["kind"]: each for each in load_documents(printed)}
    assert documents["CustomResourceDefinition"]["metadata"]["name"] == "teams.example.io"
    allowed = {
        (resource, verb)
        for rule in documents["ClusterRole"]["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {
        ("namespaces", "delete"),
        ("pods", "watch"),
        ("teams", "patch"),
        ("teams/status", "patch"),
    } <= allowed
    assert not {("pods", "delete"), ("teams", "delete"), ("secrets", "get")} & allowed
