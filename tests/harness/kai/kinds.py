"""The kinds of kai cases.

Admission and schema cases write objects to the server under test, which asks the operator's webhooks;
admission is also asked for directly. Grouping and scheduling cases run the operator against the server; what
came of it is read back from there. What is pure is called as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.harness.registry import Kind

from . import schedule as kai_schedule
from .admission import AdmissionKind, QueueAdmissionKind, SchemaKind
from .grouper import GrouperKind

KINDS: Final[Mapping[str, Kind]] = {
    "podgroup-admission": AdmissionKind(),
    "podgroup-admission-extra": AdmissionKind(),
    "schema-validation": SchemaKind(),
    "queue-admission": QueueAdmissionKind(),
    "podgrouper": GrouperKind(),
    **kai_schedule.KINDS,
}
