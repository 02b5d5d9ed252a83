"""Admission of pods that ask for parts of GPUs.

The API server is told to send these pods only: a cluster must be able to create all others while nobody
answers here.
"""

from __future__ import annotations

import hashlib
from typing import Final

from quarterdeck.api import from_dict
from quarterdeck.api.k8s import Pod
from quarterdeck.errors import SchemaError
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.fraction import violation
from quarterdeck.operators.kai.logic.sharedgpu import prepare_pod
from quarterdeck.runtime.webhook import Admission, AdmissionWebhook, Defaulter, Denied, Validator

_ANNOTATIONS: Final = (
    names.GPU_FRACTION_ANNOTATION,
    names.GPU_MEMORY_ANNOTATION,
    names.GPU_FRACTION_DEVICES_ANNOTATION,
)


def pod_webhook(scheduler_name: str) -> AdmissionWebhook:
    """The webhook for creates and updates of pods that are scheduled here and share GPUs."""
    return Validator(Pod, check, name=names.POD_WEBHOOK, match_conditions=_conditions(scheduler_name))


def pod_mutation(scheduler_name: str) -> AdmissionWebhook:
    """The webhook that lets such pods read their devices from ConfigMaps; for new pods only."""
    return Defaulter(
        Pod,
        prepare,
        name=names.POD_MUTATION,
        operations=("CREATE",),
        match_conditions=_conditions(scheduler_name),
    )


def _conditions(scheduler_name: str) -> dict[str, str]:
    keys = ", ".join(f"'{key}'" for key in _ANNOTATIONS)
    return {
        "scheduled-here": f"object.spec.?schedulerName.orValue('') == '{scheduler_name}'",
        "shares-gpus": f"[{keys}].exists(key, key in object.metadata.?annotations.orValue({{}}))",
    }


def prepare(admission: Admission, pod: Pod) -> Pod:
    """Name the ConfigMaps of a pod after the request: asked again, it gets the same names."""
    token = hashlib.sha256(admission.uid.encode()).hexdigest()[:7]
    document = pod.to_dict()
    try:
        prepare_pod(document, token)
    except SchemaError as error:
        raise Denied(str(error)) from error
    return from_dict(document, Pod)


def check(admission: Admission, pod: Pod) -> None:
    """Refuse requests that contradict each other or cannot be read."""
    problem = violation(pod)
    if problem:
        raise Denied(problem)
