"""Options of a reflector, and the protocol of its observer."""

from typing import Final

import msgspec

from quarterdeck.runtime.cache.health import Health

PAGE_SIZE: Final = 500
_JSON: Final = "application/json"


class ReflectorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one list/watch."""

    namespace: str = ""
    """Namespace to list and watch; empty means all."""
    label_selector: str = ""
    field_selector: str = ""
    accept_list: str = _JSON
    accept_watch: str = _JSON
    stream_lists: bool = True
    """Ask for the first list as a stream; falls back to a plain list where it is not supported."""
    bookmarks: bool = True
    """Ask for bookmarks; without them the silence alarm is off."""
    silence: float = 70.0
    """Seconds without a byte after which the connection counts as dead; 0 switches the alarm off.

    kube-apiserver sends a bookmark every minute and keeps 75 s of history.
    """
    watch_timeout: tuple[int, int] = (300, 600)
    """The server is asked to end each watch after a random time in this range, seconds."""
    internal_error_window: float = 0.0
    """Seconds during which 500s in the stream do not cause a new list; counted from the first of them."""
    page_size: int = PAGE_SIZE


class ReflectorStatistics(msgspec.Struct, frozen=True):
    """What a reflector has done so far."""

    health: Health
    version: str
    """The version a new watch would start from."""
    last_event: float | None
    """Loop time of the last event or bookmark."""
    lists: int
    """Lists, streamed ones included."""
    relists: dict[str, int]
    """Lists after the first, by reason."""
    watches: int
    """Watches opened."""
    skipped: int
    """Objects that could not be read."""
    is_watching: bool
    """Whether a watch is open now, behind a complete list."""
    began_current: bool = False
    """Whether the first list had everything that was written before it was asked for, as streamed ones have;
    a plain one is of any version, so that many clients at once do not weigh on the server."""
