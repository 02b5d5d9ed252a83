"""Built-in kinds that are served in two versions over one storage: Event and HorizontalPodAutoscaler."""

from __future__ import annotations

from abc import ABC, abstractmethod

from quarterdeck.api.jsonobject import Json

from .cluster import event
from .workload import autoscalingversion


class Converter(ABC):
    """Between a served built-in version and the one that is stored."""

    #: Tables and bare metadata are made of the stored form
    summarizes_stored = False

    @abstractmethod
    def from_storage(self, obj: Json) -> Json:
        """A stored object in the served version."""

    @abstractmethod
    def to_storage(self, obj: Json) -> Json:
        """An object of the served version as it is stored."""


class _Events(Converter):
    """events.k8s.io/v1 over stored core/v1 events."""

    def from_storage(self, obj: Json) -> Json:
        return event.to_events(obj)

    def to_storage(self, obj: Json) -> Json:
        return event.to_core(obj)


class _AutoscalingV1(Converter):
    """autoscaling/v1 over stored autoscaling/v2."""

    summarizes_stored = True  # v1 has no place for metrics but an annotation

    def from_storage(self, obj: Json) -> Json:
        return autoscalingversion.to_v1(obj)

    def to_storage(self, obj: Json) -> Json:
        return autoscalingversion.to_v2(obj)


_CONVERTERS: dict[tuple[str, str, str], Converter] = {
    ("events.k8s.io", "v1", "events"): _Events(),
    ("autoscaling", "v1", "horizontalpodautoscalers"): _AutoscalingV1(),
}


def converter_for(group: str, version: str, resource: str) -> Converter | None:
    return _CONVERTERS.get((group, version, resource))
