"""The subscribers to changes of one resource."""

from __future__ import annotations

import logging
from collections.abc import Callable

from .entry import Event

_log = logging.getLogger("quarterdeck.apiserver.storage")

#: takes committed changes, in order; must not wait
Subscriber = Callable[[list[Event]], None]


class Subscribers(dict[object, Subscriber]):
    """Subscribers by whatever they are known by. One that raises costs no other an event."""

    def tell(self, events: list[Event]) -> None:
        for key, notify in list(self.items()):
            try:
                notify(events)
            except Exception:  # noqa: BLE001 - supervision point: the others, and the next commit, go on
                _log.exception("a subscriber failed", extra={"subscriber": repr(key), "rev": events[-1].rev})
