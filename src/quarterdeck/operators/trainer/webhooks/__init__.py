"""Answers to the API server: what TrainJobs and runtimes may be."""

from .runtime import runtime_webhooks
from .stamp import stamp_webhook
from .trainjob import TrainJobGuard

__all__ = ["TrainJobGuard", "runtime_webhooks", "stamp_webhook"]
