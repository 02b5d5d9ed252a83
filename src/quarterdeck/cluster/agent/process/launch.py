"""From a container as a pod has it to a process of this machine, as the shim runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from quarterdeck.api import value_or
from quarterdeck.api.k8s import Pod
from quarterdeck.api.k8s.pod import PodSecurityContext, SecurityContext
from quarterdeck.cluster.agent.container.runtime import UnknownImage
from quarterdeck.cluster.agent.environment.variable import ContainerConfigError, expanded
from quarterdeck.cluster.agent.network.hosts import hostname, system_name
from quarterdeck.cluster.agent.process.image import ImageRule
from quarterdeck.cluster.agent.record.folder import PodFolder
from quarterdeck.cluster.agent.record.view import AnyContainer
from quarterdeck.cluster.agent.shim.order import Launch
from quarterdeck.cluster.agent.volume.mount import container_binds

_TOKEN_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine and this user can do."""

    namespaces: tuple[str, ...]
    uid: int
    gid: int
    groups: tuple[int, ...]
    environment: Mapping[str, str]
    """What every container has before anything else."""
    hidden: tuple[str, ...] = ()
    """Folders that no container sees: keys, sockets and other pods' volumes."""
    is_writable: bool = False
    """Whether containers may write to the machine's files as far as the user may."""


def make_launch(
    pod: Pod,
    container: AnyContainer,
    *,
    folder: PodFolder,
    run: Path,
    volumes: Mapping[str, Path],
    environment: Mapping[str, str],
    image: ImageRule | None,
    machine: Machine,
    cgroups: Sequence[str] = (),
    oom_score: int = 0,
) -> Launch:
    """What to run. Raises ``ContainerConfigError`` for what cannot be done here, and says what that is."""
    argv = _argv(container, image, environment)
    namespaces = _namespaces(pod, machine)
    context = container.security_context or SecurityContext()
    whole = pod.spec.security_context or PodSecurityContext()
    uid, gid, groups = _identity(pod, container, context, whole, machine)
    has_mounts = "mount" in namespaces
    binds = container_binds(pod, container, folder, run, volumes, environment) if has_mounts else []
    if not has_mounts:
        _check_mounts(container, volumes)
    variables = {**machine.environment, "HOSTNAME": hostname(pod)}
    if image is not None:
        variables |= dict(image.environment)
    if container.tty is True:
        variables["TERM"] = "xterm"
    if not has_mounts:
        variables["QUARTERDECK_VOLUMES"] = str(folder.path / "volumes")
    name = system_name(pod)
    cwd = container.working_dir or (image.working_dir if image is not None else "")
    return Launch(
        argv=argv,
        env={**variables, **environment},
        cwd=cwd or ("/" if has_mounts else str(run)),
        hostname=name,
        namespaces=list(namespaces),
        uid=uid,
        gid=gid,
        groups=groups,
        root=image.root if image is not None else "/",
        is_writable=machine.is_writable,
        is_root_read_only=context.read_only_root_filesystem is True,
        binds=binds,
        hidden=list(machine.hidden),
        cgroups=list(cgroups),
        limits={"RLIMIT_CORE": 0},
        oom_score=oom_score,
        no_new_privileges=context.allow_privilege_escalation is not True or machine.uid != 0,
        tty=container.tty is True,
        stdin=container.stdin is True,
        stdin_once=container.stdin_once is True,
    )


def _argv(container: AnyContainer, image: ImageRule | None, environment: Mapping[str, str]) -> list[str]:
    command, args = expanded(container.command, environment), expanded(container.args, environment)
    if command:
        return [*command, *args]
    if image is None or not (image.command or image.args or args):
        raise UnknownImage(
            f'Container image "{container.image}" is not present with pull policy of Never: this node runs '
            "programs of the machine, so give the container a command, or a rule for the image in the "
            "settings of the node (images: pattern, command)"
        )
    return [*image.command, *(args or image.args)]


def _namespaces(pod: Pod, machine: Machine) -> list[str]:
    left_out = {
        name
        for name, is_shared in (("pid", pod.spec.host_pid), ("ipc", pod.spec.host_ipc))
        if is_shared is True
    }
    return [name for name in machine.namespaces if name not in left_out]


def _identity(
    pod: Pod, container: AnyContainer, context: SecurityContext, whole: PodSecurityContext, machine: Machine
) -> tuple[int, int, list[int] | None]:
    def refuse(field: str, why: str) -> ContainerConfigError:
        return ContainerConfigError(f"container {container.name}: securityContext.{field} {why}")

    if context.privileged is True:
        raise refuse("privileged", "is not possible: programs run with the rights of the agent's user")
    if context.capabilities and context.capabilities.add and machine.uid != 0:
        names = ", ".join(context.capabilities.add)
        raise refuse("capabilities.add", f"({names}) is not possible: the agent has none to give")
    seccomp = context.seccomp_profile or whole.seccomp_profile
    if seccomp and seccomp.type == "Localhost":
        raise refuse("seccompProfile", "of type Localhost is not possible with the process runtime")
    uid = value_or(context.run_as_user, value_or(whole.run_as_user, -1))
    gid = value_or(context.run_as_group, value_or(whole.run_as_group, -1))
    non_root = context.run_as_non_root if isinstance(context.run_as_non_root, bool) else whole.run_as_non_root
    effective = uid if uid >= 0 else machine.uid
    if non_root is True and effective == 0:
        where = f'pod: "{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"'
        what = (
            "container's runAsUser breaks non-root policy"
            if uid == 0
            else "container has runAsNonRoot and image will run as root"
        )
        raise ContainerConfigError(f"{what} ({where}, container: {container.name})")
    groups = list(whole.supplemental_groups)
    if isinstance(whole.fs_group, int):
        groups.append(whole.fs_group)
    if machine.uid == 0:
        return uid, gid, (groups if groups or uid > 0 else None)
    if "user" not in machine.namespaces:
        if uid not in (-1, machine.uid):
            raise refuse("runAsUser", f"{uid} is not possible: the agent runs as {machine.uid}")
        if gid not in (-1, machine.gid, *machine.groups):
            raise refuse("runAsGroup", f"{gid} is not possible: the agent's user is not in that group")
    others = [each for each in whole.supplemental_groups if each not in (machine.gid, *machine.groups)]
    if others:
        raise refuse("supplementalGroups", f"{others} is not possible: the agent's user is not in them")
    return uid, gid, None


def _check_mounts(container: AnyContainer, volumes: Mapping[str, Path]) -> None:
    """Without a mount namespace a volume is only where it is."""
    for mount in container.volume_mounts:
        if mount.mount_path == _TOKEN_FOLDER:
            continue  # every pod has it, few look
        volume = volumes.get(mount.name)
        if volume is None or str(volume) != mount.mount_path.rstrip("/"):
            raise ContainerConfigError(
                f"volumeMounts[{mount.name}].mountPath {mount.mount_path} cannot be made: this machine does "
                "not allow mount namespaces for this user; the volume's files are below $QUARTERDECK_VOLUMES"
            )
