"""Controllers: TrainJobs and their objects, and runtimes that are in use."""

from .runtime import cluster_training_runtime_controller, training_runtime_controller
from .trainjob import train_job_controller

__all__ = [
    "cluster_training_runtime_controller",
    "train_job_controller",
    "training_runtime_controller",
]
