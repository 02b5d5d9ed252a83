"""Controllers: JobSets and their Jobs, and pods that must follow their leader."""

from .jobset import JobSetReconciler, jobset_controller
from .placement import placement_controller

__all__ = ["JobSetReconciler", "jobset_controller", "placement_controller"]
