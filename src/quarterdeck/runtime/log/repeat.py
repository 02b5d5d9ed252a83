"""The same error again and again: logged first, then once a minute with a count."""

from typing import Final

PERIOD: Final = 60.0
_LIMIT: Final = 1024


class RepeatGuard:
    """Decides whether a text is worth logging now."""

    def __init__(self, period: float = PERIOD) -> None:
        self._period: Final = period
        self._seen: dict[str, tuple[float, int]] = {}

    def admit(self, text: str, now: float) -> int | None:
        """``None`` to keep quiet; otherwise how often it was kept quiet since the last time."""
        known = self._seen.get(text)
        if known is not None and now - known[0] < self._period:
            self._seen[text] = (known[0], known[1] + 1)
            return None
        if known is None and len(self._seen) >= _LIMIT:
            self._seen.clear()
        self._seen[text] = (now, 0)
        return known[1] if known is not None else 0
