"""Time as the runtime sees it: one place to ask, so that tests can put another clock there.

Two readings, never mixed: ``monotonic()`` measures spans and orders deadlines, ``time()`` is the date that
goes into objects (conditions, events). Inside a running loop the monotonic reading *is* the loop's time,
so that a virtual-time loop moves everything together.
"""

import asyncio
import time

from quarterdeck.api.instant import Time
from quarterdeck.client.clock import Clock
from quarterdeck.wire import wallclock


class LoopClock:
    """The running event loop's time, and the system's date; a ``quarterdeck.client.clock.Clock``."""

    def monotonic(self) -> float:
        """The loop's time inside a loop, the same system clock outside of one."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return time.monotonic()

    def time(self) -> float:
        """Seconds since 1970: the system's, or the loop's if it keeps a date of its own (virtual time)."""
        return wallclock.now()

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)


def time_now(clock: Clock) -> Time:
    """The clock's date as objects carry it (whole seconds)."""
    return Time.of_timestamp(clock.time())
