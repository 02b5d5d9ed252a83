"""One cluster with this machine as its node for the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .nodekit import KUBECTL, LocalCluster, Space, local_cluster

CONFIG = {
    "node": {
        "images": [
            {
                "pattern": "*/known:*",
                "command": ["echo"],
                "args": ["by default"],
                "environment": {"MADE_BY": "image"},
            }
        ]
    }
}


GPU_TOOL = """#!/bin/sh
echo "GPU 0: A device that is not there (UUID: GPU-0)"
echo "GPU 1: A device that is not there (UUID: GPU-1)"
"""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The machine has two GPUs, as far as ``nvidia-smi`` says."""
    if KUBECTL is None:
        pytest.skip("there is no kubectl on PATH")
    tools = tmp_path_factory.mktemp("tools")
    (tools / "nvidia-smi").write_text(GPU_TOOL)
    (tools / "nvidia-smi").chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    with local_cluster(tmp_path_factory.mktemp("node"), config=CONFIG, environment={"PATH": path}) as running:
        yield running


@pytest.fixture
def space(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Space]:
    name = request.node.name.removeprefix("test_").replace("_", "-").replace("[", "-").replace("]", "")
    with cluster.space(name[:60].strip("-")) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
