"""Structured log records: a fixed event text, and values as fields.

``FieldLogger`` is the one adapter the runtime logs through. The text never contains values; they travel in
``record.fields`` (a dictionary) together with the fields bound to the current task by ``bound_fields``, so
that a library logging inside a reconcile inherits its keys. Formatting is the business of
``quarterdeck.runtime.log``; without it the standard formatter prints the event text.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_EMPTY: Final[Mapping[str, object]] = {}
_fields: ContextVar[Mapping[str, object]] = ContextVar("quarterdeck_log_fields", default=_EMPTY)


def current_fields() -> Mapping[str, object]:
    """The fields bound to the current task."""
    return _fields.get()


def bound_fields(**fields: object) -> "Bound[Mapping[str, object]]":
    """Add fields to every record logged inside the block, by anybody, in this task and its children."""
    return Bound(_fields, {**_fields.get(), **fields})


class LazyFields(Mapping[str, object]):
    """``bound_fields`` for what runs thousands of times a second and hardly ever logs.

    The fields are made by ``make`` when somebody logs inside the block, and not before.
    """

    __slots__ = ("_made", "_make", "_outer", "_token")

    def __init__(self, make: Callable[[], Mapping[str, object]]) -> None:
        self._make: Final = make
        self._made: Mapping[str, object] | None = None

    def __enter__(self) -> None:
        self._outer = _fields.get()
        self._token = _fields.set(self)

    def __exit__(self, *error: object) -> None:
        _fields.reset(self._token)

    def _all(self) -> Mapping[str, object]:
        if self._made is None:
            self._made = {**self._outer, **self._make()}
        return self._made

    def __getitem__(self, key: str) -> object:
        return self._all()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


class Bound(Generic[T]):
    """A context variable with a value inside a block; entered for every reconcile, so not a generator."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable: Final = variable
        self._value: Final = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *error: object) -> None:
        self._variable.reset(self._token)


class FieldLogger:
    """A standard logger with fields instead of format arguments."""

    __slots__ = ("_bound", "_logger")

    def __init__(self, logger: logging.Logger, bound: Mapping[str, object] = _EMPTY) -> None:
        self._logger: Final = logger
        self._bound: Final = bound

    def bind(self, **fields: object) -> "FieldLogger":
        """A logger that adds these fields to every record."""
        return FieldLogger(self._logger, {**self._bound, **fields})

    def debug(self, event: str, **fields: object) -> None:
        """Log for those who look for something."""
        self._log(logging.DEBUG, event, fields, None)

    def info(self, event: str, **fields: object) -> None:
        """Log what happens in normal operation."""
        self._log(logging.INFO, event, fields, None)

    def warning(self, event: str, error: BaseException | None = None, **fields: object) -> None:
        """Log what will need attention if it goes on."""
        self._log(logging.WARNING, event, fields, error, trace=False)

    def error(
        self, event: str, error: BaseException | None = None, *, trace: bool = True, **fields: object
    ) -> None:
        """Log a failure, with its traceback unless ``trace=False``."""
        self._log(logging.ERROR, event, fields, error, trace=trace)

    def _log(
        self,
        level: int,
        event: str,
        fields: Mapping[str, object],
        error: BaseException | None,
        *,
        trace: bool = False,
    ) -> None:
        if not self._logger.isEnabledFor(level):
            return
        values = {**_fields.get(), **self._bound, **fields}
        if error is not None:
            values["error"] = str(error) or type(error).__name__
        self._logger.log(level, event, extra={"fields": values}, exc_info=error if trace else None)


def get_logger(name: str, **fields: object) -> FieldLogger:
    """The field logger of a module: ``get_logger(__name__)``."""
    return FieldLogger(logging.getLogger(name), fields)
