"""Files of a pod's own that its containers see: its name, its resolver, its hosts. Blocking."""

from __future__ import annotations

import os
from pathlib import Path

from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.agent.network.hosts import resolver_file, system_name
from quarterdeck.cluster.agent.record.folder import PodFolder


def write_names(folder: PodFolder, pod: Pod, resolver: str) -> None:
    """Write who the pod is, and whom it asks for names."""
    _write_whole(folder.etc("hostname"), f"{system_name(pod)}\n".encode())
    _write_whole(folder.etc("resolv.conf"), resolver_file(pod, resolver))


def write_hosts(folder: PodFolder, content: bytes) -> None:
    """Bring the hosts file up to date, in place: containers have this very file mounted."""
    path = folder.etc("hosts")
    if not path.exists():
        _write_whole(path, content)
    elif path.read_bytes() != content:
        with path.open("r+b") as file:
            file.write(content)
            file.truncate()


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(temporary, path)
