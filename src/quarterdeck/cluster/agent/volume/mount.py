"""What a container sees of its pod: the pod's own files, and volumes. Pure, but for looking at sub-paths."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from quarterdeck.api.k8s import Pod
from quarterdeck.api.k8s.pod import VolumeMount
from quarterdeck.cluster.agent.environment.variable import ContainerConfigError, expand
from quarterdeck.cluster.agent.record.folder import MESSAGE, PodFolder
from quarterdeck.cluster.agent.record.view import AnyContainer
from quarterdeck.cluster.agent.shim.order import Bind

_MESSAGE_PATH: Final = "/dev/termination-log"


def container_binds(
    pod: Pod,
    container: AnyContainer,
    folder: PodFolder,
    run: Path,
    volumes: Mapping[str, Path],
    environment: Mapping[str, str],
) -> list[Bind]:
    """What is mounted where. Raises ``ContainerConfigError``."""
    made = [Bind(source=str(folder.etc("resolv.conf")), target="/etc/resolv.conf")]
    if pod.spec.host_network is not True:
        made += [
            Bind(source=str(folder.etc("hosts")), target="/etc/hosts"),
            Bind(source=str(folder.etc("hostname")), target="/etc/hostname"),
        ]
    else:
        made.append(Bind(source=str(folder.etc("hosts")), target="/etc/hosts"))
    made.append(Bind(source=str(run / MESSAGE), target=container.termination_message_path or _MESSAGE_PATH))
    taken = {mount.mount_path.rstrip("/") for mount in container.volume_mounts}
    made = [each for each in made if each.target not in taken]
    images = {volume.name for volume in pod.spec.volumes if volume.image}
    made_here = {
        each.name
        for each in pod.spec.volumes
        if each.config_map or each.secret or each.projected or each.downward_api
    }
    # Outer paths first: a mount inside another must come after it.
    for mount in sorted(container.volume_mounts, key=lambda each: each.mount_path.count("/")):
        source = _source(mount, container, volumes, environment)
        is_image = mount.name in images
        if not source.exists():
            _make(source, mount, is_image=is_image)
        is_read_only = mount.read_only is True or is_image or mount.name in made_here
        made.append(Bind(source=str(source), target=mount.mount_path, read_only=is_read_only))
    return made


def _source(
    mount: VolumeMount, container: AnyContainer, volumes: Mapping[str, Path], environment: Mapping[str, str]
) -> Path:
    volume = volumes.get(mount.name)
    if volume is None:
        raise ContainerConfigError(
            f'cannot find volume "{mount.name}" to mount into container "{container.name}"'
        )
    part = expand(mount.sub_path_expr, environment) if mount.sub_path_expr else mount.sub_path
    if not part:
        return volume
    if "$(" in part:
        raise ContainerConfigError(f"missing value for subPathExpr {mount.sub_path_expr}")
    if part.startswith("/"):
        raise ContainerConfigError(f"error SubPath `{part}` must not be an absolute path")
    if ".." in part.split("/"):
        raise ContainerConfigError(f"unable to provision SubPath `{part}`: must not contain '..'")
    path = volume / part
    real, base = os.path.realpath(path), os.path.realpath(volume)
    if real != base and not real.startswith(base + os.sep):
        raise ContainerConfigError(
            f'failed to prepare subPath for volumeMount "{mount.name}" of container "{container.name}"'
        )
    return Path(real)


def _make(source: Path, mount: VolumeMount, *, is_image: bool) -> None:
    """A folder for a sub-path that is not there yet; images are others', too, and stay as they are."""
    if is_image:
        raise ContainerConfigError(
            f'subPath "{mount.sub_path or mount.sub_path_expr}" is not in the image of volume "{mount.name}"'
        )
    source.mkdir(parents=True, mode=0o777)
    source.chmod(0o777)
