"""A scheduler backend for Grove: pods get the scheduler's name, one annotation and one label."""

from quarterdeck.operators.grove.backends import Backend, PodDraft


class MyBackend(Backend):
    """``schedulerName: my-scheduler`` in the operator's configuration selects it."""

    def prepare_pod(self, pod: PodDraft) -> None:
        """Every pod passes here before it is created."""
        pod.spec.scheduler_name = self.scheduler_name
        pod.metadata.annotations["mybackend.io/example"] = "value"
        pod.metadata.labels["mybackend.io/managed"] = "true"
