"""Renderings of random TrainJobs and runtimes: as recorded, and right by rules that know no plugins."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quarterdeck.api import to_dict

from .trainerkit import job_of
from .trainerrandom import COUNT, POLICIES, RECORDED, made, rendered

Json = dict[str, Any]
EXPECTED: Json = json.loads(RECORDED.read_text())


@pytest.mark.parametrize("number", range(COUNT))
def test_renderings_are_as_recorded(number: int) -> None:
    """If a change is wanted: ``python -m tests.unit.operators.trainer.trainerrandom``; read the diff."""
    assert rendered(number) == EXPECTED[str(number)]


@pytest.mark.parametrize("number", range(COUNT, COUNT + 200))
def test_renderings_are_right_whatever_is_asked_for(number: int) -> None:
    made_of, job = made(number)
    asked, source = to_dict(job.spec), to_dict(made_of.spec)
    objects = rendered(number)["objects"]
    jobset = objects["JobSet/job"]
    assert jobset["spec"]["suspend"] is asked["suspend"]
    order = [each["name"] for each in source["template"]["spec"]["replicatedJobs"]]
    assert [each["name"] for each in jobset["spec"]["replicatedJobs"]] == order
    for name in order:
        spec = job_of(jobset, name)["template"]["spec"]
        assert spec["parallelism"] == spec["completions"] == _pods(name, number, asked, source)
        for container in spec["template"]["spec"]["containers"]:
            names = [entry["name"] for entry in container.get("env") or ()]
            assert len(names) == len(set(names))
    if "mpi" in source["mlPolicy"]:
        assert _hosts(objects) == sum(
            _pods(name, number, asked, source) * job_of(jobset, name).get("replicas", 1)
            for name in _training(source)
        )
    for reference in jobset["metadata"]["ownerReferences"]:
        assert (reference["kind"], reference["uid"], reference["controller"]) == ("TrainJob", "uid-1", True)


def _pods(name: str, number: int, asked: Json, source: Json) -> int:
    """How many pods a replicated job has, by the words of the documentation."""
    nodes: int | None = (asked.get("trainer") or {}).get("numNodes")
    default: int = source["mlPolicy"]["numNodes"]
    policy = POLICIES[number % len(POLICIES)]
    if name == "dataset-initializer":
        return 1
    if policy.startswith("mpi"):
        if name == "launcher":
            return default
        return 1 if nodes is None else max(nodes - 1, 1) if policy == "mpi-launcher" else nodes
    return default if nodes is None else nodes


def _training(source: Json) -> list[str]:
    is_launcher_node = source["mlPolicy"]["mpi"]["runLauncherAsNode"]
    return ["launcher", "node"] if is_launcher_node else ["node"]


def _hosts(objects: Json) -> int:
    return len(objects["ConfigMap/job-mpi-hostfile"]["data"]["hostfile"].splitlines())
