"""Which namespaces can be made here."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from quarterdeck.cluster.agent.shim.linux import MS_BIND, MS_PRIVATE, MS_REC, make_read_only, mount, unshare


def usable_namespaces() -> list[str]:
    """Names for ``Launch.namespaces``, in the order in which they are made; empty where none works."""
    user = [] if os.geteuid() == 0 else ["user"]
    for names in ([*user, "mount", "uts", "ipc", "pid"], [*user, "mount", "uts", "ipc"]):
        if _works(names):
            return names
    return []


def _works(names: list[str]) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _try(names)
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _try(names: list[str]) -> None:
    uid, gid = os.geteuid(), os.getegid()
    if "user" in names:
        unshare("user")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    unshare(*(name for name in names if name != "user"))
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    folder = tempfile.gettempdir()
    mount(folder, folder, flags=MS_BIND | MS_REC)
    make_read_only(folder, recursive=True)
    if "pid" in names:
        child = os.fork()  # the namespace begins with its first process
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
