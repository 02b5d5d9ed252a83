"""Trainer: TrainJobs, and the runtimes that say how they are run.

The kinds are Kubeflow Trainer's. ``types`` declares them; ``logic`` merges a TrainJob with its runtime, lets
plugins add what their framework needs and judges what users write, without I/O; ``controllers`` keep one
JobSet per TrainJob and its status, and protect runtimes that are in use; ``webhooks`` answer the API server.
What others rely on by name is in ``names``.
"""
