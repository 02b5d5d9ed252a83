"""Configurations as upstream's users have them, and the profile that one of their switches is about."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterdeck.cli.main import main
from quarterdeck.errors import ConfigError
from quarterdeck.operators.grove.assembly import GroveOperator
from quarterdeck.operators.grove.backends import BackendRegistry
from quarterdeck.operators.grove.configuration.source import configuration_in
from quarterdeck.runtime.health.profile import PROFILE_PATH, serve_profile, stacks_during
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.testing import TestCluster
from quarterdeck.wire.http import Request, Response

from .grovekit import NS

ALONE: dict[str, Any] = {
    "apiVersion": "operator.config.grove.io/v1alpha1",
    "kind": "OperatorConfiguration",
    "logLevel": "debug",
    "controllers": {"podClique": {"concurrentSyncs": 7}},
}
VALUES: dict[str, Any] = {
    "replicaCount": 2,
    "image": {"repository": "grove-operator"},
    "config": {
        "logLevel": "debug",
        "controllers": {"podClique": {"concurrentSyncs": 7}},
        "server": {"healthProbes": {"enable": True, "port": 9444}},
        "scheduler": {"profiles": [{"name": "default-scheduler"}, {"name": "kai-scheduler"}]},
    },
}
CONFIG_MAP: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "grove-operator-cm-1"},
    "data": {"config.yaml": yaml.safe_dump(ALONE)},
}


SETTINGS: dict[str, Any] = {"operators": {"grove": ALONE, "kai": {}}}


@pytest.mark.parametrize(
    "document", [ALONE, VALUES, CONFIG_MAP, SETTINGS], ids=["alone", "values", "config-map", "settings"]
)
@pytest.mark.parametrize("is_setting", [False, True])
def test_files_of_upstream_are_read_as_they_are(
    document: dict[str, Any], is_setting: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(yaml.safe_dump(document))
    more = ["--settings"] if is_setting else []
    assert main(["grove", "convert-config", str(path), *more]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    found = printed["operators"]["grove"] if is_setting else printed
    assert found["kind"] == "OperatorConfiguration"
    assert found["logLevel"] == "debug"
    assert found["controllers"]["podClique"]["concurrentSyncs"] == 7
    assert found["runtimeClientConnection"]["qps"] == 100.0
    if document is VALUES:
        assert found["server"]["healthProbes"] == {"bindAddress": "", "port": 9444}
        assert found["scheduler"]["defaultProfileName"] == "default-scheduler"


@pytest.mark.parametrize(
    ("data", "text"),
    [({}, "no config.yaml"), ({"config.yaml": "- 1"}, "expected"), ({"config.yaml": "{"}, "config.yaml of")],
)
def test_a_config_map_of_something_else_is_refused(data: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        configuration_in({"kind": "ConfigMap", "data": data})


@pytest.mark.parametrize("is_on", [False, True])
async def test_profiles_are_served_to_those_with_the_right_where_they_are_switched_on(is_on: bool) -> None:
    async with TestCluster() as cluster:
        settings = {"debugging": {"enableProfiling": is_on}}
        environment = OperatorEnvironment(name="grove", settings=settings, namespace=NS)
        made = GroveOperator(BackendRegistry(find=tuple), {}).setup(cluster.manager(), environment)
        assert (PROFILE_PATH in made.endpoints) is is_on
        assert PROFILE_PATH not in made.open_endpoints


def test_stacks_name_the_thread_and_its_calls_from_the_outermost_on() -> None:
    ended = threading.Event()
    sleeper = threading.Thread(target=ended.wait, name="sleeper")
    sleeper.start()
    try:
        found = stacks_during(0.05)
    finally:
        ended.set()
        sleeper.join()
    stack = next(each for each in found if each.startswith("sleeper;"))
    assert stack.index("Thread._bootstrap ") < stack.index("Event.wait ")
    assert "stacks_during" not in "".join(found)


@pytest.mark.parametrize(
    ("query", "status"), [("seconds=0.02", 200), ("seconds=x", 400), ("seconds=999", 400)]
)
async def test_a_profile_takes_as_long_as_asked(query: str, status: int) -> None:
    answer = await serve_profile(Request("GET", PROFILE_PATH, query))
    assert isinstance(answer, Response)
    assert answer.status == status
    if status == 200:
        stack, count = answer.body.decode().splitlines()[0].rsplit(" ", 1)
        assert ";" in stack
        assert int(count) > 0
