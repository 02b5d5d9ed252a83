"""Capabilities of a container. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_NAMES: Final = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP "
    "LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER "
    "SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE "
    "SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP "
    "MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF "
    "CHECKPOINT_RESTORE"
)
"""In the kernel's order."""
_USUAL: Final = (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE NET_RAW SETFCAP SETGID "
    "SETPCAP SETUID SYS_CHROOT"
)
NUMBERS: Final = {f"CAP_{name}": number for number, name in enumerate(_NAMES.split())}
ALL: Final = frozenset(NUMBERS)
DEFAULT: Final = frozenset(f"CAP_{name}" for name in _USUAL.split())
"""What container runtimes give; but for MKNOD: not every machine lets us keep containers from devices."""


def chosen_capabilities(
    add: Iterable[str], drop: Iterable[str], *, privileged: bool = False, available: frozenset[str] = ALL
) -> frozenset[str]:
    """What is left of the usual ones after a container's wishes; ``available`` is what the agent has."""
    added, dropped = {_full(each) for each in add}, {_full(each) for each in drop}
    chosen = ALL if privileged or "CAP_ALL" in added else DEFAULT
    if "CAP_ALL" in dropped and not privileged:
        chosen = ALL if "CAP_ALL" in added else frozenset()
    return ((chosen - dropped) | (added - {"CAP_ALL"})) & available


def _full(name: str) -> str:
    upper = name.upper()
    return upper if upper.startswith("CAP_") else f"CAP_{upper}"
