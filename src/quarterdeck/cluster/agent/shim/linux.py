"""System calls that Python 3.11 does not have."""

from __future__ import annotations

import ctypes
import os
from typing import Final

AT_FDCWD: Final = -100
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000
CLONE: Final = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}
_MNT_DETACH: Final = 2
_AT_RECURSIVE: Final = 0x8000
_MOUNT_ATTR_RDONLY: Final = 1
_SYS_MOUNT_SETATTR: Final = 442  # the same number on every architecture
_SYS_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_CHILD_SUBREAPER: Final = 36
_libc: Final = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(*names: str) -> None:
    """Go to new namespaces; that of processes applies to children only."""
    flags = 0
    for name in names:
        flags |= CLONE[name]
    _check(_libc.unshare(flags), f"unshare {' '.join(names)}")


def set_namespace(descriptor: int, what: str) -> None:
    """Go to an existing namespace."""
    _check(_libc.setns(descriptor, 0), f"setns {what}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """See mount(2)."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(result, f"mount {source} on {target}")


def make_read_only(path: str, *, recursive: bool) -> None:
    """Make a mount read-only, and those below it."""
    attributes = _MountAttributes(attr_set=_MOUNT_ATTR_RDONLY)
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        AT_FDCWD,
        os.fsencode(path),
        ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _check(result, f"make {path} read-only")


def pivot_to(path: str) -> None:
    """Make a mount the root, and take the old one away."""
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    os.chdir(path)
    _check(_libc.syscall(ctypes.c_long(number), b".", b"."), "pivot_root")
    detach(".")
    os.chdir("/")


def detach(path: str) -> None:
    """Unmount what is there as soon as nobody uses it."""
    _check(_libc.umount2(os.fsencode(path), _MNT_DETACH), f"umount {path}")


def set_hostname(name: str) -> None:
    """Of this UTS namespace."""
    raw = name.encode()
    _check(_libc.sethostname(raw, ctypes.c_size_t(len(raw))), "sethostname")


def set_death_signal(number: int) -> None:
    """Get a signal when the parent ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0), "prctl PR_SET_PDEATHSIG")


def set_child_subreaper() -> None:
    """Become the parent of descendants that lose theirs."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl PR_SET_CHILD_SUBREAPER")


def set_no_new_privileges() -> None:
    """Programs started from here gain nothing by set-user-ID bits."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0), "prctl PR_SET_NO_NEW_PRIVS")
