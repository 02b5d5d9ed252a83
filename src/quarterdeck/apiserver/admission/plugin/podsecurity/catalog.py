"""Which checks count for a level and a version of the Pod Security Standards."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from quarterdeck.api.jsonobject import Json

from . import check
from .check import Check, Violation
from .level import BASELINE, PRIVILEGED, RESTRICTED, LevelVersion


class _Known(NamedTuple):
    """A check: since which minor version which form of it holds, and which one it takes the place of."""

    id: str
    forms: tuple[tuple[int, Check], ...]
    overrides: str = ""

    def at(self, minor: int) -> Check | None:
        found = None
        for since, form in self.forms:
            if since <= minor:
                found = form
        return found


_BASELINE: Final = (
    _Known("appArmorProfile", ((0, check.app_armor_profile),)),
    _Known("capabilities_baseline", ((0, check.capabilities_baseline),)),
    _Known("hostNamespaces", ((0, check.host_namespaces),)),
    _Known("hostPathVolumes", ((0, check.host_path_volumes),)),
    _Known("hostPorts", ((0, check.host_ports),)),
    _Known("hostProbesAndHostLifecycle", ((34, check.host_probes),)),
    _Known("privileged", ((0, check.privileged),)),
    _Known("procMount", ((0, check.proc_mount), (35, check.except_user_namespace(check.proc_mount)))),
    _Known("seLinuxOptions", ((0, check.selinux_options()), (31, check.selinux_options_31))),
    _Known("seccompProfile_baseline", ((0, check.seccomp_annotations), (19, check.seccomp_baseline))),
    _Known(
        "sysctls",
        ((0, check.sysctls_0), (27, check.sysctls_27), (29, check.sysctls_29), (32, check.sysctls_32)),
    ),
    _Known("windowsHostProcess", ((0, check.windows_host_process),)),
)
_RESTRICTED: Final = (
    _Known(
        "allowPrivilegeEscalation",
        (
            (8, check.allow_privilege_escalation),
            (25, check.except_windows(check.allow_privilege_escalation)),
        ),
    ),
    _Known(
        "capabilities_restricted",
        ((22, check.capabilities_restricted), (25, check.except_windows(check.capabilities_restricted))),
        "capabilities_baseline",
    ),
    _Known("procMount_restricted", ((35, check.proc_mount),), "procMount"),
    _Known("restrictedVolumes", ((0, check.restricted_volumes),), "hostPathVolumes"),
    _Known(
        "runAsNonRoot",
        ((0, check.run_as_non_root), (35, check.except_user_namespace(check.run_as_non_root))),
    ),
    _Known("runAsUser", ((23, check.run_as_user), (35, check.except_user_namespace(check.run_as_user)))),
    _Known(
        "seccompProfile_restricted",
        ((19, check.seccomp_restricted), (25, check.except_windows(check.seccomp_restricted))),
        "seccompProfile_baseline",
    ),
)
#: nothing changed after this version
_NEWEST: Final = max(since for known in (*_BASELINE, *_RESTRICTED) for since, _ in known.forms)


@cache
def _checks(level: str, minor: int) -> tuple[Check, ...]:
    chosen: tuple[_Known, ...] = _BASELINE
    if level == RESTRICTED:
        replaced = {known.overrides for known in _RESTRICTED if known.at(minor) is not None}
        chosen = tuple(known for known in _BASELINE if known.id not in replaced) + _RESTRICTED
    return tuple(form for known in chosen if (form := known.at(minor)) is not None)


def violations(wanted: LevelVersion, metadata: Json, spec: Json) -> list[Violation]:
    """All that a pod does against a level, baseline first."""
    if wanted.level == PRIVILEGED:
        return []
    assert wanted.level in (BASELINE, RESTRICTED)
    checks = _checks(wanted.level, min(wanted.minor, _NEWEST))
    return [found for each in checks if (found := each(metadata, spec)) is not None]


def detail_of(found: list[Violation]) -> str:
    """All of them with their details, as a refusal shows them."""
    return ", ".join(f"{each.reason} ({each.detail})" if each.detail else each.reason for each in found)


def reason_of(found: list[Violation]) -> str:
    return ", ".join(each.reason for each in found)
