"""Whether the cluster has JobSet, without which no TrainJob can run, and how to get it."""

from __future__ import annotations

from typing import Final

from quarterdeck.client import Client
from quarterdeck.errors import NotFound, ReconcileError
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.runtime.cache.health import HealthState
from quarterdeck.runtime.manager.check import Check
from quarterdeck.runtime.manager.manager import Manager

HOW_TO_GET_IT: Final = (
    f"the cluster has no JobSet ({JobSet.type_info.plural}.{JobSet.type_info.group}): "
    "run its operator (--operators trainer,jobset) or install JobSet"
)


class JobSetMissing(ReconcileError):
    """TrainJobs cannot be run on this cluster yet."""

    def __init__(self) -> None:
        super().__init__(HOW_TO_GET_IT)


async def is_jobset_served(client: Client) -> bool:
    """Whether the server knows JobSets."""
    try:
        await client.raw("GET", f"/apis/{JobSet.type_info.gvk.api_version}")
    except NotFound:
        return False
    return True


def jobset_check(manager: Manager) -> Check:
    """For readiness: what is missing, once the cache has looked for it."""

    def check() -> str | None:
        health = manager.cache.informer(JobSet, optional=True).health
        return HOW_TO_GET_IT if health.state is HealthState.KIND_MISSING else None

    return check
