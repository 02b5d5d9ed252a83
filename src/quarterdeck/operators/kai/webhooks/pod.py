"""Admission of pods that ask for parts of GPUs.

The API server is told to send these pods only: a cluster must be able to create all others while nobody
answers here.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.fraction import violation
from quarterdeck.runtime.webhook import Admission, AdmissionWebhook, Denied, Validator

_ANNOTATIONS: Final = (
    names.GPU_FRACTION_ANNOTATION,
    names.GPU_MEMORY_ANNOTATION,
    names.GPU_FRACTION_DEVICES_ANNOTATION,
)


def pod_webhook(scheduler_name: str) -> AdmissionWebhook:
    """The webhook for creates and updates of pods that are scheduled here and share GPUs."""
    keys = ", ".join(f"'{key}'" for key in _ANNOTATIONS)
    return Validator(
        Pod,
        check,
        name=names.POD_WEBHOOK,
        match_conditions={
            "scheduled-here": f"object.spec.?schedulerName.orValue('') == '{scheduler_name}'",
            "shares-gpus": f"[{keys}].exists(key, key in object.metadata.?annotations.orValue({{}}))",
        },
    )


def check(admission: Admission, pod: Pod) -> None:
    """Refuse requests that contradict each other or cannot be read."""
    problem = violation(pod)
    if problem:
        raise Denied(problem)
