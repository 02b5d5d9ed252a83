"""What the process does with its time, as stacks that flame graphs are drawn from.

A thread looks at all stacks many times a second: no tracing, and nothing to pay for while nobody asks.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import Final

from quarterdeck.wire.http import Request, Response, parse_query, text

PROFILE_PATH: Final = "/debug/pprof/profile"
_SECONDS: Final = 30.0
_MOST: Final = 120.0
_PERIOD: Final = 0.01


async def serve_profile(request: Request) -> Response:
    """Samples of ``?seconds=`` (30 unless said): on each line a stack, outermost call first, and a count."""
    try:
        seconds = float(parse_query(request.raw_query).get("seconds", [str(_SECONDS)])[0])
    except ValueError:
        return text(400, "seconds: expected a number\n")
    if not 0 < seconds <= _MOST:
        return text(400, f"seconds: expected more than 0 and at most {_MOST:g}\n")
    found = await asyncio.to_thread(stacks_during, seconds)
    return text(200, "".join(f"{stack} {count}\n" for stack, count in found.most_common()))


def stacks_during(seconds: float) -> Counter[str]:
    """How often each stack was seen; the thread that looks is left out."""
    found: Counter[str] = Counter()
    own, names = threading.get_ident(), {each.ident: each.name for each in threading.enumerate()}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for ident, frame in sys._current_frames().items():
            if ident != own:
                found[f"{names.get(ident, 'thread')};{_stack(frame)}"] += 1
        time.sleep(_PERIOD)
    return found


def _stack(frame: FrameType | None) -> str:
    calls: list[str] = []
    while frame is not None:
        code = frame.f_code
        calls.append(f"{code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{frame.f_lineno})")
        frame = frame.f_back
    return ";".join(reversed(calls))
