"""A story as it is written down: a file `story.yaml`, with the manifests that it applies beside it.

    title: Two teams and a broken zone
    settings: {ipam: {podRanges: {namespace: network}}}     # of the operators
    steps:
    - title: Machines
      why: Each gets a range of addresses from the pool of its zone.
      let: {ZONE: {get: pods -l app=chat, field: metadata.labels[topology.kubernetes.io/zone]}}
      run: [kubectl apply -f 1-nodes.yaml]
      until: [{get: nodes, where: {spec.podCIDR: 10.*}, count: 4}]
      show: [kubectl get nodes]

`$ZONE` stands for what was found, in every text of this step and of those behind it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import msgspec

from quarterdeck.cli.error import CommandError
from quarterdeck.errors import reason_of

_PART: Final = re.compile(r"\[([^\]]+)\]|([^.\[\]]+)")
_VARIABLE: Final = re.compile(r"\$([A-Z]+)")


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field of the first object that a list has."""

    get: str
    field: str


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many objects of a list have these values."""

    get: str
    """What `kubectl get` takes."""
    count: int
    where: Mapping[str, str] = {}
    """Path to pattern, as of a shell; an empty pattern wants the field missing."""

    def fits(self, document: Mapping[str, Any]) -> bool:
        """Whether an object has the values."""
        return all(fnmatchcase(value_at(document, path), wanted) for path, wanted in self.where.items())


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step."""

    title: str
    why: str
    let: Mapping[str, Finding] = {}
    run: tuple[str, ...] = ()
    until: tuple[Expectation, ...] = ()
    show: tuple[str, ...] = ()


class Story(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A story."""

    title: str
    steps: tuple[Step, ...]
    settings: Mapping[str, Mapping[str, Any]] = {}
    """What it needs of operators; they must run for the story to work."""


def read_story(folder: Path) -> Story:
    """The story of a folder; raises CommandError for a file that is none."""
    import yaml

    path = folder / "story.yaml"
    try:
        return msgspec.convert(yaml.safe_load(path.read_text()), Story)
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise CommandError(f"{path}: {reason_of(error)}") from error


def value_at(document: Any, path: str) -> str:
    """A field as text: `status.phase`, `labels[example.com/zone]`, `ports[0]`; empty if it is missing."""
    value = document
    for quoted, plain in _PART.findall(path):
        if isinstance(value, list) and quoted.isdecimal():
            value = value[int(quoted)] if int(quoted) < len(value) else None
        else:
            value = value.get(quoted or plain) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


def filled_in(text: str, variables: Mapping[str, str]) -> str:
    """A text with its variables; one that nobody has found stays as it is."""
    return _VARIABLE.sub(lambda match: variables.get(match[1], match[0]), text)
