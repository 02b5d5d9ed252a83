"""How a pass over an object ends: done, not yet, or with an error that its status tells."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from quarterdeck.api import Resource, Time, to_dict
from quarterdeck.client import MergePatch, merge_patch
from quarterdeck.errors import AlreadyExists, Conflict, NotFound, QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import LastError
from quarterdeck.runtime.controller.result import Requeue, Result
from quarterdeck.runtime.reconcile.context import Context

__all__ = ["NotYet", "StepError", "Sweep", "slow_start", "step", "telling_failure", "write_status"]

T = TypeVar("T")
R = TypeVar("R", bound=Resource)


class NotYet(QuarterdeckError):
    """Something has to happen first; the pass ends here and comes back."""

    def __init__(self, message: str, after: float = names.RETRY) -> None:
        super().__init__(message)
        self.after: Final = after


class StepError(QuarterdeckError):
    """A step of a pass failed."""

    def __init__(self, code: str, operation: str, message: str, cause: Exception) -> None:
        super().__init__(f"[Operation: {operation}, Code: {code}] message: {message}, cause: {cause}")
        self.code: Final = code


@contextmanager
def step(code: str, message: str, operation: str = "Sync") -> Iterator[None]:
    """Name what fails inside the block. What comes by itself later (conflicts) is not named."""
    try:
        yield
    except (NotYet, StepError, Conflict):
        raise
    except QuarterdeckError as error:
        raise StepError(code, operation, message, error) from error


@contextmanager
def telling_failure(ctx: Context[Any], reason: str, text: str) -> Iterator[None]:
    """Tell the object by an event what fails inside the block; the error goes on."""
    try:
        yield
    except (NotYet, Conflict, AlreadyExists):
        raise  # no failure: what comes by itself, and what is there already
    except QuarterdeckError as error:
        ctx.event("Warning", reason, f"{text}: {error}")
        raise


class Sweep:
    """What the steps of a pass leave behind for its end."""

    def __init__(self) -> None:
        self.after: float | None = None
        """When to come back."""
        self.is_complete = False
        """All steps were taken."""
        self.error: Exception | None = None
        self.reason = ""
        self.is_followed = False
        """What was written comes back as changes, soon: there is nothing to report before."""

    def come_back(self, after: float, reason: str = "") -> None:
        """Come back after some seconds, or earlier if somebody else wants to."""
        if self.after is None or after < self.after:
            self.after, self.reason = after, reason

    async def run(self, steps: Callable[[], Awaitable[None]]) -> None:
        """Take the steps; errors are kept for the end, because the status is written in any case."""
        try:
            await steps()
            self.is_complete = True
        except NotYet as wait:
            self.come_back(wait.after, str(wait))
        except QuarterdeckError as error:
            self.error = error

    def errors(self, before: Sequence[LastError], now: Time) -> tuple[LastError, ...]:
        """What the status tells about errors; the same again keeps its date."""
        if self.error is None:
            return ()
        if not isinstance(self.error, StepError):
            return tuple(before)
        told = (self.error.code, str(self.error))
        for known in before:
            if (known.code, known.description) == told:
                return (known,)
        return (LastError(code=told[0], description=told[1], observed_at=now),)

    def end(self) -> Result | None:
        """The result of the pass; raises the error that ended it."""
        if self.error is not None:
            raise self.error
        return Requeue(after=self.after, reason="not-yet") if self.after is not None else None


async def write_status(ctx: Context[R], status: Any, *, is_shared: bool = False) -> bool:
    """Write the status of the object if it differs; returns whether it did.

    ``is_shared``: others write parts of it, too. Raises ``Conflict`` then if they did meanwhile.
    """
    before = to_dict(getattr(ctx.obj, "status"))  # noqa: B009  every kind here has one
    difference = merge_patch(before, to_dict(status))
    if not difference:
        return False
    metadata = {"uid": ctx.obj.metadata.uid}
    if is_shared:
        metadata["resourceVersion"] = ctx.obj.metadata.resource_version
    patch = {"metadata": metadata, "status": difference}
    try:
        ctx.replace(await ctx.client.status.patch(ctx.obj, MergePatch(patch)))
    except NotFound:
        ctx.note_gone()
    return True


async def slow_start(items: Sequence[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Do something with many, in batches of 1, 2, 4 …; the first batch with an error is the last."""
    begin, size = 0, 1
    while begin < len(items):
        batch = items[begin : begin + size]
        outcomes = await asyncio.gather(*(act(item) for item in batch), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        begin += size
        size *= 2
