"""What pods have on the node's disk: their volumes, logs and what containers wrote. Blocking."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.agent.machine.eviction import PodUse, storage_excess
from quarterdeck.cluster.agent.record.folder import PodFolder


def _measure(path: Path, count: Callable[[os.stat_result], int]) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # gone meanwhile
                total += count(os.lstat(os.path.join(folder, name)))
    return total


def _use(pod: Pod, folder: PodFolder, count: Callable[[os.stat_result], int]) -> PodUse:
    names = folder.containers()
    containers = {name: _measure(folder.path / f"c-{name}", count) for name in names}
    return PodUse(pod, containers, _measure(folder.path / "volumes", count))


def pod_storage(pod: Pod, folder: PodFolder) -> PodUse:
    """Bytes on disk of a pod. Volumes in memory and of the machine are not among them."""
    return _use(pod, folder, lambda found: found.st_blocks * 512)


def pod_files(pod: Pod, folder: PodFolder) -> PodUse:
    """Numbers of files of a pod."""
    return _use(pod, folder, lambda _: 1)


def is_limited(pod: Pod) -> bool:
    """Whether a pod may have only so much on disk."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return any("ephemeral-storage" in each.resources.limits for each in containers) or any(
        each.empty_dir and each.empty_dir.size_limit for each in pod.spec.volumes
    )


def storage_problem(pod: Pod, folder: PodFolder, volume: Callable[[str], Path]) -> str:
    """What a pod has too much of, in a kubelet's words; empty if nothing. ``volume`` says where one is."""
    for each in pod.spec.volumes:
        limit = each.empty_dir.size_limit if each.empty_dir else None
        if limit and _measure(volume(each.name), lambda found: found.st_blocks * 512) > limit.value:
            return f'Usage of EmptyDir volume "{each.name}" exceeds the limit "{limit}". '
    return storage_excess(pod_storage(pod, folder))
