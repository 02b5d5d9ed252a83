"""Admission of JobSets as webhooks: filled in, then checked. Refusals are 422, with the fields at fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.errors import ErrorCause, ErrorDetails, Invalid
from quarterdeck.operators.jobset.logic.defaults import with_defaults
from quarterdeck.operators.jobset.logic.validation import Problem, creation_problems, update_problems
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.runtime.webhook import AdmissionWebhook, Defaulter, Validator
from quarterdeck.runtime.webhook.admission import Admission

CONFIGURATION: Final = "jobset-webhook-configuration"


def _default(_: Admission, jobset: JobSet) -> JobSet:
    return with_defaults(jobset)


def _check_new(_: Admission, jobset: JobSet) -> None:
    _refuse(jobset, creation_problems(jobset))


def _check_change(_: Admission, old: JobSet, new: JobSet) -> None:
    _refuse(new, update_problems(old, new))


def _refuse(jobset: JobSet, problems: Sequence[Problem]) -> None:
    if not problems:
        return
    info = JobSet.type_info
    causes = tuple(
        ErrorCause(reason="FieldValueInvalid", message=each.message, field=each.field) for each in problems
    )
    details = ErrorDetails(name=jobset.metadata.name, group=info.group, kind=info.kind, causes=causes)
    raise Invalid("\n".join(map(str, problems)), details=details)


def jobset_webhooks() -> tuple[AdmissionWebhook, ...]:
    """What to serve."""
    return (
        Defaulter(JobSet, _default, name="mjobset.kb.io"),
        Validator(JobSet, create=_check_new, update=_check_change, name="vjobset.kb.io"),
    )
