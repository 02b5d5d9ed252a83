"""The grouper of Knative services: a gang for each revision, as large as its smallest scale."""

from __future__ import annotations

from typing import Final

import msgspec

from quarterdeck.api import GroupVersionKind
from quarterdeck.operators.kai import names

from .default import default_plan
from .plan import NO_CONSTRAINT, GroupingError, GroupPlan
from .workload import Reference, Workload

REVISION: Final = GroupVersionKind("serving.knative.dev", "v1", "Revision")
REVISION_LABEL: Final = "serving.knative.dev/revision"
MIN_SCALE_ANNOTATION: Final = "autoscaling.knative.dev/min-scale"


def related_revision(workload: Workload) -> Reference:
    """The revision of a pod; raises ``GroupingError`` if the pod does not say."""
    pod = workload.pod.metadata
    name = pod.labels.get(REVISION_LABEL)
    if name is None:
        raise GroupingError(f"revisionName not found for knative service pod {pod.namespace}/{pod.name}")
    return Reference(REVISION, name)


def group_revision(workload: Workload) -> GroupPlan:
    """One group for the revision, which owns it."""
    revision = workload.related
    assert revision is not None
    text = revision.metadata.annotations.get(MIN_SCALE_ANNOTATION, "1")
    minimum = int(text) if text.isdecimal() and int(text) > 0 else 1
    plan = default_plan(workload, revision, priority=names.INFERENCE)
    return msgspec.structs.replace(plan, min_member=minimum, constraint=NO_CONSTRAINT)
