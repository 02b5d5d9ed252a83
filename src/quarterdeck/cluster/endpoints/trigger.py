"""When what led to a change of endpoints happened: for those who measure how long it took to be seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api import Key, Time
from quarterdeck.api.k8s import Service
from quarterdeck.cluster.endpoints import names
from quarterdeck.cluster.endpoints.podaddress import PodAddress


class TriggerTimes:
    """Remembers for each Service what it and its pods were last seen with."""

    def __init__(self) -> None:
        self._seen: Final[dict[Key, tuple[float, dict[str, float]]]] = {}

    def forget(self, key: Key) -> None:
        """A Service is gone."""
        self._seen.pop(key, None)

    def next(self, service: Service, pods: Iterable[PodAddress]) -> Time | None:
        """The earliest change since the last look; the first look is about the Service itself."""
        created = service.metadata.creation_timestamp
        made = created.timestamp() if isinstance(created, Time) else 0.0
        known = self._seen.get(service.key)
        times = {pod.name: pod.trigger_seconds for pod in pods if pod.trigger_time}
        self._seen[service.key] = made, times
        if known is None:
            return created if isinstance(created, Time) else None
        before, earlier = known
        changed = [time for name, time in times.items() if time > earlier.get(name, 0.0)]
        if made > before:
            changed.append(made)
        return Time.of_timestamp(min(changed)) if changed else None


def with_trigger(annotations: dict[str, str], time: Time | None) -> dict[str, str]:
    """Annotations that tell the time, or nothing if there is none."""
    kept = {key: value for key, value in annotations.items() if key != names.TRIGGER_TIME}
    return {**kept, names.TRIGGER_TIME: str(time)} if time is not None else kept
