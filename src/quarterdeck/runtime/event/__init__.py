"""Events: what users see in ``kubectl describe``.

::

    async with EventBroadcaster(client) as events:
        recorder = events.recorder("widget-controller")
        recorder.event(widget, "Normal", "Scaled", "Scale", "scaled from 1 to 3")
"""

from quarterdeck.runtime.event.broadcaster import EventBroadcaster
from quarterdeck.runtime.event.recorder import EventRecorder, EventType

__all__ = ["EventBroadcaster", "EventRecorder", "EventType"]
