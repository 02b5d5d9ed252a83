"""``config.json`` of a container, as the OCI runtime specification has it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import value_or
from quarterdeck.api.k8s import Pod
from quarterdeck.api.k8s.pod import PodSecurityContext, SecurityContext
from quarterdeck.api.model import EMPTY_MAP
from quarterdeck.cluster.agent.environment.variable import ContainerConfigError, expanded
from quarterdeck.cluster.agent.oci.capability import ALL, chosen_capabilities
from quarterdeck.cluster.agent.oci.identity import Identity, find_identity
from quarterdeck.cluster.agent.oci.seccomp import default_profile
from quarterdeck.cluster.agent.record.view import AnyContainer
from quarterdeck.cluster.agent.shim.order import Bind
from quarterdeck.cluster.image.document import ImageConfig

ROOT: Final = "rootfs"
"""The container's root folder, in its run folder."""
_VERSION: Final = "1.0.2"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MASKED: Final = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/scsi",
    "/proc/sched_debug",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
_READ_ONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_OPEN_FILES: Final = 1024 * 1024
_CGROUPS: Final = "/sys/fs/cgroup"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a container is to run, and what is there."""

    hostname: str = ""
    namespaces: Mapping[str, str] = EMPTY_MAP
    """Files of the pod's namespaces by kind, such as ``network``."""
    passwd: str = ""
    group: str = ""
    """Files of the image that say who is who."""
    cgroup: str = ""
    """Path of its control group, for runtimes that insist on making one."""
    groups: Mapping[str, str] = EMPTY_MAP
    """Folders of its control groups by the places where it sees them."""
    oom_score: int = 0
    """How gladly the kernel ends it when memory is short, from -1000 to 1000."""
    available: frozenset[str] = ALL
    """Capabilities that the agent has."""
    open_files: int = _OPEN_FILES
    """As many as the agent may let others open."""


def make_spec(
    pod: Pod,
    container: AnyContainer,
    *,
    image: ImageConfig,
    binds: Sequence[Bind],
    environment: Mapping[str, str],
    place: Place,
) -> dict[str, Any]:
    """The document. Raises ``ContainerConfigError`` for what cannot be done, and says what that is."""
    context = container.security_context or SecurityContext()
    whole = pod.spec.security_context or PodSecurityContext()
    _refuse_impossible(pod, container)
    who = _identity(pod, container, context, whole, image, place)
    is_privileged = context.privileged is True
    wishes = context.capabilities
    capabilities = chosen_capabilities(
        wishes.add if wishes else (),
        wishes.drop if wishes else (),
        privileged=is_privileged,
        available=place.available,
    )
    is_unmasked = is_privileged or context.proc_mount == "Unmasked"
    linux: dict[str, Any] = {
        "namespaces": _namespaces(pod, place),
        "maskedPaths": [] if is_unmasked else list(_MASKED),
        "readonlyPaths": [] if is_unmasked else list(_READ_ONLY),
        "sysctl": _sysctls(pod, whole),
        "resources": {"devices": [{"allow": is_privileged, "access": "rwm"}]},
    }
    if place.cgroup:
        linux["cgroupsPath"] = place.cgroup
    profile = context.seccomp_profile or whole.seccomp_profile
    if not is_privileged and not (profile and profile.type == "Unconfined"):
        linux["seccomp"] = default_profile(capabilities)
    open_files = min(_OPEN_FILES, place.open_files)
    spec: dict[str, Any] = {
        "ociVersion": _VERSION,
        "root": {"path": ROOT, "readonly": context.read_only_root_filesystem is True},
        "process": {
            "terminal": container.tty is True,
            "args": _arguments(container, image, environment),
            "env": _environment(pod, container, image, environment, who, place),
            "cwd": container.working_dir or image.config.working_dir or "/",
            "user": {"uid": who.uid, "gid": who.gid, "additionalGids": list(who.groups)},
            "capabilities": _sets(capabilities, who.uid),
            "rlimits": [
                {"type": "RLIMIT_NOFILE", "soft": open_files, "hard": open_files},
                {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
            ],
            "noNewPrivileges": not is_privileged and context.allow_privilege_escalation is False,
            "oomScoreAdj": place.oom_score,
        },
        "mounts": [
            *_own_mounts(pod, is_privileged),
            *_group_mounts(place.groups, is_privileged),
            *(_bind(each) for each in binds),
        ],
        "linux": linux,
    }
    if pod.spec.host_network is not True:
        spec["hostname"] = place.hostname[:64]
    return spec


def _refuse_impossible(pod: Pod, container: AnyContainer) -> None:
    def refuse(field: str, why: str) -> ContainerConfigError:
        return ContainerConfigError(f"container {container.name}: {field} {why}")

    context = container.security_context or SecurityContext()
    whole = pod.spec.security_context or PodSecurityContext()
    profile = context.seccomp_profile or whole.seccomp_profile
    if profile and profile.type == "Localhost":
        raise refuse("securityContext.seccompProfile", "of type Localhost is not possible on a local node")
    if pod.spec.host_users is False:
        raise refuse("hostUsers", "false is not possible on a local node")
    if pod.spec.share_process_namespace is True:
        raise refuse("shareProcessNamespace", "is not possible on a local node")


def _identity(
    pod: Pod,
    container: AnyContainer,
    context: SecurityContext,
    whole: PodSecurityContext,
    image: ImageConfig,
    place: Place,
) -> Identity:
    user = value_or(context.run_as_user, value_or(whole.run_as_user, -1))
    group = value_or(context.run_as_group, value_or(whole.run_as_group, -1))
    supplemental = list(whole.supplemental_groups)
    if isinstance(whole.fs_group, int):
        supplemental.append(whole.fs_group)
    who = find_identity(
        image.config.user,
        place.passwd,
        place.group,
        run_as_user=user if user >= 0 else None,
        run_as_group=group if group >= 0 else None,
        supplemental=supplemental,
        is_strict=whole.supplemental_groups_policy == "Strict",
    )
    non_root = context.run_as_non_root if isinstance(context.run_as_non_root, bool) else whole.run_as_non_root
    if non_root is True:
        _check_non_root(pod, container, image.config.user.partition(":")[0], user, who)
    return who


def _check_non_root(pod: Pod, container: AnyContainer, named: str, user: int, who: Identity) -> None:
    where = f'pod: "{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"'
    tail = f"({where}, container: {container.name})"
    if user == 0:
        raise ContainerConfigError(f"container's runAsUser breaks non-root policy {tail}")
    if user < 0 and named and not named.isdigit():
        raise ContainerConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({named}), "
            f"cannot verify user is non-root {tail}"
        )
    if who.uid == 0:
        raise ContainerConfigError(f"container has runAsNonRoot and image will run as root {tail}")


