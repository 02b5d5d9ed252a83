"""Admission: what the API server asks about PodGroups, Queues and pods that share GPUs."""

from .pod import pod_mutation, pod_webhook
from .podgroup import pod_group_webhook
from .queue import queue_webhook

__all__ = ["pod_group_webhook", "pod_mutation", "pod_webhook", "queue_webhook"]
