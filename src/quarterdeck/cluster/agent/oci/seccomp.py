"""System calls that containers may not make, unless a capability says that they may. Pure.

What is refused is what the kernel's own checks do not keep inside the container: other namespaces, mounts,
modules, keys, tracing of the machine, clocks. Everything else is allowed.
"""

from __future__ import annotations

import platform
from typing import Any, Final

_EPERM: Final = 1
_ENOSYS: Final = 38
_NAMESPACES: Final = 0x7E020000
"""The flags of clone(2) that make namespaces."""
_REFUSED: Final[dict[str, tuple[str, ...]]] = {
    "": (
        "_sysctl",
        "add_key",
        "create_module",
        "get_kernel_syms",
        "io_uring_enter",
        "io_uring_register",
        "io_uring_setup",
        "keyctl",
        "nfsservctl",
        "query_module",
        "request_key",
        "sysfs",
        "uselib",
        "userfaultfd",
        "ustat",
        "vm86",
        "vm86old",
    ),
    "CAP_BPF": ("bpf",),
    "CAP_DAC_READ_SEARCH": ("open_by_handle_at",),
    "CAP_PERFMON": ("perf_event_open",),
    "CAP_SYS_ADMIN": (
        "fsconfig",
        "fsmount",
        "fsopen",
        "fspick",
        "lookup_dcookie",
        "mount",
        "mount_setattr",
        "move_mount",
        "open_tree",
        "pivot_root",
        "quotactl",
        "quotactl_fd",
        "setdomainname",
        "sethostname",
        "setns",
        "swapoff",
        "swapon",
        "umount",
        "umount2",
        "unshare",
    ),
    "CAP_SYS_BOOT": ("kexec_file_load", "kexec_load", "reboot"),
    "CAP_SYS_MODULE": ("delete_module", "finit_module", "init_module"),
    "CAP_SYS_NICE": ("mbind", "migrate_pages", "move_pages", "set_mempolicy"),
    "CAP_SYS_PACCT": ("acct",),
    "CAP_SYS_PTRACE": ("kcmp", "process_madvise", "process_vm_readv", "process_vm_writev"),
    "CAP_SYS_RAWIO": ("ioperm", "iopl"),
    "CAP_SYS_TIME": ("clock_settime", "clock_settime64", "settimeofday", "stime"),
}
_ARCHITECTURES: Final = {
    "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
}


def default_profile(capabilities: frozenset[str], machine: str = "") -> dict[str, Any]:
    """``linux.seccomp`` for a container with these capabilities."""
    names = [
        name for capability, refused in _REFUSED.items() if capability not in capabilities for name in refused
    ]
    rules: list[dict[str, Any]] = [
        {"names": sorted(names), "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM},
    ]
    if "CAP_SYS_ADMIN" not in capabilities:
        # clone3 has its flags in memory, where no filter looks; programs fall back to clone.
        rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS})
        rules += [
            {
                "names": ["clone"],
                "action": "SCMP_ACT_ERRNO",
                "errnoRet": _EPERM,
                "args": [{"index": 0, "value": bit, "valueTwo": bit, "op": "SCMP_CMP_MASKED_EQ"}],
            }
            for bit in (1 << place for place in range(32))
            if bit & _NAMESPACES
        ]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": list(_ARCHITECTURES.get(machine or platform.machine(), ())),
        "syscalls": rules,
    }
