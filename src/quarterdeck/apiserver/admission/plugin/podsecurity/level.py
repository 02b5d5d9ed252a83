"""Levels and versions of the Pod Security Standards, and the labels that choose them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from quarterdeck.wire.fielderror import FieldError, invalid

PREFIX: Final = "pod-security.kubernetes.io/"
PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
_LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
#: stands for the newest version
LATEST: Final = 1 << 30
_VERSION: Final = re.compile(r"v1\.([0-9]|[1-9][0-9]*)", re.ASCII)


class LevelVersion(NamedTuple):
    """A level as of a minor version of Kubernetes 1."""

    level: str = PRIVILEGED
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def is_stricter_than(self, other: LevelVersion) -> bool:
        """By the level alone."""
        return _LEVELS.index(self.level) > _LEVELS.index(other.level)


class Policy(NamedTuple):
    """What a namespace demands."""

    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()

    @property
    def is_privileged(self) -> bool:
        """Whether nothing is demanded at all."""
        return self.enforce.level == self.audit.level == self.warn.level == PRIVILEGED


NO_DEMANDS: Final = Policy()


def minor_of(version: str) -> int | None:
    """x of `v1.x`; None for any other text."""
    found = _VERSION.fullmatch(version)
    return None if found is None else int(found[1])


def policy_of(labels: Mapping[str, str], defaults: Policy = NO_DEMANDS) -> tuple[Policy, list[FieldError]]:
    """The policy that labels ask for, the defaults where there is no label, and what is wrong with them.

    A level that cannot be read is the strictest for enforce and none for audit and warn.
    """
    if not any(key.startswith(PREFIX) for key in labels):
        return defaults, []
    errors: list[FieldError] = []
    read: dict[str, LevelVersion] = {}
    for mode, default in zip(("enforce", "audit", "warn"), defaults, strict=True):
        level, minor = default
        level_label, version_label = f"{PREFIX}{mode}", f"{PREFIX}{mode}-version"
        if (given := labels.get(level_label)) is not None:
            level = given
            if given not in _LEVELS:
                level = RESTRICTED if mode == "enforce" else PRIVILEGED
                why = f"must be one of {', '.join(_LEVELS)}"
                errors.append(invalid(f"metadata.labels[{level_label}]", given, why))
        if (given := labels.get(version_label)) is not None:
            found = LATEST if given == "latest" else minor_of(given)
            minor = LATEST if found is None else found
            if found is None:
                why = 'must be "latest" or "v1.x"'
                errors.append(invalid(f"metadata.labels[{version_label}]", given, why))
        read[mode] = LevelVersion(level, minor)
    enforce, warn = read["enforce"], read["warn"]
    is_enforced = labels.get(f"{PREFIX}enforce") in _LEVELS
    if f"{PREFIX}warn" not in labels and is_enforced and enforce.is_stricter_than(warn):
        minor = warn.minor if f"{PREFIX}warn-version" in labels else enforce.minor
        warn = LevelVersion(enforce.level, minor)
    return Policy(enforce, read["audit"], warn), errors
