"""Which key, and which run of it, a task works for: writes are remembered under both."""

from contextvars import ContextVar
from typing import Protocol

from quarterdeck.api import Key
from quarterdeck.client import Call, Response
from quarterdeck.runtime.log.field import Bound


class Run(Protocol):
    """One run of one key, as the recorder of writes sees it."""

    def note_write(self, call: Call, response: Response) -> None:
        """A write of this run succeeded."""
        ...


_key: ContextVar[Key | None] = ContextVar("quarterdeck_key", default=None)
_current: ContextVar["Run | None"] = ContextVar("quarterdeck_reconcile", default=None)


def in_context(context: "Run") -> "Bound[Run | None]":
    """Writes made inside the block belong to this reconcile."""
    return Bound(_current, context)


def working_on(key: Key) -> Bound[Key | None]:
    """What happens inside the block happens for this key."""
    return Bound(_key, key)


def current_key() -> Key | None:
    """The key that is being worked on in this task, if one is."""
    return _key.get()


class ContextWrites:
    """Hands writes to the reconcile that made them; the observer of every controller's client."""

    def written(self, call: Call, response: Response) -> None:
        """Tell the reconcile that is running in this task."""
        context = _current.get()
        if context is not None:
            context.note_write(call, response)
