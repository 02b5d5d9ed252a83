"""The files of volumes that are made from objects, and how they are put in place.

A payload maps paths inside the volume to bytes and a mode. It is written as a kubelet does: into a new folder
behind the link ``..data``, which is swapped in one step, so that a reader sees the old files or the new.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from quarterdeck.api import Quantity, value_or
from quarterdeck.api.k8s import Pod
from quarterdeck.api.k8s.volume import DownwardAPIVolumeFile, KeyToPath
from quarterdeck.cluster.agent.environment.variable import field_value, resource_value
from quarterdeck.cluster.agent.record.folder import remove_tree
from quarterdeck.errors import QuarterdeckError

File = tuple[bytes, int]
Payload = dict[str, File]
_DATA: Final = "..data"
DEFAULT_MODE: Final = 0o644


class VolumeError(QuarterdeckError):
    """A volume that cannot be set up; the event is ``FailedMount``."""


def keyed_payload(
    kind: str, data: Mapping[str, bytes], items: Sequence[KeyToPath], mode: int, *, optional: bool
) -> Payload:
    """The keys of a ConfigMap (``kind`` is ``config``) or Secret as files: all of them, or those listed."""
    if not items:
        return {key: (value, mode) for key, value in data.items()}
    made: Payload = {}
    for item in items:
        value = data.get(item.key)
        if value is None:
            if optional:
                continue
            where = "configmap" if kind == "config" else "secret"
            raise VolumeError(f"{where} references non-existent {kind} key: {item.key}")
        made[item.path] = (value, value_or(item.mode, mode))
    return made


def downward_payload(
    pod: Pod, items: Sequence[DownwardAPIVolumeFile], mode: int, allocatable: Mapping[str, Quantity]
) -> Payload:
    """Facts about the pod as files."""
    made: Payload = {}
    for item in items:
        if item.field_ref:
            text = field_value(pod, item.field_ref.field_path)
        elif item.resource_field_ref:
            reference = item.resource_field_ref
            divisor = reference.divisor or Quantity("0")
            text = resource_value(pod, reference.container_name, reference.resource, divisor, allocatable)
        else:
            continue
        made[item.path] = (text.encode(), value_or(item.mode, mode))
    return made


def write_payload(folder: Path, payload: Payload, *, owner: tuple[int, int] | None = None) -> bool:
    """Make a volume hold exactly these files; whether anything changed. Blocking."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    data = folder / _DATA
    old = os.readlink(data) if data.is_symlink() else ""
    if old and _read(folder / old) == payload:
        return False
    name = time.strftime("..%Y_%m_%d_%H_%M_%S.", time.gmtime()) + str(time.time_ns() % 1_000_000_000)
    new = folder / name
    new.mkdir(mode=0o755)
    for path, (content, mode) in payload.items():
        place = new / path
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        place.write_bytes(content)
        place.chmod(mode)
        if owner is not None:
            os.chown(place, *owner)
    temporary = folder / "..data_tmp"
    with suppress(FileNotFoundError):
        temporary.unlink()
    os.symlink(name, temporary)
    os.replace(temporary, data)
    wanted = {path.split("/", 1)[0] for path in payload}
    for first in wanted:
        link = folder / first
        if not link.is_symlink():
            os.symlink(f"{_DATA}/{first}", link)
    for entry in os.scandir(folder):
        if entry.name.startswith(".."):
            continue
        if entry.name not in wanted:
            os.unlink(entry.path)
    if old:
        remove_tree(folder / old)
    return True


def _read(folder: Path) -> Payload:
    made: Payload = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            made[str(path.relative_to(folder))] = (path.read_bytes(), path.stat().st_mode & 0o7777)
    return made
