"""Errors at the edge of a task group: one failure is raised as itself, several as a group."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unwrapped() -> Iterator[None]:
    """Around ``async with TaskGroup()``: a single failure leaves without its wrapping."""
    try:
        yield
    except ExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise
