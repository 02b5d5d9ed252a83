"""What the runtime ``process`` makes of a container, and what it refuses, by what the user may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quarterdeck.cluster.agent.container.runtime import Wanted
from quarterdeck.cluster.agent.environment.variable import ContainerConfigError
from quarterdeck.cluster.agent.process.launch import Machine
from quarterdeck.cluster.agent.process.runtime import ProcessRuntime
from quarterdeck.cluster.agent.record.folder import PodFolder
from quarterdeck.cluster.agent.shim.order import Launch

from .podkit import pod

ALL = ("user", "mount", "uts", "ipc", "pid")


def runtime(*namespaces: str) -> ProcessRuntime:
    machine = Machine(namespaces=namespaces, uid=1001, gid=1001, groups=(1001,), environment={})
    return ProcessRuntime(machine, (), ("127.0.0.1", 443))


def launch(folder: Path, *namespaces: str, **spec: Any) -> Launch:
    own = PodFolder(folder, "u")
    container = {"name": "main", "image": "i", "command": ["id"], **spec.pop("container", {})}
    some = pod(**{"containers": [container], **spec})
    volumes = {each.name: own.volume(each.name) for each in some.spec.volumes}
    for each in volumes.values():
        each.mkdir(parents=True, exist_ok=True)
    wanted = Wanted(
        pod=some,
        container=some.spec.containers[0],
        folder=own,
        volumes=volumes,
        environment={},
        oom_score=0,
    )
    return runtime(*namespaces).launch(wanted, own.run_path("main", 0), ())


def test_what_is_missing_is_said() -> None:
    assert runtime(*ALL).shortcoming == ""
    assert "(pid)" in runtime("user", "mount", "uts", "ipc").shortcoming
    nothing = runtime().shortcoming
    assert "(mount, uts, ipc, pid)" in nothing
    assert "$QUARTERDECK_VOLUMES" in nothing


def test_volumes_are_where_they_are_without_a_mount_namespace(tmp_path: Path) -> None:
    volumes = [{"name": "e", "emptyDir": {}}]
    made = launch(tmp_path, volumes=volumes)
    assert made.env["QUARTERDECK_VOLUMES"] == str(tmp_path / "pods" / "u" / "volumes")
    assert made.binds == []
    mounts = {"volumeMounts": [{"name": "e", "mountPath": "/e"}]}
    with pytest.raises(ContainerConfigError, match=r"volumeMounts\[e\]\.mountPath /e cannot be made"):
        launch(tmp_path, volumes=volumes, container=mounts)


@pytest.mark.parametrize(
    ("source", "is_read_only"),
    [
        ({"emptyDir": {}}, False),
        ({"configMap": {"name": "x"}}, True),
        ({"secret": {"secretName": "x"}}, True),
        ({"projected": {"sources": []}}, True),
        ({"downwardAPI": {"items": []}}, True),
    ],
)
def test_volumes_made_from_objects_are_read_only(
    tmp_path: Path, source: dict[str, Any], is_read_only: bool
) -> None:
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    made = launch(tmp_path, *ALL, volumes=[{"name": "v", **source}], container=mounts)
    assert [each.read_only for each in made.binds if each.target == "/v"] == [is_read_only]


@pytest.mark.parametrize(
    ("namespaces", "context", "words"),
    [
        (ALL, {"runAsNonRoot": True, "runAsUser": 0}, "container's runAsUser breaks non-root policy"),
        (ALL, {"supplementalGroups": [77]}, "supplementalGroups [77] is not possible"),
        ((), {"runAsUser": 5}, "runAsUser 5 is not possible: the agent runs as 1001"),
        ((), {"runAsGroup": 5}, "runAsGroup 5 is not possible"),
    ],
)
def test_what_the_user_cannot_grant_is_refused_by_name(
    tmp_path: Path, namespaces: tuple[str, ...], context: dict[str, Any], words: str
) -> None:
    with pytest.raises(ContainerConfigError) as refused:
        launch(tmp_path, *namespaces, securityContext=context)
    assert words in str(refused.value)


def test_a_user_namespace_has_the_ids_that_are_asked_for(tmp_path: Path) -> None:
    made = launch(tmp_path, *ALL, securityContext={"runAsUser": 1234, "runAsGroup": 5678})
    assert (made.uid, made.gid) == (1234, 5678)