def _arguments(container: AnyContainer, image: ImageConfig, environment: Mapping[str, str]) -> list[str]:
    command, args = expanded(container.command, environment), expanded(container.args, environment)
    words = [*command, *args] if command else [*image.command, *(args or image.arguments)]
    if not words:
        raise ContainerConfigError(
            f'no command specified: the image "{container.image}" has none, and the container has none'
        )
    return words


def _environment(
    pod: Pod,
    container: AnyContainer,
    image: ImageConfig,
    environment: Mapping[str, str],
    who: Identity,
    place: Place,
) -> list[str]:
    made = {"PATH": _PATH, "HOSTNAME": place.hostname, "HOME": who.home or "/", **image.environment}
    if container.tty is True:
        made["TERM"] = "xterm"
    return [f"{name}={value}" for name, value in {**made, **environment}.items()]


def _namespaces(pod: Pod, place: Place) -> list[dict[str, str]]:
    made: list[dict[str, str]] = [{"type": "mount"}]
    if pod.spec.host_network is not True:
        made.append({"type": "uts"})
    if pod.spec.host_pid is not True:
        made.append({"type": "pid"})
    if place.groups:
        made.append({"type": "cgroup"})
    for kind, path in place.namespaces.items():
        made.append({"type": kind, "path": path})
    return made


def _sysctls(pod: Pod, whole: PodSecurityContext) -> dict[str, str]:
    usual = {} if pod.spec.host_network is True else {"net.ipv4.ping_group_range": "0 2147483647"}
    return usual | {each.name.replace("/", "."): each.value for each in whole.sysctls}


def _sets(capabilities: frozenset[str], uid: int) -> dict[str, list[str]]:
    """A program that is not root has capabilities only if it gains them by a file's."""
    names = sorted(capabilities)
    own = names if uid == 0 else []
    return {"bounding": names, "effective": own, "permitted": own, "inheritable": [], "ambient": []}


def _own_mounts(pod: Pod, is_privileged: bool) -> list[dict[str, Any]]:
    access = "rw" if is_privileged else "ro"
    safe = ["nosuid", "noexec", "nodev"]
    mounts: list[dict[str, Any]] = [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": safe},
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
        },
        {
            "destination": "/dev/pts",
            "type": "devpts",
            "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        },
        {
            "destination": "/dev/shm",  # noqa: S108  the container's
            "type": "tmpfs",
            "source": "shm",
            "options": [*safe, "mode=1777", "size=65536k"],
        },
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": safe},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*safe, access]},
    ]
    if is_privileged:
        mounts[1] = {
            "destination": "/dev",
            "type": "bind",
            "source": "/dev",
            "options": ["rbind", "rprivate"],
        }
        del mounts[2:4]
    return mounts


def _group_mounts(groups: Mapping[str, str], is_privileged: bool) -> list[dict[str, Any]]:
    """A container's own control groups, where programs look for their limits."""
    access = "rw" if is_privileged else "ro"
    safe = ["nosuid", "noexec", "nodev"]
    made: list[dict[str, Any]] = []
    if groups and _CGROUPS not in groups:  # one for each controller: they need a folder to be in
        options = [*safe, "mode=755", "size=64k", access]
        made.append({"destination": _CGROUPS, "type": "tmpfs", "source": "tmpfs", "options": options})
    for place, folder in groups.items():
        options = ["bind", "rprivate", *safe, access]
        made.append({"destination": place, "type": "bind", "source": folder, "options": options})
    return made


def _bind(bind: Bind) -> dict[str, Any]:
    access = "ro" if bind.read_only else "rw"
    return {
        "destination": bind.target,
        "type": "bind",
        "source": bind.source,
        "options": ["rbind", "rprivate", access],
    }
