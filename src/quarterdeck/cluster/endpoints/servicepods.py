"""The pods of Services as the controllers of Endpoints and of EndpointSlices both follow them."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import Key, Time
from quarterdeck.api.k8s import Service
from quarterdeck.cluster.endpoints.podaddress import PodAddress
from quarterdeck.cluster.endpoints.selection import pods_of
from quarterdeck.cluster.endpoints.trigger import TriggerTimes
from quarterdeck.cluster.podset.podview import Views
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.controller.gathering import Gathering

_PERIOD: Final = 0.1
"""Seconds for which changes of pods are gathered: what comes up or goes together is written once."""
_LONGEST_PERIOD: Final = 2.0
"""Seconds, also for new Services where there are many: their pods come soon, and are written with them."""
_PERIOD_PER_POD: Final = 0.0005
"""Added to it for each pod of a Service: every write names them all."""


class ServicePods:
    """What is known of the pods of each Service, and for how long their changes are gathered."""

    def __init__(self) -> None:
        self._views: dict[Key, Views[PodAddress]] = {}
        self._triggers: Final = TriggerTimes()
        self.service_period: Final = Gathering(0.0, longest=_LONGEST_PERIOD)
        self._pod_period: Final = Gathering(_PERIOD)

    def batch_period(self, key: Key) -> float:
        """Seconds for which changes of a Service's pods are gathered."""
        views = self._views.get(key)
        more = len(views) * _PERIOD_PER_POD if views is not None else 0.0
        return min(self._pod_period(key) + more, _LONGEST_PERIOD)

    def read(self, cache: Cache, key: Key, service: Service) -> tuple[list[PodAddress], Time | None]:
        """The pods of a Service, and when the change happened that its endpoints are written for."""
        views = self._views.get(key)
        if views is None:
            views = self._views[key] = Views(PodAddress)
        pods = views.read(pods_of(cache, service))
        return pods, self._triggers.next(service, pods)

    def forget(self, key: Key) -> None:
        """A Service is gone."""
        self._views.pop(key, None)
        self._triggers.forget(key)
