"""Admission of Queues: they must say what they may use."""

from __future__ import annotations

from typing import Final

from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import Queue, QueueResources
from quarterdeck.runtime.webhook import Admission, AdmissionWebhook, Denied, Validator

NO_RESOURCES: Final = "resources must be specified"


def queue_webhook() -> AdmissionWebhook:
    """The webhook for creates and updates."""
    return Validator(Queue, check, name=names.QUEUE_WEBHOOK)


def check(admission: Admission, queue: Queue) -> None:
    """Refuse a queue without resources; warn of one in which nothing can run."""
    resources = queue.spec.resources
    if not isinstance(resources, QueueResources):
        admission.warn(NO_RESOURCES)
        raise Denied(NO_RESOURCES)
    shares = {"gpu": resources.gpu, "cpu": resources.cpu, "memory": resources.memory}
    closed = [name for name, share in shares.items() if not share.limit]
    if closed:
        admission.warn(
            f"limit of {', '.join(closed)} is 0: pods that request it cannot run in this queue"
            " (-1 means no limit)"
        )
