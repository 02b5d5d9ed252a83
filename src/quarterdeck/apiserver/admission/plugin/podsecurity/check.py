"""The single checks of the Pod Security Standards.

Each takes a pod's metadata and spec and says what is wrong with it: a reason and a detail, in upstream's
words, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.pod.reference import containers
from quarterdeck.wire import gostyle


class Violation(NamedTuple):
    """What a pod does that its level forbids."""

    reason: str
    detail: str


Check = Callable[[Json, Json], Violation | None]

_DEFAULT_CAPABILITIES: Final = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_PROFILES: Final = frozenset(("RuntimeDefault", "Localhost"))
_APP_ARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_ANNOTATION: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER_ANNOTATION: Final = "container.seccomp.security.alpha.kubernetes.io/"
_ALLOWED_VOLUMES: Final = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
_OTHER_VOLUMES: Final = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
)
_SELINUX_TYPES: Final = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))
_SYSCTLS_0: Final = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    )
)
_SYSCTLS_27: Final = _SYSCTLS_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29: Final = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32: Final = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _context(holder: Json) -> Json:
    return holder.get("securityContext") or {}


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _word(singular: str, plural: str, count: int) -> str:
    return singular if count == 1 else plural


def _named(bad: list[str]) -> str:
    """`container "a"`, `containers "a", "b"`."""
    return f"{_word('container', 'containers', len(bad))} {_quoted(bad)}"


def _setters(*, pod: bool, bad: list[str]) -> list[str]:
    """Who set something forbidden, in the order of a sentence."""
    return [*(["pod"] if pod else []), *([_named(bad)] if bad else [])]


def _is_windows(spec: Json) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def except_windows(check: Check) -> Check:
    """Windows pods are exempt since 1.25."""
    return lambda metadata, spec: None if _is_windows(spec) else check(metadata, spec)


def except_user_namespace(check: Check) -> Check:
    """Pods in a user namespace of their own are exempt since 1.35."""
    return lambda metadata, spec: None if spec.get("hostUsers") is False else check(metadata, spec)


def allow_privilege_escalation(_: Json, spec: Json) -> Violation | None:
    bad = [
        each["name"]
        for each in containers(spec)
        if _context(each).get("allowPrivilegeEscalation") is not False
    ]
    if not bad:
        return None
    detail = f"{_named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def app_armor_profile(metadata: Json, spec: Json) -> Violation | None:
    def bad_type(holder: Json) -> Iterator[str]:
        profile = _context(holder).get("appArmorProfile")
        if profile is not None and profile.get("type") not in _PROFILES:
            yield profile.get("type", "")

    values = set(bad_type(spec))
    bad = []
    for each in containers(spec):
        found = set(bad_type(each))
        values |= found
        if found:
            bad.append(each["name"])
    setters = _setters(pod=bool(set(bad_type(spec))), bad=bad)
    annotations = sorted(
        f"{key}={gostyle.quote(value)}"
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_APP_ARMOR_ANNOTATION)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    if annotations:
        setters.append(_word("annotation", "annotations", len(annotations)))
    if not setters:
        return None
    shown = [*sorted(values), *annotations]
    return Violation(
        _word("forbidden AppArmor profile", "forbidden AppArmor profiles", len(shown)),
        f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(shown)}",
    )


def capabilities_baseline(_: Json, spec: Json) -> Violation | None:
    bad, added = [], set()
    for each in containers(spec):
        found = set((_context(each).get("capabilities") or {}).get("add") or ()) - _DEFAULT_CAPABILITIES
        added |= found
        if found:
            bad.append(each["name"])
    if not bad:
        return None
    detail = f"{_named(bad)} must not include {_quoted(sorted(added))} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def capabilities_restricted(_: Json, spec: Json) -> Violation | None:
    keeping, adding, added = [], [], set()
    for each in containers(spec):
        capabilities = _context(each).get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or ()):
            keeping.append(each["name"])
        found = set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}
        added |= found
        if found:
            adding.append(each["name"])
    details = []
    if keeping:
        details.append(f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        details.append(
            f"{_named(adding)} must not include {_quoted(sorted(added))} in securityContext.capabilities.add"
        )
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def host_namespaces(_: Json, spec: Json) -> Violation | None:
    used = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    return Violation("host namespaces", ", ".join(used)) if used else None


def host_path_volumes(_: Json, spec: Json) -> Violation | None:
    bad = [each["name"] for each in spec.get("volumes") or () if each.get("hostPath") is not None]
    if not bad:
        return None
    return Violation("hostPath volumes", f"{_word('volume', 'volumes', len(bad))} {_quoted(bad)}")


def host_ports(_: Json, spec: Json) -> Violation | None:
    bad, ports = [], set()
    for each in containers(spec):
        found = {str(port["hostPort"]) for port in each.get("ports") or () if port.get("hostPort")}
        ports |= found
        if found:
            bad.append(each["name"])
    if not bad:
        return None
    uses, what = _word("uses", "use", len(bad)), _word("hostPort", "hostPorts", len(ports))
    return Violation("hostPort", f"{_named(bad)} {uses} {what} {', '.join(sorted(ports))}")


def host_probes(_: Json, spec: Json) -> Violation | None:
    bad, hosts = set(), set()
    for each in containers(spec):
        lifecycle = each.get("lifecycle") or {}
        handlers = [each.get(key) for key in ("livenessProbe", "readinessProbe", "startupProbe")]
        handlers += [lifecycle.get("postStart"), lifecycle.get("preStop")]
        found = {
            host
            for handler in handlers
            for action in ("httpGet", "tcpSocket")
            if (host := ((handler or {}).get(action) or {}).get("host"))
        }
        hosts |= found
        if found:
            bad.add(each["name"])
    if not bad:
        return None
    what = _word("probe or lifecycle host", "probe or lifecycle hosts", len(hosts))
    uses = _word("uses", "use", len(bad))
    detail = f"{_named(sorted(bad))} {uses} {what} {_quoted(sorted(hosts))}"
    return Violation("probe or lifecycle host", detail)


def privileged(_: Json, spec: Json) -> Violation | None:
    bad = [each["name"] for each in containers(spec) if _context(each).get("privileged")]
    if not bad:
        return None
    return Violation("privileged", f"{_named(bad)} must not set securityContext.privileged=true")


def proc_mount(_: Json, spec: Json) -> Violation | None:
    bad, kinds = [], set()
    for each in containers(spec):
        kind = _context(each).get("procMount")
        if kind is not None and kind != "Default":
            bad.append(each["name"])
            kinds.add(kind)
    if not bad:
        return None
    detail = f"{_named(bad)} must not set securityContext.procMount to {_quoted(sorted(kinds))}"
    return Violation("procMount", detail)


def restricted_volumes(_: Json, spec: Json) -> Violation | None:
    bad, kinds = [], set()
    for volume in spec.get("volumes") or ():
        if any(volume.get(kind) is not None for kind in _ALLOWED_VOLUMES):
            continue
        bad.append(volume["name"])
        kinds.add(next((kind for kind in _OTHER_VOLUMES if volume.get(kind) is not None), "unknown"))
    if not bad:
        return None
    return Violation(
        "restricted volume types",
        f"{_word('volume', 'volumes', len(bad))} {_quoted(bad)} {_word('uses', 'use', len(bad))} "
        f"{_word('restricted volume type', 'restricted volume types', len(kinds))} {_quoted(sorted(kinds))}",
    )


def run_as_non_root(_: Json, spec: Json) -> Violation | None:
    reason, wanted = "runAsNonRoot != true", _context(spec).get("runAsNonRoot")
    explicit, implicit = [], []
    for each in containers(spec):
        own = _context(each).get("runAsNonRoot")
        if own is False:
            explicit.append(each["name"])
        elif own is None and wanted is not True:
            implicit.append(each["name"])
    if setters := _setters(pod=wanted is False, bad=explicit):
        detail = f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false"
        return Violation(reason, detail)
    if implicit:
        return Violation(reason, f"pod or {_named(implicit)} must set securityContext.runAsNonRoot=true")
    return None


def run_as_user(_: Json, spec: Json) -> Violation | None:
    bad = [each["name"] for each in containers(spec) if _context(each).get("runAsUser") == 0]
    setters = _setters(pod=_context(spec).get("runAsUser") == 0, bad=bad)
    return Violation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def selinux_options(allowed: Collection[str] = _SELINUX_TYPES) -> Check:
    """The check with these types allowed."""

    def check(_: Json, spec: Json) -> Violation | None:
        types: set[str] = set()
        sets: set[str] = set()

        def is_bad(holder: Json) -> bool:
            options = _context(holder).get("seLinuxOptions") or {}
            kind = options.get("type") or ""
            wrong = {kind} if kind not in allowed else set()
            fields = {key for key in ("user", "role") if options.get(key)}
            types.update(wrong)
            sets.update(fields)
            return bool(wrong or fields)

        pod = is_bad(spec)
        setters = _setters(pod=pod, bad=[each["name"] for each in containers(spec) if is_bad(each)])
        if not setters:
            return None
        data = [f"{_word('type', 'types', len(types))} {_quoted(sorted(types))}"] if types else []
        data += [f"{key} may not be set" for key in ("user", "role") if key in sets]
        return Violation(
            "seLinuxOptions",
            f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}",
        )

    return check


selinux_options_31: Final = selinux_options(_SELINUX_TYPES | {"container_engine_t"})


def seccomp_annotations(metadata: Json, spec: Json) -> Violation | None:
    """Before 1.19 the profile was an annotation."""
    annotations = metadata.get("annotations") or {}
    keys = [_SECCOMP_ANNOTATION]
    keys += [f"{_SECCOMP_CONTAINER_ANNOTATION}{each['name']}" for each in containers(spec)]
    bad = {
        f"{key}={gostyle.quote(annotations[key])}"
        for key in keys
        if key in annotations
        and annotations[key] not in ("runtime/default", "docker/default")
        and not annotations[key].startswith("localhost/")
    }
    if not bad:
        return None
    return Violation(
        "seccompProfile",
        f"forbidden {_word('annotation', 'annotations', len(bad))} {', '.join(sorted(bad))}",
    )


def _seccomp(spec: Json, *, must_be_set: bool) -> Violation | None:
    values: set[str] = set()

    def kind_of(holder: Json) -> str | None:
        profile = _context(holder).get("seccompProfile")
        return None if profile is None else profile.get("type", "")

    pod = kind_of(spec)
    is_pod_bad = pod is not None and pod not in _PROFILES
    if is_pod_bad:
        values.add(pod or "")
    explicit, implicit = [], []
    for each in containers(spec):
        own = kind_of(each)
        if own is None:
            if pod is None or is_pod_bad:
                implicit.append(each["name"])
        elif own not in _PROFILES:
            explicit.append(each["name"])
            values.add(own)
    if setters := _setters(pod=is_pod_bad, bad=explicit):
        shown = f"must not set securityContext.seccompProfile.type to {_quoted(sorted(values))}"
        return Violation("seccompProfile", f"{' and '.join(setters)} {shown}")
    if must_be_set and implicit:
        return Violation(
            "seccompProfile",
            f"pod or {_named(implicit)} must set securityContext.seccompProfile.type to "
            '"RuntimeDefault" or "Localhost"',
        )
    return None


def seccomp_baseline(_: Json, spec: Json) -> Violation | None:
    return _seccomp(spec, must_be_set=False)


def seccomp_restricted(_: Json, spec: Json) -> Violation | None:
    return _seccomp(spec, must_be_set=True)


def _sysctls(allowed: Collection[str]) -> Check:
    def check(_: Json, spec: Json) -> Violation | None:
        given = [each.get("name", "") for each in _context(spec).get("sysctls") or ()]
        bad = [name for name in given if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


sysctls_0: Final = _sysctls(_SYSCTLS_0)
sysctls_27: Final = _sysctls(_SYSCTLS_27)
sysctls_29: Final = _sysctls(_SYSCTLS_29)
sysctls_32: Final = _sysctls(_SYSCTLS_32)


def windows_host_process(_: Json, spec: Json) -> Violation | None:
    def is_bad(holder: Json) -> bool:
        return bool((_context(holder).get("windowsOptions") or {}).get("hostProcess"))

    setters = _setters(pod=is_bad(spec), bad=[each["name"] for each in containers(spec) if is_bad(each)])
    if not setters:
        return None
    detail = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", detail)
