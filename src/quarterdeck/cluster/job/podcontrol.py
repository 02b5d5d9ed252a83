"""Freeing the pods of a Job: the finalizer that holds a pod until it is counted is taken away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api.k8s import Job, Pod
from quarterdeck.client import Client, StrategicMergePatch
from quarterdeck.cluster.job import names
from quarterdeck.cluster.job.podstate import PodState
from quarterdeck.errors import QuarterdeckError, ignore_not_found
from quarterdeck.runtime.reconcile.attempt import attempt_all
from quarterdeck.runtime.reconcile.context import Context

_FREED: Final = StrategicMergePatch({"metadata": {"$deleteFromPrimitiveList/finalizers": [names.TRACKING]}})


async def free_pods(
    ctx: Context[Job], pods: Sequence[PodState]
) -> tuple[frozenset[str], QuarterdeckError | None]:
    """Remove the finalizer of pods; returns the UIDs of those that are free, and the first error met."""
    errors = await attempt_all(pods, lambda pod: free_pod(ctx.client, pod.reference))
    freed = frozenset(pod.uid for pod, error in zip(pods, errors, strict=True) if error is None)
    return freed, next((error for error in errors if error is not None), None)


async def free_pod(client: Client, pod: Pod) -> None:
    """Remove the finalizer of a pod."""
    with ignore_not_found():
        await client.patch(pod, _FREED)
