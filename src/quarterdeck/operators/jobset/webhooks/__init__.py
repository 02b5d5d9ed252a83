"""Answers to the API server: what JobSets may be, and where their pods go."""

from .jobset import CONFIGURATION, jobset_webhooks
from .pod import pod_webhooks

__all__ = ["CONFIGURATION", "jobset_webhooks", "pod_webhooks"]
