"""`quarterdeck status`, `check` and `top --once` as processes, on a cluster with a crash loop."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.cli.health import assess_cluster
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.testing import TestCluster

from .test_health import _FAILS, pod

COMMAND = (sys.executable, "-m", "quarterdeck.cli")
REASON = "container main ends with exit code 1 again and again"


def printed(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout


async def cluster_has(situation: str, cluster: TestCluster) -> None:
    for _ in range(600):
        found = await assess_cluster(cluster.client)
        if any(each.situation == situation for each in found.problems):
            return
        await asyncio.sleep(0.2)
    raise AssertionError(found)


@pytest.mark.real_time(limit=180)
async def test_the_commands_tell_the_same_problem_and_check_fails(tmp_path: Path) -> None:
    nodes = Workloads(nodes=NodeSettings(count=1))
    async with TestCluster(controllers=nodes, listen=True) as cluster:
        where = ("--kubeconfig", str(cluster.write_kubeconfig(tmp_path / "kubeconfig")))
        await cluster.client.create(DynamicObject(pod("crashes", note=_FAILS)))
        await cluster_has("pod-crash-loop", cluster)
        code, text = await asyncio.to_thread(printed, "check", "health", "-o", "json", *where)
        found = {each["invariant"]: each for each in json.loads(text)}
        assert (code, found["health/pod-crash-loop"]["problem"]) == (1, REASON)
        code, text = await asyncio.to_thread(printed, "check", *where)
        assert (code, REASON in text) == (0, True), "trouble of a workload breaks no invariant"
        code, text = await asyncio.to_thread(printed, "status", *where)
        assert code == 0
        assert text.splitlines()[0].endswith(": 1 critical")
        assert f"): {REASON}, for " in text
        assert "to do: kubectl logs pod/crashes -n default -c main --previous" in text
        code, text = await asyncio.to_thread(printed, "top", "--once", *where)
        assert (code, text.splitlines()[0]) == (0, "health: 1 critical")
        assert REASON in text.splitlines()[1]


def test_a_cluster_that_does_not_answer_is_in_trouble(tmp_path: Path) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": {"token": "x"}}],
        "current-context": "a",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(config))
    code, text = printed("status", "--kubeconfig", str(file))
    assert (code, text.splitlines()[0]) == (0, "https://127.0.0.1:1: 1 critical")
    assert "critical: APIServer https://127.0.0.1:1: it does not answer" in text
