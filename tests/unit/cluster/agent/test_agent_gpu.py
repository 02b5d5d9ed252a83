"""Which GPUs a container has, and what the machine says it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarterdeck.cluster.agent.container.gpu import give_back, gpu_variables, take_devices
from quarterdeck.cluster.agent.environment.variable import ContainerConfigError
from quarterdeck.cluster.agent.machine.machine import read_facts
from quarterdeck.cluster.agent.record.folder import PodFolder, PodRecord


def folder(node: Path, uid: str) -> PodFolder:
    made = PodFolder(node, uid)
    made.set_up(PodRecord(namespace="n", name=uid, uid=uid))
    return made


def test_no_gpu_is_given_twice_and_a_restart_keeps_its_own(tmp_path: Path) -> None:
    one, two = folder(tmp_path, "one"), folder(tmp_path, "two")
    pods = [one, two]
    assert take_devices(one, "a", 2, count=4, others=pods) == (0, 1)
    assert take_devices(one, "b", 1, count=4, others=pods) == (2,)
    assert take_devices(two, "a", 1, count=4, others=pods) == (3,)
    # Another agent finds what the folders say.
    again = PodFolder(tmp_path, "one")
    assert take_devices(again, "a", 2, count=4, others=[again, PodFolder(tmp_path, "two")]) == (0, 1)
    with pytest.raises(ContainerConfigError, match="wants 1 GPUs, and 0 are free"):
        take_devices(folder(tmp_path, "three"), "a", 1, count=4, others=pods)
    give_back(one)
    assert take_devices(folder(tmp_path, "three"), "a", 1, count=4, others=pods) == (0,)


def test_programs_are_told_of_their_devices_alone() -> None:
    assert gpu_variables((1, 3)) == {"NVIDIA_VISIBLE_DEVICES": "1,3", "CUDA_VISIBLE_DEVICES": "1,3"}
    assert gpu_variables(()) == {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}


def test_gpus_are_counted_by_the_vendors_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: A (UUID: GPU-0)'; echo 'GPU 1: A (UUID: GPU-1)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert read_facts(tmp_path).allocatable["nvidia.com/gpu"].value == 2
