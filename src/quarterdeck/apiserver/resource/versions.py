"""Built-in kinds that are served in two versions over one storage: Event and HorizontalPodAutoscaler."""

from __future__ import annotations

from typing import Any

from quarterdeck.apiserver.builtin.cluster import event
from quarterdeck.apiserver.builtin.workload import autoscalingversion

from .resource import Converter

Json = dict[str, Any]


class _Events(Converter):
    """events.k8s.io/v1 over stored core/v1 events."""

    def from_storage(self, obj: Json) -> Json:
        return event.to_events(obj)

    def to_storage(self, obj: Json) -> Json:
        return event.to_core(obj)


class _AutoscalingV1(Converter):
    """autoscaling/v1 over stored autoscaling/v2."""

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
