"""What a user writes: a reconciler, as a class or as a plain function."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeAlias, TypeVar

from quarterdeck.api import Resource
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Result

T = TypeVar("T", bound=Resource)

Outcome: TypeAlias = Result | None
ReconcileFunction: TypeAlias = Callable[[Context[T]], Outcome | Awaitable[Outcome]]


class Reconciler(ABC, Generic[T]):
    """Makes the world look like the object says.

    ``reconcile`` learns nothing about what woke it: it works from the present state, and running it once
    more must be harmless. A plain ``def`` instead of ``async def`` is allowed; it runs in a thread and
    waits for coroutines of the context with ``ctx.block_on(...)``.
    """

    @abstractmethod
    def reconcile(self, ctx: Context[T]) -> Outcome | Awaitable[Outcome]:
        """Look at ``ctx.obj`` and act. Objects that are not there never get here."""

    @property
    def is_async(self) -> bool:
        """Whether ``reconcile`` runs on the event loop; otherwise it runs in a thread."""
        return inspect.iscoroutinefunction(self.reconcile)

    async def deleted(self, ctx: DeleteContext) -> None:
        """The object of a key is gone. Best effort: a process that was down at that moment never knows."""


class FunctionReconciler(Reconciler[T]):
    """A reconciler made of a function."""

    def __init__(self, function: ReconcileFunction[T]) -> None:
        self._function: Final = function

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        function = self._function
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  an object with an async __call__
        )

    def reconcile(self, ctx: Context[T]) -> Outcome | Awaitable[Outcome]:
        """Call the function."""
        return self._function(ctx)


def as_reconciler(given: Reconciler[T] | ReconcileFunction[T]) -> Reconciler[T]:
    """A reconciler, whatever form it was given in."""
    return given if isinstance(given, Reconciler) else FunctionReconciler(given)
