"""Admission of PodGroups: names and tree of their subgroups.

The new object is judged as a whole, whatever an update changed: one that was stored before the rules cannot
be changed, not even in its labels, until it is mended. Nothing is mended for the user.
"""

from __future__ import annotations

from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.subgroup import violation
from quarterdeck.operators.kai.types import PodGroup
from quarterdeck.runtime.webhook import Admission, AdmissionWebhook, Denied, Validator


def pod_group_webhook() -> AdmissionWebhook:
    """The webhook for creates and updates; status updates are none of its business."""
    return Validator(PodGroup, check, name=names.POD_GROUP_WEBHOOK)


def check(admission: Admission, group: PodGroup) -> None:
    """Refuse a tree of subgroups that cannot be built."""
    problem = violation(group.spec)
    if problem:
        raise Denied(problem)
