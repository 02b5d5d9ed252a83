"""What the operator measures beyond what every controller and webhook does.

The label is ``ns``: Prometheus gives every series a ``namespace`` of its own, that of the operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from quarterdeck.api import UnsetType
from quarterdeck.runtime.metrics import Registry

from . import names
from .logic.info import spec_of
from .logic.status import is_finished
from .types import TrainJob, TrainJobStatus

STATES: Final = ("running", "suspended", "complete", "failed")


def state_of(job: TrainJob) -> str:
    """The one word for how a TrainJob is doing."""
    status = job.status or TrainJobStatus()
    if is_finished(status):
        ends = {condition.type for condition in status.conditions if condition.status == "True"}
        return "failed" if names.FAILED in ends else "complete"
    return "suspended" if spec_of(job).suspend else "running"


class TrainerMetrics:
    """Made once per registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry: Final = registry
        self._jobs: Final = registry.gauge(
            "quarterdeck_trainer_trainjobs", "TrainJobs of a namespace, by state.", ["ns", "state"]
        )
        self.drift: Final = registry.counter(
            "quarterdeck_trainer_reserved_env_drift_total",
            "Audits that found reserved variables of a JobSet changed, by what was done.",
            ["result"],
        )
        for result in ("restored", "recreated", "pending", "off"):
            self.drift.labelled(result)
        self.ignored: Final = registry.counter(
            "quarterdeck_trainer_reserved_env_ignored_total",
            "Renderings that left out reserved variables of a TrainJob.",
        )
        self.keys_replaced: Final = registry.counter(
            "quarterdeck_trainer_ssh_key_replaced_total",
            "Times the SSH key of a running MPI TrainJob was found replaced.",
        )
        self.foreign: Final = registry.counter(
            "quarterdeck_trainer_foreign_objects_total",
            "Times an object of a TrainJob could not be written because another owner has its name.",
            ["kind"],
        )
        self.recreated: Final = registry.counter(
            "quarterdeck_trainer_jobset_recreated_total",
            "JobSets that were deleted and created again, because the API refused the change.",
        )
        self.reports: Final = registry.counter(
            "quarterdeck_trainer_progress_reports_total",
            "Reports of trainings about themselves, by what became of them.",
            ["result"],
        )
        for result in ("taken", "refused"):
            self.reports.labelled(result)
        self._progress: Final = registry.gauge(
            "quarterdeck_trainer_progress_percentage",
            "Percent of a training that is done, as it reports itself.",
            ["ns", "trainjob"],
        )
        self._remaining: Final = registry.gauge(
            "quarterdeck_trainer_estimated_remaining_seconds",
            "Seconds that a training expects to take yet.",
            ["ns", "trainjob"],
        )
        for family in (self.ignored, self.keys_replaced, self.recreated):
            family.labelled()

    def follow(self, jobs: Callable[[], Iterable[TrainJob]]) -> Callable[[], None]:
        """Count the TrainJobs of a cache at each reading; returns the function that ends it."""

        def refresh() -> None:
            present = list(jobs())
            counts = Counter((job.metadata.namespace, state_of(job)) for job in present)
            self._jobs.clear()
            self._show_progress(present)
            for namespace in {namespace for namespace, _ in counts}:
                for state in STATES:
                    self._jobs.labelled(namespace, state).set(counts[namespace, state])

        return self._registry.before_expose(refresh)

    def _show_progress(self, jobs: Iterable[TrainJob]) -> None:
        self._progress.clear()
        self._remaining.clear()
        for job in jobs:
            said = job.status.trainer_status if job.status else None
            if not said or state_of(job) != "running":
                continue
            for gauge, value in (
                (self._progress, said.progress_percentage),
                (self._remaining, said.estimated_remaining_seconds),
            ):
                if not isinstance(value, UnsetType):
                    gauge.labelled(job.metadata.namespace, job.metadata.name).set(value)
