"""How a pass over an object ends: done, not yet, or with an error that its status tells."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from quarterdeck.api import GroupVersionKind, Resource, Time, Writable, to_dict
from quarterdeck.client import MergePatch, metadata_of
from quarterdeck.errors import (
    AlreadyExists,
    Conflict,
    ForeignObject,
    NotFound,
    QuarterdeckError,
    ignore_not_found,
)
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.kinship import missing_metadata
from quarterdeck.operators.grove.logic.verdict import Verdict, with_verdicts
from quarterdeck.operators.grove.types import LastError
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result
from quarterdeck.runtime.reconcile.statuswrite import write_status as send_status

_SOON: Final = 0.02

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
    except (NotYet, Conflict, AlreadyExists, ForeignObject):
        raise  # no failure: what comes by itself, what is there already; whose it is is told at the end
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

    @property
    def foreign(self) -> ForeignObject | None:
        """Somebody else's object that has a name that was needed."""
        for error in (self.error, getattr(self.error, "__cause__", None)):
            if isinstance(error, ForeignObject):
                return error
        return None

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
        if self.foreign is not None:
            self.come_back(names.RETRY)  # when it is gone nobody tells us, for it was never ours
        elif self.error is not None:
            raise self.error
        return Requeue(after=self.after, reason="not-yet") if self.after is not None else None


async def write_status(ctx: Context[R], status: Any) -> bool:
    """Write the status of the object if it differs; returns whether it did. Conditions of others stay."""
    before, after = to_dict(getattr(ctx.obj, "status")), to_dict(status)  # noqa: B009  every kind here has one
    if before == after:
        return False
    try:
        answer = await send_status(ctx.client, ctx.obj, before, after)
    except NotFound:
        ctx.note_gone()
        return True
    if answer is not None:
        ctx.replace(ctx.client.represent(type(ctx.obj)).read(answer))
    return True


async def report_status(ctx: Context[R], status: Any, sweep: Sweep) -> bool:
    """Write the status at the end of a pass; if others write all the time, look again soon.

    Returns whether the status is what is given now. When a name is found to be taken, an event says by whom.
    """
    before = getattr(ctx.obj, "status").last_errors  # noqa: B009  every kind here has one
    try:
        await write_status(ctx, status)
    except Conflict:
        sweep.come_back(_SOON, "conflict")
        return False
    if sweep.foreign is not None and status.last_errors != before:
        ctx.event("Warning", "NameTaken", str(sweep.foreign))
    return True


async def put_back(ctx: Context[Any], wanted: Writable) -> None:
    """An object of ours that is made once is there: put back what others took off its metadata."""
    kind = metadata_of(GroupVersionKind.parse(wanted.api_version, wanted.kind))
    with ignore_not_found():
        present = await ctx.client.get(kind, wanted.metadata.name, wanted.metadata.namespace)
        missing = missing_metadata(present.metadata, wanted.metadata)
        if missing and not present.metadata.is_deleting:
            patch = {"metadata": {**missing, "uid": present.metadata.uid}}
            await ctx.patch(wanted, MergePatch(patch))


async def set_condition(ctx: Context[Any], obj: Resource, verdict: Verdict, **fields: object) -> None:
    """Set one condition of an object that others set conditions of, and plain fields of its status."""
    status: Any = getattr(obj, "status")  # noqa: B009  every kind here has one
    conditions = with_verdicts(status.conditions, (verdict,), now=ctx.now())
    before = to_dict(status)
    await send_status(ctx.client, obj, before, {**before, **fields, "conditions": to_dict(conditions)})


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
