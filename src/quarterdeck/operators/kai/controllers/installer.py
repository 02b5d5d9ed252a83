"""Creates what users expect to be there: the default queues and the priority classes.

Only what is missing is created, once, when the leader starts: whoever changes one of them means it.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api import ObjectMeta, Resource
from quarterdeck.api.k8s import PriorityClass
from quarterdeck.client import Client
from quarterdeck.client.clock import Clock
from quarterdeck.errors import AlreadyExists, ApiError, TransportError
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import Queue, QueueResource, QueueResources, QueueSpec
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.rbac import Rule

RETRY: Final = 1.0
"""Seconds until another attempt: the webhook that looks at queues may not be registered yet."""
RULES: Final = (
    Rule(groups=(names.GROUP,), resources=("queues",), verbs=("create",)),
    Rule(groups=("scheduling.k8s.io",), resources=("priorityclasses",), verbs=("create",)),
)
_log: Final = get_logger(__name__)
_OPEN: Final = QueueResource(quota=0, over_quota_weight=1, limit=-1)


def defaults() -> tuple[Resource, ...]:
    """The objects."""
    shares = QueueResources(gpu=_OPEN, cpu=_OPEN, memory=_OPEN)
    return (
        *(
            PriorityClass(metadata=ObjectMeta(name=name), value=value, global_default=False)
            for name, value in names.PRIORITY_CLASSES.items()
        ),
        Queue(metadata=ObjectMeta(name=names.DEFAULT_PARENT_QUEUE), spec=QueueSpec(resources=shares)),
        Queue(
            metadata=ObjectMeta(name=names.DEFAULT_QUEUE),
            spec=QueueSpec(resources=shares, parent_queue=names.DEFAULT_PARENT_QUEUE),
        ),
    )


class Installer:
    """Creates the objects and ends."""

    name: Final = "kai-defaults"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client: Final = client
        self._clock: Final = clock

    async def run(self) -> None:
        """Create what is missing, however long it takes."""
        for wanted in defaults():
            while not await self._create(wanted):
                await self._clock.sleep(RETRY)

    async def _create(self, wanted: Resource) -> bool:
        try:
            await self._client.create(wanted)
        except AlreadyExists:
            return True
        except (ApiError, TransportError) as error:
            _log.info("default object not created yet", error=str(error), name=wanted.metadata.name)
            return False
        return True
