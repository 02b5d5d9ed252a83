"""What all contexts of a controller share, per cluster."""

import msgspec

from quarterdeck.client import Client
from quarterdeck.client.clock import Clock
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.loop.execution import Execution
from quarterdeck.runtime.reconcile.application import AppliedMemory
from quarterdeck.runtime.reconcile.consistency import WriteTracker


class ContextServices(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of one cluster; there is one set for each that a controller serves."""

    client: Client
    """Writes through it are remembered under the key they are made for."""
    cache: Cache
    cluster: str
    field_manager: str
    """Who owns the fields of its writes."""
    clock: Clock
    execution: Execution
    recorder: Recorder
    tracker: WriteTracker | None
    """Which writes the cache has yet to show; ``None`` where reconciles do not wait for that."""
    applied: AppliedMemory
