"""Snapshots and decisions as bytes: what was read once can be decided again, to the byte.

A recorded snapshot holds what the scheduler looks at and nothing else: names, labels, amounts, where pods may
run. No container, command, environment or annotation of a pod is in it, and no Secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from quarterdeck.api import decode
from quarterdeck.errors import SchemaError
from quarterdeck.scheduler.decision import Decision
from quarterdeck.scheduler.settings import Settings
from quarterdeck.scheduler.snapshot import Snapshot

FORMAT: Final = "quarterdeck-scheduler-snapshot/1"


class Recorded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A snapshot, and the settings of the scheduler that was to decide about it."""

    snapshot: Snapshot
    settings: Settings = Settings()


class _File(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    settings: Settings
    snapshot: Snapshot


def dump(recorded: Recorded) -> bytes:
    """The bytes of a file."""
    found = _File(format=FORMAT, settings=recorded.settings, snapshot=recorded.snapshot)
    return msgspec.json.format(msgspec.json.encode(found, order="deterministic"), indent=1) + b"\n"


def load(data: bytes) -> Recorded:
    """What a file holds; raises ``SchemaError`` if it is none of ours."""
    found = decode(data, _File)
    if found.format != FORMAT:
        raise SchemaError(f"format {found.format!r} is not {FORMAT!r}: record the snapshot again")
    return Recorded(snapshot=found.snapshot, settings=found.settings)


def decisions_text(decisions: Iterable[Decision]) -> bytes:
    """Decisions, one line each: the kind, and what it says."""
    lines = (
        msgspec.json.encode({type(each).__name__: each}, order="deterministic") + b"\n" for each in decisions
    )
    return b"".join(lines)
