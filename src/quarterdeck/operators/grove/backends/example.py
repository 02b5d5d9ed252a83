"""A backend to copy from: it marks pods, and makes nothing."""

from __future__ import annotations

from .contract import Backend, PodDraft


class ExampleBackend(Backend):
    """Sets the scheduler's name, one annotation and one label."""

    def prepare_pod(self, pod: PodDraft) -> None:
        """Mark a pod."""
        super().prepare_pod(pod)
        pod.metadata.annotations["mybackend.io/example"] = "value"
        pod.metadata.labels["mybackend.io/managed"] = "true"
