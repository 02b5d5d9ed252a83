"""What a bind request is worth."""

from __future__ import annotations

from quarterdeck.api import value_or
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import BindRequest


def is_given_up(request: BindRequest) -> bool:
    """Whether a request failed and has no attempts left."""
    limit = value_or(request.spec.backoff_limit, 0)
    return request.status.phase == names.FAILED and request.status.failed_attempts >= limit


def is_about(request: BindRequest, pod: Pod) -> bool:
    """Whether a request was made for this pod, and not for one of the same name before it."""
    owners = request.metadata.owner_references
    return not owners or any(owner.uid == pod.metadata.uid for owner in owners)


def is_left_of(request: BindRequest, name: str) -> bool:
    """Whether a request was made for a pod of that name, whichever."""
    return any((owner.kind, owner.name) == ("Pod", name) for owner in request.metadata.owner_references)
