"""Files with variables, which containers of a pod leave for others in a volume (``fileKeyRef``)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from quarterdeck.cluster.agent.environment.variable import ContainerConfigError
from quarterdeck.cluster.agent.record.view import AnyContainer

_NAME: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]*$")
_LIMIT: Final = 64 * 1024


def parse_variables(text: str) -> dict[str, str]:
    """The variables of a file: ``NAME=value`` lines; values may be in single quotes, and go over lines then.

    Empty lines and those that begin with ``#`` are skipped. Raises ``ContainerConfigError`` for others. Pure.
    """
    made: dict[str, str] = {}
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number].strip()
        number += 1
        if not line or line.startswith("#"):
            continue
        name, sign, value = line.partition("=")
        if not sign or not _NAME.match(name):
            raise ContainerConfigError(f"line {number} is not of the form NAME=value: {line[:40]!r}")
        if value.startswith("'"):
            whole = lines[number - 1].partition("=")[2].lstrip()
            while whole.count("'") < 2 and number < len(lines):
                whole += "\n" + lines[number]
                number += 1
            if whole.count("'") < 2:
                raise ContainerConfigError(f"the quoted value of {name} has no end")
            value = whole[1 : whole.index("'", 1)]
        made[name] = value
    return made


def read_variables(volume: Path, path: str) -> dict[str, str]:
    """The variables of a file in a volume; none if there is no such file. Blocking.

    Raises ``ContainerConfigError`` for one that leads out of the volume, or is too large.
    """
    base, real = os.path.realpath(volume), os.path.realpath(volume / path)
    if not real.startswith(base + os.sep):
        raise ContainerConfigError(f"fileKeyRef.path {path} leads out of its volume")
    if not os.path.isfile(real):
        return {}
    with open(real, "rb") as file:
        data = file.read(_LIMIT + 1)
    if len(data) > _LIMIT:
        raise ContainerConfigError(f"fileKeyRef.path {path} has more than {_LIMIT} bytes")
    return parse_variables(data.decode(errors="replace"))


def file_keys(
    container: AnyContainer, volume_path: Callable[[str], Path]
) -> dict[tuple[str, str, str], str | None]:
    """What a container's variables refer to in files of volumes: by volume, path and key. Blocking."""
    made: dict[tuple[str, str, str], str | None] = {}
    for variable in container.env:
        reference = variable.value_from.file_key_ref if variable.value_from else None
        if reference:
            found = read_variables(volume_path(reference.volume_name), reference.path)
            made[reference.volume_name, reference.path, reference.key] = found.get(reference.key)
    return made
