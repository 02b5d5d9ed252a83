"""Events of the new API (events.k8s.io).

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalMicroTime, OptionalTime
from quarterdeck.api.k8s.core import EventSource
from quarterdeck.api.k8s.reference import ObjectReference
from quarterdeck.api.marker import Int32, Required
from quarterdeck.api.model import UNSET, Maybe, Model, omitempty
from quarterdeck.api.resource import Resource

__all__ = ["Event", "EventSeries"]


class EventSeries(Model):
    count: Annotated[Maybe[int], Int32, Required()] = UNSET
    last_observed_time: Annotated[OptionalMicroTime, Required()] = UNSET


class Event(Resource, group="events.k8s.io", version="v1", plural="events", short_names=["ev"]):
    event_time: Annotated[OptionalMicroTime, Required()] = UNSET
    series: Maybe[EventSeries] = UNSET
    reporting_controller: str = omitempty("")
    reporting_instance: str = omitempty("")
    action: str = omitempty("")
    reason: str = omitempty("")
    regarding: ObjectReference = omitempty(ObjectReference())
    related: Maybe[ObjectReference] = UNSET
    note: str = omitempty("")
    type: str = omitempty("")
    deprecated_source: EventSource = omitempty(EventSource())
    deprecated_first_timestamp: OptionalTime = UNSET
    deprecated_last_timestamp: OptionalTime = UNSET
    deprecated_count: Annotated[Maybe[int], Int32] = UNSET
