"""What an object looks like to whoever examines it: makes findings about it."""

from __future__ import annotations

import math
from typing import Final

from .field import Json, of
from .problem import Finding, Subject


class Examined:
    """One object, and the findings about it."""

    def __init__(self, kind: str, obj: Json, *, queue: str = "") -> None:
        """``kind`` is given, because the items of a list need not say theirs."""
        self._kind: Final = kind
        self._queue: Final = queue
        self.metadata: Final = of(obj, "metadata")
        self.spec: Final = of(obj, "spec")
        self.status: Final = of(obj, "status")
        self.created: Final[str] = self.metadata.get("creationTimestamp") or ""

    def found(
        self,
        situation: str,
        reason: str,
        *,
        since: str = "",
        after: float = 0.0,
        until: float = math.inf,
        is_dated: bool = True,
        about: str = "",
        detail: str = "",
    ) -> Finding:
        """A finding about it, from its creation on unless ``since`` says otherwise."""
        subject = Subject(
            kind=self._kind,
            namespace=self.metadata.get("namespace") or "",
            name=self.metadata.get("name") or "",
            detail=detail,
            queue=self._queue,
        )
        return Finding(
            situation=situation,
            subject=subject,
            reason=reason,
            since=since or self.created,
            after=after,
            until=until,
            is_dated=is_dated,
            about=about,
        )
